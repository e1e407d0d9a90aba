//! Room for executions: what this process may use of memory and tasks by its cgroups, else the machine's memory.

use std::fmt;
use std::path::{Component, Path};

/// Memory that one execution is assumed to need.
const EXECUTION_BYTES: u64 = 96 << 20;
/// Memory that the relay itself is assumed to need.
const RELAY_BYTES: u64 = 64 << 20;
/// Memory that is assumed where the machine does not tell.
const UNKNOWN_BYTES: u64 = 1 << 30;
/// Tasks that are kept for the relay's threads beside those that serve connections, and for the processes that fork workers.
const RELAY_TASKS: u64 = 24;

/// Amount that this process may use, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    amount: u64,
    origin: String,
}

/// What this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes.
    memory: Bound,
    /// Processes and threads; `None`: no cgroup limits them.
    tasks: Option<Bound>,
}

/// Number of executions, with the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) executions: usize,
    pub(crate) reason: String,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.amount, self.origin)
    }
}

impl Room {
    /// Finds out what this process may use.
    pub(crate) fn of_this_process() -> Self {
        Self::read(&|path| std::fs::read_to_string(path).ok())
    }

    /// Finds it out from files, which `read` gives; `None`: there is no such file.
    fn read(read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let meminfo = read(Path::new("/proc/meminfo")).unwrap_or_default();
        let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
        let machine = match total.and_then(|kib| kib.trim().parse::<u64>().ok()) {
            Some(kib) => Bound { amount: kib.saturating_mul(1024), origin: "MemTotal in /proc/meminfo".into() },
            None => Bound { amount: UNKNOWN_BYTES, origin: "a guess: /proc/meminfo does not tell".into() },
        };
        let cgroups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let memory = [("", "", "memory.max"), ("", "", "memory.high"), ("memory", "memory", "memory.limit_in_bytes")];
        let tasks = [("", "", "pids.max"), ("pids", "pids", "pids.max")];
        Self {
            memory: bounds(&cgroups, &memory, read)
                .fold(machine, |least, it| if it.amount < least.amount { it } else { least }),
            tasks: bounds(&cgroups, &tasks, read).min_by_key(|it| it.amount),
        }
    }

    /// Returns how many executions fit: one for each 96 MiB that the relay itself does not need, and at most half of the
    /// tasks that are left, since executions that wait for people have processes without places. `tasks` are those of
    /// threads and of workers that are made ahead.
    pub(crate) fn places(&self, tasks: u64) -> Places {
        let by_memory = self.memory.amount.saturating_sub(RELAY_BYTES) / EXECUTION_BYTES;
        let by_tasks = |bound: &Bound| bound.amount.saturating_sub(RELAY_TASKS + tasks) / 2;
        let (executions, bound) = match &self.tasks {
            Some(bound) if by_tasks(bound) < by_memory => (by_tasks(bound), bound),
            _ => (by_memory, &self.memory),
        };
        let executions = usize::try_from(executions).unwrap_or(usize::MAX).max(1);
        Places { executions, reason: bound.to_string() }
    }

    /// Returns the number of executions that a setting names, or as many as fit if it is 0.
    pub(crate) fn places_or(&self, setting: usize, tasks: u64) -> Places {
        let fitting = self.places(tasks);
        match setting {
            0 => fitting,
            _ if setting > fitting.executions => {
                let fit = fitting.executions;
                Places { executions: setting, reason: format!("the setting, although {fit} fit by {}", fitting.reason) }
            }
            _ => Places { executions: setting, reason: "the setting".into() },
        }
    }

    /// Returns how many bytes the workers of parked executions may hold: a quarter of the memory.
    pub(crate) fn parked_bytes(&self) -> u64 {
        self.memory.amount / 4
    }
}

