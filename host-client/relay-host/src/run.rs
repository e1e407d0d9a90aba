//! `run`: runs one script, from a file or from standard input.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::Path;

use host_client::{Client, ExecuteRequest, LargeIntegers, LimitName};

use crate::args::{ExecutionArgs, LargeIntegersArg, RunArgs};
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::output::note;
use crate::progress::Progress;
use crate::report::{Ended, print_unstarted};
use crate::session::Session;

/// Runs the command, where the run is not durable.
pub(crate) async fn run(args: RunArgs, progress: &Progress) -> Result<(), Failure> {
    if args.json {
        progress.hide();
    }
    match execute_file(&args, progress).await {
        Ok(ended) if args.json => ended.show_json(),
        Ok(ended) => ended.show_as(args.execution.fit.as_deref(), progress),
        Err(failure) if args.json => print_unstarted(failure),
        Err(failure) => Err(failure),
    }
}

/// Reads the script, and runs it in a session of its own.
async fn execute_file(args: &RunArgs, progress: &Progress) -> Result<Ended, Failure> {
    let code = read(&args.file)?;
    // Created after the read, so that Ctrl-C ends a read of standard input.
    let mut interrupts = Interrupts::new()?;
    let session =
        interrupts.during(Session::open(&args.host, &args.relay, &args.approvals, &args.live, progress)).await?;
    let request = request(code, &args.execution);
    let ended = execute(&session.client, request, progress, &mut interrupts, !args.json).await;
    session.close().await;
    Ok(ended)
}

/// Reads the script from a file, or from standard input for `-`.
pub(crate) fn read(file: &Path) -> Result<String, Failure> {
    let read = if file.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            note("Reading the code from the terminal; Ctrl-D ends it.");
        }
        read_at_most(stdin.lock())
    } else {
        File::open(file).and_then(read_at_most)
    };
    read.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; code that is in no file comes on standard input: relay-host run -",
            _ => "",
        };
        Failure::usage(format!("{} cannot be read: {error}{hint}", file.display()))
    })
}

/// Reads a script of at most the maximum that any relay accepts.
fn read_at_most(from: impl Read) -> io::Result<String> {
    let most = LimitName::SourceBytes.maximum();
    let mut code = String::new();
    from.take(most + 1).read_to_string(&mut code)?;
    if code.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes, which no relay takes")));
    }
    Ok(code)
}

/// Makes a request with the options of the command line.
pub(crate) fn request(code: String, args: &ExecutionArgs) -> ExecuteRequest {
    let mut request = ExecuteRequest::for_model(code);
    for (name, value) in &args.limit {
        request = request.limit(*name, *value);
    }
    request = request.large_integers(match args.large_integers {
        LargeIntegersArg::Number => LargeIntegers::Number,
        LargeIntegersArg::Text => LargeIntegers::Text,
        LargeIntegersArg::Bigint => LargeIntegers::BigInt,
    });
    if !args.tool.is_empty() {
        request = request.tools(args.tool.iter().cloned());
    }
    match args.phase {
        Some(phase) => request.phase(phase.into()),
        None => request,
    }
}

/// Runs a request, shows its progress and output, and cancels it on Ctrl-C.
pub(crate) async fn execute(
    client: &Client,
    request: ExecuteRequest,
    progress: &Progress,
    interrupts: &mut Interrupts,
    prints: bool,
) -> Ended {
    let mut execution = match client.execute(request).await {
        Ok(execution) => execution,
        Err(error) => return Ended { outcome: Err(error), printed: 0 },
    };
    let watching = execution.events().map(|events| progress.watch(events, prints));
    let outcome = tokio::select! {
        outcome = &mut execution => outcome,
        () = interrupts.next() => {
            execution.cancel();
            (&mut execution).await
        }
    };
    // Dropping the execution ends its events.
    drop(execution);
    let printed = match watching {
        Some(watching) => watching.await.unwrap_or_default(),
        None => 0,
    };
    Ended { outcome, printed }
}
