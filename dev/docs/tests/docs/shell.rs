//! Runs the blocks of shell: those of a page one after the other, in a folder with the files that they name.
//!
//! Commands that CI runs as a whole anyway, or that need a Docker engine or a release, are not run here: [`ELSEWHERE`] has
//! the reason for each, and `elsewhere` checks them in another way. Servers are started, waited for until they say that
//! they listen, and stopped at the end; the ports that the pages name are replaced by free ones.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pages::{Page, pages, root};
use crate::programs::{folder, printed};

/// Lists the commands that are not run here by how they begin, with the reason.
const ELSEWHERE: [(&str, &str); 7] = [
    (
        "cargo xtask",
        "CI runs demo and test as a whole, people the others; that there is such a command with such flags is checked",
    ),
    ("cargo build --release", "the demo and the release builds of CI are made so"),
    ("cargo run -p examples --bin", "installs servers from npm and PyPI; that there is such a program is checked"),
    ("docker run", "needs an image; docker/tests runs it with the same flags, which is checked"),
    ("docker load", "needs a release; `cargo xtask dist` loads what it wrote"),
    ("DOCKER_BUILDKIT=1 docker build", "needs images of a registry; that the file is there is checked"),
    ("sha256sum --check SHA256SUMS", "needs a release; `cargo xtask dist` writes that file"),
];

/// Lists the programs that the blocks may use, beside `unset`.
const PROGRAMS: [&str; 7] = ["curl", "echo", "export", "openssl", "python3", "relay-host", "sandbox-relay"];

/// Lists lines that commands of a page must print, because the page says so.
const SAID: [(&str, &str); 3] = [
    ("docs/another-language.md", "\n42\n"),
    ("docs/running-the-relay.md", "{\"output\":\"HELLO\"}\n"),
    ("docs/tokens-and-tls.md", "\n42\n"),
];

/// Limits the time of all commands of one page, in seconds.
const PATIENCE: &str = "120";

/// Says how a command is tried.
#[derive(Debug, PartialEq)]
enum Class {
    /// It is not run here; holds the index in [`ELSEWHERE`].
    Elsewhere(usize),
    /// A client speaks MCP with it on standard input and output.
    Mcp,
    /// It is started and waited for until it listens; holds the port that the page names.
    Server(String),
    /// It is run to its end.
    Plain,
}

/// Finds the class of a command.
///
/// # Errors
/// A program in it is in no table, or its commands are joined by more than a pipe.
fn class(command: &str) -> Result<Class, String> {
    if let Some(at) = ELSEWHERE.iter().position(|(start, _)| command.starts_with(start)) {
        return Ok(Class::Elsewhere(at));
    }
    for stage in stages(command)? {
        let program = stage.split_whitespace().next().unwrap_or_default();
        let program = program.strip_prefix("target/release/").unwrap_or(program);
        if !PROGRAMS.contains(&program) && program != "unset" {
            return Err(format!("{program:?} is neither run here nor in the table of what is run elsewhere"));
        }
    }
    let has = |words: &str| command.contains(words);
    Ok(if has("sandbox-relay serve") || has("relay-host serve-mcp") && has("--http ") {
        Class::Server(ports(command).into_iter().next().unwrap_or_else(|| "8080".into()))
    } else if has("relay-host serve-mcp") {
        Class::Mcp
    } else {
        Class::Plain
    })
}

/// Splits a command into those of a pipe and those within `$(…)`.
///
/// # Errors
/// A quote is not closed, or commands are joined in another way than by a pipe.
fn stages(command: &str) -> Result<Vec<String>, String> {
    let (mut stages, mut quote) = (vec![String::new()], None);
    for character in command.replace("$(", "|").chars() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ';' | '&' | '`') => return Err(format!("{character:?} joins commands: give each its own line")),
            (None, '|') => {
                stages.push(String::new());
                continue;
            }
            _ => {}
        }
        stages.last_mut().unwrap().push(character);
    }
    match quote {
        None => Ok(stages.iter().map(|stage| stage.trim().to_owned()).collect()),
        Some(_) => Err("a quote is not closed in its line".into()),
    }
}

/// Finds the ports of loopback that a command names.
fn ports(command: &str) -> Vec<String> {
    let hosts = ["127.0.0.1:", "localhost:"];
    let after = hosts.into_iter().flat_map(|host| command.split(host).skip(1));
    let found = after.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    found.filter(|port| port.len() >= 4).collect()
}

