//! `repl`: runs code line by line. Each line is a program of its own, and shares no state with the next.

use std::io::{self, IsTerminal as _};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};

use crate::args::ReplArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::output::note;
use crate::progress::Progress;
use crate::run::{execute, request};
use crate::session::Session;

/// Text of `.help`.
const HELP: &str = "\
Each line is a program of its own: an expression, or statements with `return`. A tool is called so:
  await server.tool({})    or    await mcp.call('server.tool', {})
.tools lists the tools, .help shows this, .exit or Ctrl-D ends. Ctrl-C cancels what runs.";
/// Maximum length of the list of tools, in estimated tokens.
const MAX_TOOLS_TOKENS: usize = 5_000;

/// Parsed line.
enum Line<'a> {
    Nothing,
    Exit,
    Help,
    Tools,
    Unknown(&'a str),
    Code(&'a str),
}

/// Runs the command.
pub(crate) async fn repl(args: ReplArgs, progress: &Progress) -> Result<(), Failure> {
    let mut interrupts = Interrupts::new()?;
    let session =
        interrupts.during(Session::open(&args.host, &args.relay, &args.approvals, &args.live, progress)).await?;
    let before = tcgetattr(io::stdin());
    let ended = lines(&args, &session, progress, &mut interrupts).await;
    if let (Ok(before), Err(_)) = (before, &ended) {
        // The line editor may still be active, and leaves the terminal in its mode. An error means that the terminal is
        // gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
    session.close().await;
    ended
}

/// Reads and runs lines until the end of the input.
async fn lines(
    args: &ReplArgs,
    session: &Session,
    progress: &Progress,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let gone = |error: ReadlineError| Failure::failed(format!("the terminal is gone: {error}"));
    let mut editor = DefaultEditor::with_config(editing()).map_err(gone)?;
    if io::stdin().is_terminal() {
        note(HELP);
    }
    loop {
        let line;
        (editor, line) = interrupts.during(read(editor)).await?;
        let line = match line {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(gone(error)),
        };
        match parse(&line) {
            Line::Nothing => continue,
            Line::Exit => return Ok(()),
            Line::Help => note(HELP),
            Line::Tools => note(session.setup.host.tools().overview(MAX_TOOLS_TOKENS).trim_end()),
            Line::Unknown(command) => note(&format!("There is no {command}; .help shows what there is.")),
            Line::Code(code) => {
                let request = request(code.to_owned(), &args.execution);
                let ended = execute(&session.client, request, progress, interrupts, true).await;
                if let Err(failure) = ended.show_as(args.execution.fit.as_deref(), progress) {
                    note(&failure.text);
                }
                if session.client.is_over() {
                    return Err(Failure::failed("the session with the relay is over"));
                }
            }
        }
        // A full history drops its oldest line.
        let _ = editor.add_history_entry(line);
    }
}

/// Configures the line editor: the prompt goes to the terminal even if standard output is piped.
fn editing() -> Config {
    let is_piped = io::stdin().is_terminal() && !io::stdout().is_terminal();
    Config::builder().behavior(if is_piped { Behavior::PreferTerm } else { Behavior::Stdio }).build()
}

/// Reads a line on a blocking thread, so that the session still answers pings.
async fn read(mut editor: DefaultEditor) -> Result<(DefaultEditor, rustyline::Result<String>), Failure> {
    let read = tokio::task::spawn_blocking(move || {
        let line = editor.readline("> ");
        (editor, line)
    });
    read.await.map_err(|error| Failure::failed(format!("the terminal is gone: {error}")))
}

/// Parses a line.
fn parse(line: &str) -> Line<'_> {
    match line.trim() {
        "" => Line::Nothing,
        ".exit" => Line::Exit,
        ".help" => Line::Help,
        ".tools" => Line::Tools,
        // A dot before a digit begins a number.
        command if command.starts_with('.') && !command[1..].starts_with(|it: char| it.is_ascii_digit()) => {
            Line::Unknown(command)
        }
        code => Line::Code(code),
    }
}
