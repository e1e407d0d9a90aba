//! `call`: one tool, as code would call it.

use crate::args::CallArgs;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::setup::Setup;

#[expect(clippy::print_stdout, reason = "the result that was asked for")]
pub(crate) async fn call(args: CallArgs) -> Result<(), Failure> {
    let arguments = serde_json::from_str(&args.arguments)
        .map_err(|error| Failure::usage(format!("the arguments are no JSON: {error}")))?;
    let progress = Progress::new(true);
    let setup = Setup::new(&args.host, Some(&progress)).await?;
    let result = setup.host.call(&args.tool, &arguments).await;
    progress.clear();
    setup.close().await;
    println!("{}", String::from_utf8_lossy(&result?));
    Ok(())
}
