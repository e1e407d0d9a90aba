//! The secret that signs links.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::{hmac, rand};

/// The minimum length of a secret, in bytes.
const MIN_BYTES: usize = 32;
/// The maximum length of a secret, in bytes.
const MAX_BYTES: u64 = 4 << 10;

/// The secret that signs approval links: whoever has it can make links.
#[derive(Clone)]
pub struct LinkSecret(Vec<u8>);

/// The reason why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It is shorter than 32 bytes or longer than 4 KiB.
    #[error(
        "the secret of approval links has {0} bytes and needs at least 32, such as those of `openssl rand -hex 32`"
    )]
    Length(usize),
    /// Its file cannot be read or made.
    #[error("the secret of approval links in {path} cannot be used: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The operating system gives no random numbers.
    #[error("there are no random numbers")]
    Random,
}

impl std::fmt::Debug for LinkSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkSecret")
    }
}

impl LinkSecret {
    /// Makes a secret of bytes.
    ///
    /// # Errors
    /// [`SecretError::Length`]: it has less than 32 bytes or more than 4 KiB.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        let bytes = bytes.into();
        let is_long = bytes.len() as u64 > MAX_BYTES;
        if bytes.len() < MIN_BYTES || is_long { Err(SecretError::Length(bytes.len())) } else { Ok(Self(bytes)) }
    }

    /// Makes a random secret: its links end with this process.
    ///
    /// # Errors
    /// [`SecretError::Random`].
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; MIN_BYTES];
        rand::fill(&mut bytes).map_err(|_| SecretError::Random)?;
        Ok(Self(bytes.to_vec()))
    }

    /// Reads a secret from a file, without white space at its ends.
    ///
    /// # Errors
    /// [`SecretError::File`], [`SecretError::Length`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        use std::io::Read as _;

        let path = path.as_ref();
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| SecretError::File { path: path.to_owned(), error })?;
        Self::new(bytes.trim_ascii())
    }

    /// Reads the secret of a file; if there is no such file, makes one with a random secret that its user alone can read.
    ///
    /// # Errors
    /// [`SecretError::File`], [`SecretError::Length`], [`SecretError::Random`].
    pub fn kept_in(path: impl AsRef<Path>) -> Result<Self, SecretError> {
        let path = path.as_ref();
        match Self::from_file(path) {
            Err(SecretError::File { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {}
            read => return read,
        }
        let fault = |error| SecretError::File { path: path.to_owned(), error };
        let mut text = String::new();
        for byte in &Self::random()?.0 {
            text += &format!("{byte:02x}");
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Written whole before it gets its name: another process that makes one at the same time uses the first.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(fault)?;
        match file.persist_noclobber(path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(error.error)),
        }
        Self::from_file(path)
    }

    /// Returns the key for one purpose.
    pub(crate) fn key(&self, purpose: &[u8]) -> hmac::Key {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&secret, purpose).as_ref())
    }
}
