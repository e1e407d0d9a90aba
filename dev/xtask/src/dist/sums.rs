//! Computes the SHA-256 of a release's files, in the list that `sha256sum --check` reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::run::output;

const LIST: &str = "SHA256SUMS";

/// Writes the list of all other files in the folder.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut files = files(folder)?;
    files.retain(|file| file != Path::new(LIST));
    // Use the program that will check the list. It is faster than a hash compiled without optimization.
    let sums = output(Command::new("sha256sum").arg("--").args(files).current_dir(folder))?;
    fs::write(folder.join(LIST), sums + "\n")?;
    Ok(())
}

/// Reads the list: the sum of each file.
pub(super) fn read(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let list = folder.join(LIST);
    let text = fs::read_to_string(&list).with_context(|| format!("{} cannot be read", list.display()))?;
    let pairs = text.lines().map(|line| {
        let (sum, file) = line.split_once("  ").with_context(|| format!("{} has a line {line:?}", list.display()))?;
        Ok((file.to_owned(), sum.to_owned()))
    });
    pairs.collect()
}

/// Lists all files below a folder, sorted, by paths relative to it.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(&inner).with_context(|| format!("{} cannot be read", inner.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_file_and_sha256sum_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("completions")).unwrap();
        fs::write(folder.path().join("program"), "abc").unwrap();
        fs::write(folder.path().join("completions/_program"), "").unwrap();
        write(folder.path()).unwrap();
        // Written a second time, the list does not contain itself.
        write(folder.path()).unwrap();
        let list = fs::read_to_string(folder.path().join(LIST)).unwrap();
        assert_eq!(
            list,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  completions/_program\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  program\n"
        );
        assert_eq!(read(folder.path()).unwrap()["program"], crate::v8::sha256(&folder.path().join("program")).unwrap());

        let check = || output(Command::new("sha256sum").args(["--check", "--strict", LIST]).current_dir(folder.path()));
        check().unwrap();
        fs::write(folder.path().join("program"), "abd").unwrap();
        assert!(check().is_err());
    }
}
