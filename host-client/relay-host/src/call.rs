//! `call`: calls one tool, as code would.

use crate::args::CallArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::output::print_json;
use crate::progress::Progress;
use crate::setup::Setup;

/// Runs the command.
pub(crate) async fn call(args: CallArgs, progress: &Progress) -> Result<(), Failure> {
    let arguments = serde_json::from_str(&args.arguments)
        .map_err(|error| Failure::usage(format!("the arguments are no JSON: {error}")))?;
    let mut interrupts = Interrupts::new()?;
    let setup = interrupts.during(Setup::new(&args.host, Some(progress))).await?;
    let calling = async {
        progress.say(format!("calling {}", args.tool));
        Ok(setup.host.call(&args.tool, &arguments).await?)
    };
    let result = interrupts.during(calling).await;
    progress.clear();
    setup.close().await;
    print_json(&String::from_utf8_lossy(&result?))
}
