//! What the tests need of the system beside Rust: programs that MCP servers are written for.

use std::process::{Command, Stdio};

use anyhow::bail;

use crate::run::{check, step};

/// Each program, with what shows that it works, and the Debian packages that it comes in.
const NEEDED: [(&str, &[&str], &[&str]); 3] = [
    ("npm", &["--version"], &["nodejs", "npm"]),
    ("python3", &["-c", "import ensurepip, venv"], &["python3", "python3-venv"]),
    ("git", &["--version"], &["git"]),
];

/// Makes sure that the tests find MCP servers' interpreters; as root on Debian, installs what is missing.
pub(crate) fn provide() -> anyhow::Result<()> {
    let missing: Vec<_> = NEEDED.into_iter().filter(|(program, arguments, _)| !works(program, arguments)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(program, ..)| *program).collect();
    if !works("apt-get", &["--version"]) {
        bail!(
            "the tests run real MCP servers, which need npm, python3 with venv, and git; missing: {}",
            names.join(", ")
        );
    }
    step(&format!("Installing what MCP servers need: {}", names.join(", ")));
    install(&missing.iter().flat_map(|(.., packages)| *packages).copied().collect::<Vec<_>>())
}

/// Installs Debian packages.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        check(apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    let arguments = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // A machine whose package lists are old or absent needs them first.
    if apt(&arguments).is_err() {
        apt(&["update"])?;
        apt(&arguments)?;
    }
    Ok(())
}

fn works(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