/// Lists the bounds that the groups of this process set, and the groups around them. `files` are the controller in
/// `/proc/self/cgroup` (empty: version 2), the folder below `/sys/fs/cgroup`, and the file's name.
fn bounds(
    cgroups: &str,
    files: &[(&str, &str, &str)],
    read: &dyn Fn(&Path) -> Option<String>,
) -> impl Iterator<Item = Bound> {
    let mut found = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        // In a container, the path may be that outside. The root is the container's own group then.
        let is_inside = Path::new(group).components().all(|part| !matches!(part, Component::ParentDir));
        let group = Path::new(if is_inside { group } else { "/" });
        for (controller, folder, file) in files {
            if !controllers.split(',').any(|it| it == *controller) {
                continue;
            }
            for group in group.ancestors() {
                let group = group.strip_prefix("/").unwrap_or(group);
                let path = Path::new("/sys/fs/cgroup").join(folder).join(group).join(file);
                // A group without a limit has the text `max`.
                let amount = read(&path).and_then(|text| text.trim().parse().ok());
                found.extend(amount.map(|amount| Bound { amount, origin: path.display().to_string() }));
            }
        }
    }
    found.into_iter()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const V2: (&str, &str) = ("/proc/self/cgroup", "0::/system.slice/relay.service\n");
    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");

    fn room(files: &[(&str, &str)]) -> Room {
        let found = |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path);
        Room::read(&|path| found(path).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let own = "/sys/fs/cgroup/system.slice/relay.service/";
        let slice = "/sys/fs/cgroup/system.slice/memory.max";
        let v1 = ("/proc/self/cgroup", "4:memory:/docker/1f\n3:cpu,pids:/docker/1f\n0::/\n");
        for (files, bytes, origin) in [
            (vec![], GIB, "a guess: /proc/meminfo does not tell"),
            (vec![("/proc/meminfo", "MemTotal: many\n"), V2], GIB, "a guess: /proc/meminfo does not tell"),
            (vec![MACHINE], 16 * GIB, "MemTotal in /proc/meminfo"),
            (vec![MACHINE, V2], 16 * GIB, "MemTotal in /proc/meminfo"),
            (
                vec![MACHINE, V2, (&format!("{own}memory.max"), "max\n"), (slice, "max\n")],
                16 * GIB,
                "MemTotal in /proc/meminfo",
            ),
            (
                vec![MACHINE, V2, (&format!("{own}memory.max"), "2147483648\n")],
                2 * GIB,
                "/sys/fs/cgroup/system.slice/relay.service/memory.max",
            ),
            (vec![MACHINE, V2, (&format!("{own}memory.max"), "2147483648\n"), (slice, "1073741824\n")], GIB, slice),
            (
                vec![MACHINE, V2, (&format!("{own}memory.high"), "1073741824\n")],
                GIB,
                "/sys/fs/cgroup/system.slice/relay.service/memory.high",
            ),
            (vec![MACHINE, V2, ("/sys/fs/cgroup/memory.max", "1073741824\n")], GIB, "/sys/fs/cgroup/memory.max"),
            (
                vec![MACHINE, V2, ("/sys/fs/cgroup/memory.max", "99999999999999\n")],
                16 * GIB,
                "MemTotal in /proc/meminfo",
            ),
            (
                vec![MACHINE, v1, ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")],
                GIB,
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ),
            (
                vec![MACHINE, v1, ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")],
                16 * GIB,
                "MemTotal in /proc/meminfo",
            ),
            (
                vec![
                    MACHINE,
                    ("/proc/self/cgroup", "0::/../../other\n"),
                    ("/sys/fs/cgroup/../../other/memory.max", "1\n"),
                ],
                16 * GIB,
                "MemTotal in /proc/meminfo",
            ),
        ] {
            let memory = room(&files).memory;
            assert_eq!((memory.amount, memory.origin.as_str()), (bytes, origin), "{files:?}");
        }
    }

    #[test]
    fn places_follow_from_the_memory_or_from_the_tasks() {
        let limited = |bytes: &'static str, tasks: &'static str| {
            room(&[MACHINE, V2, ("/sys/fs/cgroup/memory.max", bytes), ("/sys/fs/cgroup/pids.max", tasks)])
        };
        let by_memory = "1073741824 of /sys/fs/cgroup/memory.max";
        for (room, tasks, executions, reason) in [
            (limited("1073741824", "256"), 10, 10, by_memory),
            (limited("1073741824", "max"), 10, 10, by_memory),
            (limited("1", "256"), 10, 1, "1 of /sys/fs/cgroup/memory.max"),
            (limited("max", "256"), 10, 111, "256 of /sys/fs/cgroup/pids.max"),
            (limited("1073741824", "54"), 10, 10, by_memory),
            (limited("1073741824", "53"), 10, 9, "53 of /sys/fs/cgroup/pids.max"),
            (limited("1073741824", "8"), 10, 1, "8 of /sys/fs/cgroup/pids.max"),
            (room(&[MACHINE]), 10, 170, "17179869184 of MemTotal in /proc/meminfo"),
        ] {
            assert_eq!(room.places(tasks), Places { executions, reason: reason.into() }, "{room:?}");
        }
        assert_eq!(limited("1073741824", "max").parked_bytes(), GIB / 4);
    }

    #[test]
    fn a_setting_wins_and_says_when_it_is_more_than_fits() {
        let room = room(&[MACHINE]);
        assert_eq!(room.places_or(0, 10), room.places(10));
        assert_eq!(room.places_or(3, 10), Places { executions: 3, reason: "the setting".into() });
        let many = room.places_or(999, 10);
        assert_eq!(many.executions, 999);
        assert_eq!(many.reason, "the setting, although 170 fit by 17179869184 of MemTotal in /proc/meminfo");
    }
}
