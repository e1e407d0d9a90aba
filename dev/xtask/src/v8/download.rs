//! Files from upstream and from mirrors, by curl, which knows the user's proxies and certificates.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::archive::last_line;

/// What curl says about a server that does not go on from the middle of a file.
const CANNOT_RESUME: i32 = 33;

/// Gets a file. An interrupted download goes on where it was.
pub(super) fn get(address: &str, to: &Path) -> anyhow::Result<()> {
    if to.is_file() {
        return Ok(());
    }
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    // A server that does not resume, or a part of another file, is asked for the whole.
    if part.exists() && (!fetch(address, part, true)? || !is_packed_well(part)) {
        std::fs::remove_file(part)?;
    }
    if !part.exists() {
        fetch(address, part, false)?;
    }
    if !is_packed_well(part) {
        let size = std::fs::metadata(part)?.len();
        std::fs::remove_file(part)?;
        bail!("{address} gives {size} bytes that are no archive");
    }
    std::fs::rename(part, to).with_context(|| format!("{} cannot be written", to.display()))
}

/// Gives whether the server went on from the middle, where that was asked for.
fn fetch(address: &str, part: &Path, resume: bool) -> anyhow::Result<bool> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error", "--connect-timeout", "10", "--retry", "2"]);
    // A server that stalls is as good as none.
    curl.args(["--speed-limit", "1024", "--speed-time", "30", "--output"]).arg(part);
    if resume {
        curl.args(["--continue-at", "-"]);
    }
    let done = curl.arg("--").arg(address).stdin(Stdio::null()).output().context("curl cannot be run; install it")?;
    // Nothing of the range is left when the whole was there already.
    if resume && (done.status.code() == Some(CANNOT_RESUME) || last_line(&done.stderr).contains("416")) {
        return Ok(false);
    }
    if !done.status.success() {
        bail!("{address}: {}", last_line(&done.stderr));
    }
    Ok(true)
}

/// Whether a packed file is whole. Others cannot be told.
fn is_packed_well(part: &Path) -> bool {
    if !part.to_string_lossy().ends_with(".gz.part") {
        return part.is_file();
    }
    let Ok(file) = std::fs::File::open(part) else { return false };
    let mut gzip = Command::new("gzip");
    gzip.arg("--test").stdin(file).stderr(Stdio::null());
    gzip.status().is_ok_and(|status| status.success())
}
