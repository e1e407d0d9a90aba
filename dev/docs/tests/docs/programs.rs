//! Runs the programs that the pages are about, as cargo built them beside these tests.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Finds the folder of the built programs: these tests lie one folder deeper.
pub(crate) fn folder() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}

/// Finds a program by its name.
///
/// # Panics
/// It was not built.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(
        path.is_file(),
        "{} is not there: `cargo build --workspace --bins` builds what these tests run",
        path.display()
    );
    path
}

/// Runs a program and returns its standard output.
///
/// # Panics
/// It fails.
pub(crate) fn printed(name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program(name));
    let Output { status, stdout, stderr } = command.args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr).into_owned());
    assert!(status.success(), "{name} {arguments:?}: {status}\n{out}\n{err}");
    out
}

/// Holds a flag as `--help` shows it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Flag {
    /// Name without the dashes.
    pub(crate) name: String,
    pub(crate) variable: Option<String>,
    pub(crate) default: Option<String>,
}

/// Reads the flags of a command, without `help` and `version`.
pub(crate) fn flags(name: &str, command: &[&str]) -> Vec<Flag> {
    let flags = read_flags(&printed(name, &[command, &["--help"]].concat()));
    assert!(!flags.is_empty(), "{name} {command:?} --help shows no flag");
    flags
}

fn read_flags(help: &str) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for line in help.lines() {
        let line = line.trim_start();
        if line.starts_with("-h,") || line.starts_with("-V,") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("--") {
            let name = rest.split(|it: char| it != '-' && !it.is_ascii_alphanumeric()).next().unwrap();
            flags.push(Flag { name: name.to_owned(), ..Flag::default() });
        }
        let Some(flag) = flags.last_mut() else { continue };
        let between = |start: &str| line.split_once(start).and_then(|(_, rest)| rest.split_once(']')).map(|it| it.0);
        if let Some(variable) = between("[env: ") {
            flag.variable = variable.split('=').next().map(str::to_owned);
        }
        if let Some(default) = between("[default: ") {
            flag.default = Some(default.to_owned());
        }
    }
    flags
}

#[test]
fn flags_are_read_with_their_variables_and_defaults() {
    let help = "Options:\n      --a-b <X>  Words [default: 8] [env: A_B=]\n      --dev\n          More [default: the cores]\n\n\
                \u{20} -h, --help  Print\n";
    let flag = |name: &str, variable: Option<&str>, default: Option<&str>| Flag {
        name: name.into(),
        variable: variable.map(Into::into),
        default: default.map(Into::into),
    };
    assert_eq!(read_flags(help), [flag("a-b", Some("A_B"), Some("8")), flag("dev", None, Some("the cores"))]);
}
