//! Memory that this process may use: that of its cgroup, else that of the machine.

use std::fs;
use std::path::Path;

/// Memory that one execution is assumed to need.
const EXECUTION_BYTES: u64 = 96 << 20;
/// Memory that the relay itself is assumed to need.
const RELAY_BYTES: u64 = 64 << 20;

/// Returns how many executions fit into the memory.
pub(crate) fn executions_for_memory() -> usize {
    usize::try_from(usable_bytes().saturating_sub(RELAY_BYTES) / EXECUTION_BYTES).unwrap_or(usize::MAX).max(1)
}

/// Returns how many bytes the workers of parked executions may hold: a quarter of the memory.
pub(crate) fn parked_for_memory() -> u64 {
    usable_bytes() / 4
}

/// Returns the memory that this process may use, in bytes.
fn usable_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    });
    machine.unwrap_or(1 << 30).min(cgroup_memory().unwrap_or(u64::MAX))
}

/// Returns the memory limit of this process's cgroup, version 2 or 1; `None`: it has none.
fn cgroup_memory() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the root is the container's own group, whatever its path outside.
        for group in [path, ""] {
            let file = Path::new(root).join(group.trim_start_matches('/')).join(file);
            limits.extend(fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits.into_iter().min()
}
