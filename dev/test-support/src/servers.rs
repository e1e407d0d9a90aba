//! Real MCP servers and clients, pinned by the files in `dev/test-support/servers` and installed on demand into the
//! target folder, once for all tests.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::packages::{Environment, Packages, target_folder};

const SERVERS: Packages = Packages {
    name: "mcp-servers",
    pins: &[
        ("package.json", include_str!("../servers/package.json")),
        ("package-lock.json", include_str!("../servers/package-lock.json")),
        ("requirements.txt", include_str!("../servers/requirements.txt")),
    ],
    environments: &[Environment { folder: "venv", requirements: "requirements.txt" }],
};

/// Finds a program of one of the installed packages, such as `mcp-server-everything` or `mcp-server-git`.
///
/// # Panics
/// The packages cannot be installed, or none of them has a program of this name.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let installed = target_folder().and_then(|target| SERVERS.install_below(&target.join("tmp")));
        installed.unwrap_or_else(|error| panic!("the MCP servers of the tests cannot be had: {error}"))
    });
    find(folder, name).unwrap_or_else(|| panic!("{name} is in no package of dev/test-support/servers"))
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let places = [folder.join("node_modules/.bin").join(name), folder.join("venv/bin").join(name)];
    places.into_iter().find(|path| path.exists())
}
