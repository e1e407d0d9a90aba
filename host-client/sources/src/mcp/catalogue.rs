//! The last listing of each server, on disk, so that its tools are known while it still starts.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::config::ServerConfig;

/// The largest catalogue that is read or written, in bytes.
const MAX_BYTES: usize = 16 << 20;
const VERSION: u32 = 1;

/// The place of one server's catalogue.
#[derive(Debug, Clone)]
pub(super) struct Catalogue {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    version: u32,
    tools: T,
}

/// Where catalogues are kept unless the application says otherwise.
pub(super) fn default_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("sandbox-relay").join("catalogue"))
}

impl Catalogue {
    /// That of this server, started like this. Values of variables and headers, which may be secrets, have no part in it.
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

    /// What is there; nothing if there is anything wrong with it.
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

    /// Replaces what is there, at once and for this user's eyes only.
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
            // It may never have been made.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}
