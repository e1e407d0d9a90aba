//! Downloads files from upstream and from mirrors with curl, which knows the user's proxies and certificates.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::archive::last_line;

/// Exit status of curl for a server that cannot resume a download.
const CANNOT_RESUME: i32 = 33;

/// Downloads a file. An interrupted download is resumed.
pub(super) fn get(address: &str, to: &Path) -> anyhow::Result<()> {
    if to.is_file() {
        return Ok(());
    }
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    // Start again where the server cannot resume, or the part belongs to another file.
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

/// Downloads a file. Returns `false` if the server was asked to resume and could not.
fn fetch(address: &str, part: &Path, resume: bool) -> anyhow::Result<bool> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error", "--connect-timeout", "10", "--retry", "2"]);
    // Give up on a server that stalls.
    curl.args(["--speed-limit", "1024", "--speed-time", "30", "--output"]).arg(part);
    if resume {
        curl.args(["--continue-at", "-"]);
    }
    let done = curl.arg("--").arg(address).stdin(Stdio::null()).output().context("curl cannot be run; install it")?;
    // With status 416 the file was complete before.
    if resume && (done.status.code() == Some(CANNOT_RESUME) || last_line(&done.stderr).contains("416")) {
        return Ok(false);
    }
    if !done.status.success() {
        bail!("{address}: {}", last_line(&done.stderr));
    }
    Ok(true)
}

/// Returns whether a packed file is complete. A file of another kind counts as complete.
fn is_packed_well(part: &Path) -> bool {
    if !part.to_string_lossy().ends_with(".gz.part") {
        return part.is_file();
    }
    let Ok(file) = std::fs::File::open(part) else { return false };
    let mut gzip = Command::new("gzip");
    gzip.arg("--test").stdin(file).stderr(Stdio::null());
    gzip.status().is_ok_and(|status| status.success())
}