/// Splits a block into commands: lines without comments; lines that end with a backslash are joined.
fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let without_comment = |line: &str| {
        let mut quote = None;
        let mut before = ' ';
        for (at, character) in line.char_indices() {
            match (quote, character) {
                (None, '#') if before.is_whitespace() => return line[..at].trim().to_owned(),
                (None, '\'' | '"') => quote = Some(character),
                (Some(open), _) if open == character => quote = None,
                _ => {}
            }
            before = character;
        }
        line.trim().to_owned()
    };
    joined.lines().map(without_comment).filter(|line| !line.is_empty()).collect()
}

/// Makes one script of the blocks of a page.
fn script(page: &Page) -> String {
    let mut script = "set -euo pipefail\nservers=\ntrap 'kill $servers 2>/dev/null || :' EXIT\n".to_owned();
    for block in page.blocks.iter().filter(|block| block.language() == "sh") {
        for command in commands(&block.text) {
            let place = format!("{}:{}: {command}", page.name, block.line);
            let class = class(&command).unwrap_or_else(|why| panic!("{place}: {why}"));
            writeln!(script, "echo {} >&2", quoted(&place)).unwrap();
            match class {
                Class::Elsewhere(at) => elsewhere(at, &command, &place),
                Class::Mcp => writeln!(script, "python3 mcp_client.py {command}").unwrap(),
                Class::Server(port) => {
                    let own = format!(":{port}");
                    // The variable has an effect only where the command has no `--listen`.
                    let command = format!("RELAY_LISTEN=127.0.0.1:0 exec {}", command.replace(&own, ":0"));
                    writeln!(
                        script,
                        "if [ -n \"${{pid_{port}:-}}\" ]; then kill \"$pid_{port}\"; fi\n\
                         exec {{out_{port}}}< <({command})\n\
                         pid_{port}=$!; servers=\"$servers $pid_{port}\"\n\
                         read -r ready <&\"$out_{port}\"\n\
                         [[ $ready == 'listening on '*:* ]]\n\
                         port_{port}=${{ready##*:}}; port_{port}=${{port_{port}%%/*}}"
                    )
                    .unwrap();
                }
                Class::Plain => {
                    let mut command = command.clone();
                    for port in ports(&command) {
                        command = command.replace(&format!(":{port}"), &format!(":${{port_{port}}}"));
                    }
                    writeln!(script, "{command}").unwrap();
                }
            }
        }
    }
    script
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Checks a command that is not run, as far as that is possible without running it.
fn elsewhere(at: usize, command: &str, place: &str) {
    match ELSEWHERE[at].0 {
        "cargo xtask" => {
            let words: Vec<_> = command.split_whitespace().skip(2).collect();
            let help = printed_by_xtask(words[0]);
            let flags = words.iter().filter(|word| word.starts_with("--"));
            for flag in flags {
                let program = match words[0] {
                    "bench" => "relay-bench",
                    "demo" => "quickstart",
                    _ => "relay-study",
                };
                // The command may pass its arguments on to that program.
                let takes = |help: &str| help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n"));
                assert!(takes(&help) || takes(&printed(program, &["--help"])), "{place}: there is no {flag}");
            }
        }
        "cargo run -p examples --bin" => {
            let name = command.split_whitespace().nth(5).unwrap();
            let manifest = fs::read_to_string(root().join("examples/Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{place}: there is no such program");
        }
        "docker run" => {
            let tests = fs::read_to_string(root().join("docker/tests/container.rs")).unwrap();
            let flags =
                ["--read-only", "--cap-drop=ALL", "--security-opt", "no-new-privileges", "--pids-limit", "--memory"];
            let hardening = flags.iter().filter(|flag| command.contains(**flag));
            for flag in hardening {
                assert!(tests.contains(&format!("\"{flag}\"")), "{place}: docker/tests does not run with {flag}");
            }
        }
        "DOCKER_BUILDKIT=1 docker build" => {
            let file = command.split_whitespace().skip_while(|word| *word != "-f").nth(1).unwrap();
            assert!(root().join(file).is_file(), "{place}: there is no {file}");
        }
        _ => {}
    }
}

fn printed_by_xtask(command: &str) -> String {
    // xtask works in the workspace, whose path cargo passes in this variable.
    let output = Command::new(crate::programs::program("xtask"))
        .args(["help", command])
        .env("CARGO_MANIFEST_DIR", root().join("dev/xtask"))
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo xtask {command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a folder with all files that commands name.
fn fixtures(page: &Page) -> tempfile::TempDir {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    for entry in fs::read_dir(root().join("dev/docs/tests/fixtures")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), temporary.path().join(entry.file_name())).unwrap();
    }
    fs::create_dir_all(path("src")).unwrap();
    fs::create_dir_all(path("target")).unwrap();
    fs::write(path("src/main.rs"), "// TODO: something\n").unwrap();
    std::os::unix::fs::symlink(folder(), path("target/release")).unwrap();
    let programs: Vec<_> = page.blocks.iter().filter(|block| block.language() == "py").collect();
    assert!(programs.len() < 2, "{}: which of them is host.py?", page.name);
    if let Some(program) = programs.first() {
        fs::write(path("host.py"), &program.text).unwrap();
    }
    temporary
}

/// Runs the blocks of a page and returns their standard output.
fn run(page: &Page) -> String {
    let folder = fixtures(page);
    let file = folder.path().join("page.sh");
    fs::write(&file, script(page)).unwrap();
    // A session without a terminal, so that no program can ask a question there.
    let mut command = Command::new("setsid");
    command.args(["--wait", "timeout", "--kill-after=5", PATIENCE, "bash"]).arg(&file).current_dir(folder.path());
    command.env_clear().env("PATH", path()).env("HOME", folder.path());
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let (out, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {}\n{log}\n{out}", page.name, output.status);
    out
}

/// Puts the programs of this build before all others.
fn path() -> String {
    let before = std::env::var("PATH").unwrap();
    let paths: Vec<PathBuf> = std::iter::once(folder()).chain(std::env::split_paths(&before)).collect();
    std::env::join_paths(paths).unwrap().into_string().unwrap()
}

#[test]
fn every_command_runs_or_is_run_elsewhere() {
    for program in ["relay-host", "sandbox-relay"] {
        crate::programs::program(program);
    }
    let all: Vec<Page> =
        pages().into_iter().filter(|page| page.blocks.iter().any(|it| it.language() == "sh")).collect();
    let printed: Vec<(String, String)> = std::thread::scope(|scope| {
        let running: Vec<_> = all.iter().map(|page| scope.spawn(|| (page.name.clone(), run(page)))).collect();
        running.into_iter().map(|page| page.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    for (name, said) in SAID {
        let (_, out) = printed.iter().find(|(page, _)| page == name).unwrap();
        assert!(format!("\n{out}").contains(said), "{name} does not print {said:?}, but:\n{out}");
    }
}

#[test]
fn what_is_run_elsewhere_stands_in_a_page() {
    let mut used = BTreeSet::new();
    for block in pages().iter().flat_map(|page| &page.blocks).filter(|block| block.language() == "sh") {
        for command in commands(&block.text) {
            if let Ok(Class::Elsewhere(at)) = class(&command) {
                used.insert(at);
            }
        }
    }
    assert_eq!(used.len(), ELSEWHERE.len(), "a line of the table is of no use: {used:?}");
    assert!(ELSEWHERE.iter().all(|(_, why)| why.len() > 20), "each has its reason");
}

#[test]
fn the_two_commands_of_a_fresh_machine_are_those_of_the_readme() {
    let readme = crate::pages::page("README.md");
    let first = readme.blocks.iter().filter(|block| block.language() == "sh").take(2);
    assert_eq!(
        first.flat_map(|block| commands(&block.text)).collect::<Vec<_>>(),
        ["cargo xtask demo", "cargo xtask test"]
    );
    assert!(Path::new(&root().join(".ci/run")).is_file());
}

#[test]
fn a_command_of_no_class_is_found() {
    assert_eq!(commands("a \\\n  b # c\n\n# d\ne 'f # g'\n"), ["a    b", "e 'f # g'"]);
    for wrong in
        ["rm -r /", "echo a | sh", "export A=$(curl x | sh)", "echo a; ls", "echo 'a", "cargo publish", "docker ps"]
    {
        assert!(class(wrong).is_err(), "{wrong}");
    }
    for (command, expected) in [
        ("sandbox-relay serve --dev", Class::Server("8080".into())),
        ("sandbox-relay serve --listen 127.0.0.1:8443", Class::Server("8443".into())),
        ("relay-host serve-mcp --mcp a --http 127.0.0.1:7000", Class::Server("7000".into())),
        ("relay-host serve-mcp --mcp a", Class::Mcp),
        ("echo 'a; b' | target/release/relay-host run -", Class::Plain),
        ("cargo xtask demo", Class::Elsewhere(0)),
    ] {
        assert_eq!(class(command), Ok(expected), "{command}");
    }
}
