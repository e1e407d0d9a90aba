//! This program as a process of its own, which runs one of the ignored tests.

use std::process::Stdio;

use relay_test_support::within;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The environment variable that tells a child what it works on.
const ADDRESS: &str = "JOURNAL_TEST_ADDRESS";
/// Runs a program where it may mount file systems that nobody else sees.
const WITH_MOUNTS: [&str; 4] = ["unshare", "--user", "--map-root-user", "--mount"];

/// Starts a child that runs one test, by its path such as `processes::writes`. It is killed when it is dropped.
pub(crate) fn start(test: &str, address: &str) -> Child {
    command(Command::new(std::env::current_exe().unwrap()), test, address).spawn().unwrap()
}

/// Runs a child to its end. It may mount file systems, which nobody else sees.
pub(crate) async fn run_with_mounts(test: &str, address: &str) {
    let [program, arguments @ ..] = WITH_MOUNTS;
    let mut unshare = Command::new(program);
    unshare.args(arguments).arg(std::env::current_exe().unwrap());
    succeeds(command(unshare, test, address).spawn().unwrap()).await;
}

/// Waits until a child ends, which has to have run its test well.
pub(crate) async fn succeeds(child: Child) {
    let output = within(child.wait_with_output()).await.unwrap();
    let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{error}");
}

/// The lines that a child writes.
pub(crate) fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

/// What this process works on, if it is a child.
pub(crate) fn given_address() -> String {
    std::env::var(ADDRESS).expect("this is for a child of another test, and it is run there")
}

fn command(mut command: Command, test: &str, address: &str) -> Command {
    command.args(["--exact", "--ignored", "--nocapture", test]).env(ADDRESS, address).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
