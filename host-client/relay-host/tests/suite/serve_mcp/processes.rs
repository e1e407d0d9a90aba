//! The processes that a program has started, and whether they are gone.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// A process, told from later ones of the same number by when it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: i32,
    started: String,
    pub(crate) command: String,
}

impl Process {
    /// A process and its parent, unless it has ended.
    fn read(id: i32) -> Option<(Self, i32)> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
        if fields[0] == "Z" {
            return None;
        }
        let command = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some((Self { id, started: fields[19].to_owned(), command }, fields[1].parse().ok()?))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id).unwrap(), signal).unwrap();
    }
}

/// A process and all that descend from it.
pub(crate) fn family(id: u32) -> Vec<Process> {
    let id = i32::try_from(id).unwrap();
    let entries = fs::read_dir("/proc").unwrap();
    let ids = entries.filter_map(|entry| entry.unwrap().file_name().to_str().and_then(|name| name.parse().ok()));
    let all: BTreeMap<i32, (Process, i32)> = ids.filter_map(|id| Some((id, Process::read(id)?))).collect();
    let descends = |mut from: i32| loop {
        if from == id {
            return true;
        }
        match all.get(&from) {
            Some((_, parent)) => from = *parent,
            None => return false,
        }
    };
    all.values().filter(|(process, _)| descends(process.id)).map(|(process, _)| process.clone()).collect()
}

/// The one whose command line has these words.
pub(crate) fn find(family: &[Process], words: &str) -> Process {
    let found = family.iter().find(|process| process.command.contains(words));
    found.unwrap_or_else(|| panic!("{words:?} is not running: {family:#?}")).clone()
}

/// Waits until all of them have ended.
pub(crate) async fn gone(family: &[Process]) {
    for process in family {
        let lives = || Process::read(process.id).is_some_and(|(now, _)| now.started == process.started);
        eventually(&format!("{} ends", process.command), || !lives()).await;
    }
}
