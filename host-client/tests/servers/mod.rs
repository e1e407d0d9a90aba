//! Real MCP servers and clients for tests, pinned by the files in this folder and installed once, on demand, into the target
//! folder.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What pins the servers.
const PINS: [&str; 3] = ["package.json", "package-lock.json", "requirements.txt"];

/// A program of one of the installed packages, such as `mcp-server-everything` or `mcp-server-git`.
///
/// # Panics
/// The packages cannot be installed, or there is no such program.
pub(crate) fn program(name: &str) -> PathBuf {
    let folder = installed();
    let places = [folder.join("node_modules/.bin").join(name), folder.join("venv/bin").join(name)];
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is in no package of tests/servers"))
}

fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // The packages whose tests use them lie at different depths.
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|it| it.join("host-client/tests/servers"));
        let source = sources.into_iter().find(|it| it.is_dir()).expect("the folder of this file");
        // Each set of pins has its folder, so that working copies with different ones can share a target folder.
        let mut pins = DefaultHasher::new();
        PINS.iter().for_each(|name| fs::read(source.join(name)).unwrap().hash(&mut pins));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-servers-{:016x}", pins.finish()));
        fs::create_dir_all(&folder).unwrap();
        // Several test programs may want the servers at the same time.
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        // Nothing counts as done until all of it is.
        let done = folder.join("done");
        if !done.exists() {
            install(&source, &folder);
            File::create(done).unwrap();
        }
        folder
    })
}

fn install(source: &Path, folder: &Path) {
    for name in PINS {
        fs::copy(source.join(name), folder.join(name)).unwrap();
    }
    run(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder));
    run(Command::new("python3").args(["-m", "venv", "--clear", "venv"]).current_dir(folder));
    let pip = folder.join("venv/bin/pip");
    run(Command::new(pip).args(["install", "--quiet", "--requirement", "requirements.txt"]).current_dir(folder));
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!(
            "{command:?} cannot be run: {error}. The tests of MCP need npm, and python3 with venv and pip, on the PATH."
        )
    });
    assert!(
        output.status.success(),
        "{command:?} failed ({}). The tests of MCP install servers from npm and PyPI: are these registries reachable?\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
