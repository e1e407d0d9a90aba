//! Reads the files that the command line names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::exit::Failure;

/// Maximum size of a configuration, of a file with a secret and of one with authorities, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a text file of at most 1 MiB.
///
/// # Errors
/// Status 2 with the file and the reason.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => {
            Err(Failure::usage(format!("{} has more than {MAX_FILE_BYTES} bytes", path.display())))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", path.display()))),
    }
}
