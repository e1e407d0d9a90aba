//! Makes a fingerprint of the sources that the sandbox is made of: what code does when it runs again depends on them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files and folders that the sandbox is made of. A packaged crate has those of its own alone; the versions in the name of
/// the build stand for the rest.
const SOURCES: [&str; 5] = ["src/sandbox", "src/store.rs", "worker.proto", "../proto/src/steps.rs", "../script/src"];
/// Lock file with the versions of the packages that parse and run code.
const LOCK: &str = "../Cargo.lock";
/// Beginnings of their names.
const ENGINES: [&str; 2] = ["\nname = \"v8\"", "\nname = \"oxc_"];

fn main() -> io::Result<()> {
    // Of the same toolchain it is the same; of another one the fingerprint may differ, which is the safe side.
    let mut hasher = DefaultHasher::new();
    // A path that is watched and not there would make every build run this again.
    for path in SOURCES.iter().chain([&LOCK]).filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
    for source in SOURCES {
        for file in files(Path::new(source))? {
            (file.file_name(), fs::read(&file)?).hash(&mut hasher);
        }
    }
    let lock = fs::read_to_string(LOCK).unwrap_or_default();
    let is_engine = |package: &&str| ENGINES.iter().any(|name| package.starts_with(name));
    for package in lock.split("[[package]]").filter(is_engine) {
        package.hash(&mut hasher);
    }
    println!("cargo::rustc-env=SANDBOX_FINGERPRINT={:016x}", hasher.finish());
    Ok(())
}

/// Returns the files in a folder and below it, sorted; of a path that is a file, this one. Nothing is at some paths.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let files = entries.iter().map(|entry| files(entry)).collect::<io::Result<Vec<_>>>()?;
    Ok(files.concat())
}
