//! `repl`: code line by line. Each line is a program of its own; nothing is left of it for the next.

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use crate::args::ReplArgs;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::run::{execute, request, show};
use crate::setup::Setup;

pub(crate) async fn repl(args: ReplArgs) -> Result<(), Failure> {
    let progress = Progress::new(true);
    let setup = Setup::new(&args.host, Some(&progress)).await?;
    let (client, relay) = setup.connect(&args.relay).await?;
    eprintln!(
        "Each line is a program of its own: an expression, or statements with `return`. .tools lists the tools, .exit ends."
    );
    let mut editor = DefaultEditor::new().map_err(|error| Failure::usage(format!("there is no terminal: {error}")))?;
    loop {
        // Reading blocks, and answers to pings must not wait for it.
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline("> ");
            (editor, line)
        });
        let line;
        (editor, line) = read.await.map_err(|error| Failure::failed(format!("the terminal is gone: {error}")))?;
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::failed(format!("the terminal is gone: {error}"))),
        };
        match line.trim() {
            "" => continue,
            ".exit" => break,
            ".tools" => eprint!("{}", setup.host.tools().overview(20_000)),
            code => {
                let outcome = execute(&client, request(code.to_owned(), &args.execution), &progress).await;
                if let Err(failure) = show(outcome, false) {
                    eprintln!("{}", failure.text);
                }
                if client.is_over() {
                    return Err(Failure::failed("the session with the relay is over"));
                }
            }
        }
        // A history that is full loses its oldest line.
        let _ = editor.add_history_entry(line);
    }
    drop((client, relay));
    setup.close().await;
    Ok(())
}
