//! Cache of each server's last list of tools, on disk, so that the tools are known while the server still starts.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::config::ServerConfig;

/// Maximum size of a catalogue file, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Version of the file format. Files of other versions are ignored.
const VERSION: u32 = 1;

/// Catalogue file of one server.
#[derive(Debug, Clone)]
pub(super) struct Catalogue {
    path: PathBuf,
}

/// Content of a catalogue file.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    version: u32,
    tools: T,
}

/// Returns the default folder of catalogues: `sandbox-relay/catalogue` in `$XDG_CACHE_HOME` or `~/.cache`; `None`
/// without either.
pub(super) fn default_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("sandbox-relay").join("catalogue"))
}

impl Catalogue {
    /// Names the file after a digest of the server's name and configuration. Values of variables and headers are left
    /// out of the digest, because they may be secrets.
    pub(super) fn new(folder: &Path, server: &str, config: &ServerConfig) -> Self {
        let identity = match config {
            ServerConfig::Process(process) => {
                let names: Vec<&String> = process.env.keys().collect();
                json!([
                    server,
                    process.command,
                    process.args,
                    process.cwd.as_ref().map(|cwd| cwd.display().to_string()),
                    names
                ])
            }
            ServerConfig::Http(http) => {
                let names: Vec<&str> = http.headers.keys().map(http::HeaderName::as_str).collect();
                json!([server, http.url.as_str(), names])
            }
        };
        let digest = Sha256::digest(identity.to_string());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: folder.join(format!("{name}.json")) }
    }

    /// Reads the file. Returns `None` if it is missing, too large, malformed or of another version.
    pub(super) fn load(&self) -> Option<Vec<Tool>> {
        let file = File::open(&self.path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut json = Vec::new();
        let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut json).ok()?;
        let stored: Stored<Vec<Tool>> = serde_json::from_slice(&json).ok()?;
        (read <= MAX_BYTES && stored.version == VERSION).then_some(stored.tools)
    }

    /// Replaces the file atomically, readable by this user alone.
    pub(super) fn save(&self, tools: &[Tool]) -> io::Result<()> {
        let json = serde_json::to_vec(&Stored { version: VERSION, tools })?;
        if json.len() > MAX_BYTES {
            return Err(io::Error::other("the catalogue is too large to be kept"));
        }
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let draft = self.path.with_extension(format!("{:016x}.new", u64::from_ne_bytes(random)));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| file.write_all(&json))
            .and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            // The draft may not exist.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}
