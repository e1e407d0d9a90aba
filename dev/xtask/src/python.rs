//! Tests the Python package: its style, its types, and its tests against the relay of this build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::run::{self, step, target_folder};

/// The sources of the package.
const PACKAGE: &str = "sdk/python";
/// What the tests need from PyPI.
const REQUIREMENTS: &str = "sdk/python/tests/requirements.txt";
/// The native part, as cargo names it and as Python looks for it.
const NATIVE: [&str; 2] = ["libsandbox_relay_python.so", "_native.abi3.so"];

/// Checks and tests the package, whose native part and whose relay an earlier step has built.
pub(crate) fn test() -> anyhow::Result<()> {
    step("Checking and testing the Python package");
    let target = target_folder()?;
    let bin = environment(&target.join("python"))?.join("bin");
    let native = target.join("debug").join(NATIVE[0]);
    let beside = Path::new(PACKAGE).join("python/sandbox_relay").join(NATIVE[1]);
    fs::copy(&native, &beside)
        .with_context(|| format!("{} cannot be copied: build the workspace", native.display()))?;
    let program = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(bin.join(name));
        command.args(arguments).current_dir(PACKAGE);
        command
    };
    run::check(&mut program("ruff", &["check", "."]))?;
    run::check(&mut program("ruff", &["format", "--check", "."]))?;
    run::check(&mut program("mypy", &["python", "tests", "bench", "programs"]))?;
    run::check(program("pyright", &["--pythonpath"]).arg(bin.join("python")))?;
    let mut tests = program("python", &["-m", "pytest", "-p", "no:cacheprovider"]);
    tests.env("PYTHONPATH", "python").env("SANDBOX_RELAY_BIN", target.join("debug/sandbox-relay"));
    run::check_within(run::TEST_LIMIT, &mut tests)
}

/// Makes a virtual environment with what the tests need, unless it is there; returns its folder.
fn environment(parent: &Path) -> anyhow::Result<PathBuf> {
    let (folder, wanted) = (parent.join("venv"), fs::read_to_string(REQUIREMENTS)?);
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(folder);
    }
    fs::create_dir_all(parent)?;
    run::check(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/pip"));
    run::check(pip.args(["install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS]))?;
    fs::write(stamp, wanted)?;
    Ok(folder)
}
