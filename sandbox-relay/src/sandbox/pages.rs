//! Undoes what V8 does against forks. `cargo xtask v8` tries an archive of V8 with this same file.
#![expect(unsafe_code, reason = "no safe wrapper advises a range that is an address in a text")]

use std::io;

/// Lets a fork copy the pages that V8 excludes from forks.
///
/// # Errors
/// [`io::Error`]: `/proc` cannot be read, or the kernel refuses.
pub(crate) fn copy_all_on_fork() -> io::Result<usize> {
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut range = None;
    let mut changed = 0;
    for line in smaps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let Some((start, end)) = range.take() else { continue };
            if flags.split_ascii_whitespace().any(|flag| flag == "dc") {
                // SAFETY: MADV_DOFORK changes only whether a fork copies the range, which is a mapping of this process.
                let done = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DOFORK) };
                if done != 0 {
                    return Err(io::Error::last_os_error());
                }
                changed += 1;
            }
        } else if let Some((start, rest)) = line.split_once('-') {
            let end = rest.split_once(' ').map_or("", |(end, _)| end);
            if let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16)) {
                range = Some((start, end));
            }
        }
    }
    Ok(changed)
}
