//! Compares the system calls of workers now and with the new V8, seen by strace, with the list of the seccomp filter.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::commands::Project;
use super::report::{Named, Report};
use crate::run::{check_within, output};
use crate::system;

pub(super) const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
const SCRIPT_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a script, in ms. It is long, since strace slows everything down.
const WALL_MS: u64 = 30_000;

/// Source file of the relay that holds the list.
const FILTER: &str = "sandbox-relay/src/sandbox/jail/filter.rs";

/// Name and code of each script, and the way in which it has to end.
const SCRIPTS: [(&str, &str, &str); 5] = [
    ("memory", include_str!("scripts/memory.js"), DONE),
    ("library", include_str!("scripts/library.js"), DONE),
    ("errors", include_str!("scripts/errors.js"), DONE),
    ("compute", include_str!("scripts/compute.js"), DONE),
    ("endless", include_str!("scripts/endless.js"), "\"code\":\"MEMORY_LIMIT\""),
];
const DONE: &str = "{\"output\":\"done\"}";

/// Ways of making workers. In each of them V8 runs other code, before the first script or for it.
const WAYS: [(&str, &[&str]); 3] = [
    ("fork", &["--worker-backend=fork"]),
    ("exec", &["--worker-backend=exec"]),
    ("jit", &["--worker-backend=fork", "--jit"]),
];

/// Observations of all scripts.
#[derive(Debug, Default)]
struct Seen {
    /// System calls of locked workers, each with the first script that made it.
    made: Named,
    /// System calls that ended their worker, as strace shows them, each with the first script.
    killed: Named,
    /// Scripts that did not end as they should.
    failed: Vec<String>,
    workers: usize,
}

/// Checks that strace is there; as root on Debian, installs it.
pub(super) fn provide_strace() -> anyhow::Result<()> {
    let is_root = output(Command::new("id").arg("-u"))? == "0";
    if !system::has("strace") && is_root && system::has("apt-get") {
        system::install(&["strace"])?;
    }
    if !system::has("strace") {
        bail!("strace shows what workers ask of the kernel, and there is none: install it");
    }
    Ok(())
}

/// Builds the relay.
pub(super) fn build(project: &Project) -> anyhow::Result<()> {
    project.run("build", BUILD_LIMIT, project.cargo().args(["build", "--locked", "--package", "sandbox-relay"]))
}

/// Runs the scripts with both, and reports each call that is new, gone, or the end of a worker.
pub(super) fn compare(now: &Project, raised: &Project, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let before = watch(now, &folder.join("calls-now"))?;
    let after = watch(raised, &folder.join("calls-raised"))?;
    let filter = raised.folder().join(FILTER);
    let filter = std::fs::read_to_string(&filter).with_context(|| format!("{} is not there", filter.display()))?;
    let mut lines = vec![format!("{} scripts in {} workers; {}", SCRIPTS.len(), after.workers, self_test(raised)?)];
    lines.extend(after.lines(&before, &listed(&filter)));
    report.add("What workers ask of the kernel", &lines)
}

/// Returns the last line of `self-test`, which tries what the lock forbids.
fn self_test(project: &Project) -> anyhow::Result<String> {
    let tested = Command::new(project.built("sandbox-relay")).arg("self-test").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&tested.stdout);
    Ok(format!("self-test: {}", text.lines().last().unwrap_or("it says nothing")))
}

/// Runs each script in each way under strace.
fn watch(project: &Project, folder: &Path) -> anyhow::Result<Seen> {
    eprintln!("    {}: {} scripts, {} ways to make a worker", project.name(), SCRIPTS.len(), WAYS.len());
    let mut seen = Seen::default();
    for (way, flags) in WAYS {
        for (script, source, end) in SCRIPTS {
            let run = Run { name: format!("{script}, {way}"), folder: folder.join(format!("{way}-{script}")) };
            let said = run.start(&project.built("sandbox-relay"), flags, source)?;
            if !said.contains(end) {
                seen.failed.push(format!("{}: {}", run.name, said.trim()));
            }
            run.collect(&mut seen)?;
        }
    }
    // An empty list would hide every difference.
    if seen.made.is_empty() {
        bail!("strace saw no worker close its lock; {} has what it saw", folder.display());
    }
    Ok(seen)
}

/// Run of one script under strace.
struct Run {
    name: String,
    /// Folder with one trace for each process.
    folder: PathBuf,
}

impl Run {
    /// Returns the output of the program, standard output and standard error.
    fn start(&self, relay: &Path, flags: &[&str], source: &str) -> anyhow::Result<String> {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        std::fs::create_dir_all(&self.folder)?;
        let request = serde_json::json!({ "source": source, "limits": { "wall_ms": WALL_MS } });
        let (input, said) = (self.folder.join("input.json"), self.folder.join("said"));
        std::fs::write(&input, request.to_string())?;
        let mut strace = Command::new("strace");
        // A file for each process, so that the lines of one process are not broken by another's.
        strace.args(["-ff", "-qq", "-s", "16", "-o"]).arg(self.folder.join("calls")).arg(relay).arg("eval").args(flags);
        let output = File::create(&said)?;
        strace.stdin(File::open(input)?).stdout(output.try_clone()?).stderr(output);
        // Only the output matters here: if the script fails, the program fails as well.
        if let Err(error) = check_within(SCRIPT_LIMIT, &mut strace)
            && !self.folder.join("said").metadata().is_ok_and(|said| said.len() > 0)
        {
            return Err(error.context(format!(
                "{} cannot be watched; {} has what was seen",
                self.name,
                self.folder.display()
            )));
        }
        Ok(std::fs::read_to_string(said)?)
    }

    fn collect(&self, seen: &mut Seen) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("calls.")) {
                continue;
            }
            let trace = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
            let Some(calls) = of_worker(&trace) else { continue };
            seen.workers += 1;
            for call in &calls {
                seen.made.entry(name(call).to_owned()).or_insert_with(|| self.name.clone());
            }
            if let Some(last) = calls.last().filter(|_| trace.contains("+++ killed by SIGSYS")) {
                // strace prints `= ?` for a call that did not return: leave it out.
                let call = last.rsplit_once(" = ").map_or(*last, |(call, _)| call.trim_end());
                seen.killed.entry(without_addresses(call)).or_insert_with(|| self.name.clone());
            }
        }
        Ok(())
    }
}

impl Seen {
    /// Lists the calls that a person has to think about, one to a line.
    fn lines(&self, before: &Self, listed: &BTreeSet<String>) -> Vec<String> {
        let mut lines = Vec::new();
        for (call, by) in &self.killed {
            let why = if listed.contains(name(call)) {
                "on the list, but not with these arguments"
            } else {
                "not on the list"
            };
            lines.push(format!("KILLED    {call}: {why} ({by})"));
        }
        lines.extend(self.failed.iter().map(|failed| format!("FAILED    {failed}")));
        let only = |one: &Named, other: &Named| -> Vec<(String, String)> {
            one.iter().filter(|(call, _)| !other.contains_key(*call)).map(|(a, b)| (a.clone(), b.clone())).collect()
        };
        for (call, by) in only(&self.made, &before.made) {
            let known = if listed.contains(&call) { "on the list" } else { "not on the list" };
            lines.push(format!("new       {call}: {known} ({by})"));
        }
        for (call, by) in only(&before.made, &self.made) {
            lines.push(format!("no more   {call}: was made by {by}; may leave the list if nothing else needs it"));
        }
        let made: Vec<_> = self.made.keys().map(String::as_str).collect();
        lines.push(format!("made      {}", made.join(", ")));
        let never: Vec<_> = listed.iter().filter(|call| !self.made.contains_key(*call)).map(String::as_str).collect();
        lines.push(format!("on the list, and not made by these scripts, as before or not: {}", never.join(", ")));
        lines
    }
}

/// Returns the calls of a worker after it closed its lock, from the trace of one process. Returns `None` for a process
/// of another kind.
fn of_worker(trace: &str) -> Option<Vec<&str>> {
    let lines: Vec<_> = trace.lines().collect();
    // A worker first closes all its descriptors but one, and installs a filter last. The process that forks never does
    // the first.
    let locked = lines.iter().rposition(|line| line.starts_with("seccomp("))?;
    lines[..locked].iter().find(|line| line.starts_with("close_range("))?;
    let is_call = |line: &&&str| line.starts_with(|first: char| first.is_ascii_lowercase()) && line.contains('(');
    Some(lines[locked + 1..].iter().filter(is_call).copied().collect())
}

fn name(call: &str) -> &str {
    call.split('(').next().unwrap_or(call)
}

/// Replaces addresses, so that the same call at another address compares as equal.
fn without_addresses(call: &str) -> String {
    let words = call.split(", ").map(|word| match word.rsplit_once("0x") {
        Some((before, digits)) if digits.len() > 8 => format!("{before}…"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Lists the calls that the filter allows or refuses with an error number.
fn listed(filter: &str) -> BTreeSet<String> {
    let mut listed = BTreeSet::new();
    let mut inside = false;
    for line in filter.lines() {
        if line.starts_with("const ") {
            inside = line.contains("&[Entry]");
        }
        if line.starts_with("];") {
            inside = false;
        }
        let call = line.split_once("libc::SYS_").filter(|_| inside && !line.trim_start().starts_with("//"));
        if let Some((_, rest)) = call {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            listed.insert(rest[..end].to_owned());
        }
    }
    listed
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const WORKER: &str = "rt_sigprocmask(SIG_SETMASK, [], NULL, 8) = 0\nclose_range(1, 4294967295, 0) = 0\n\
        seccomp(SECCOMP_SET_MODE_FILTER, 0, {len=60, filter=0x5567866fc6c0}) = 0\n\
        sendto(0, \"ready\", 5, 0, NULL, 0) = 5\n\
        mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, -1, 0)    = 9\n+++ killed by SIGSYS +++\n";

    #[test]
    fn a_worker_is_who_keeps_one_descriptor_and_locks_itself() {
        let calls = of_worker(WORKER).unwrap();
        assert_eq!(calls.iter().map(|call| name(call)).collect::<Vec<_>>(), ["sendto", "mmap"]);
        assert_eq!(of_worker("seccomp(1) = 0\nclone(…) = 5\n"), None);
        assert_eq!(of_worker("close_range(3, 4, 0) = 0\nexecve(…) = 0\n"), None);
    }

    #[test]
    fn each_call_to_think_about_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("calls.17"), WORKER).unwrap();
        let run = Run { name: "memory, fork".into(), folder: folder.path().to_owned() };
        let mut after = Seen::default();
        run.collect(&mut after).unwrap();
        let before = Seen { made: [("brk".to_owned(), "errors, exec".to_owned())].into(), ..Seen::default() };
        let lines = after.lines(&before, &["brk".to_owned(), "mmap".to_owned()].into());
        assert_eq!(
            lines[..4],
            [
                "KILLED    mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, -1, 0): on the list, but not with these \
                    arguments (memory, fork)",
                "new       mmap: on the list (memory, fork)",
                "new       sendto: not on the list (memory, fork)",
                "no more   brk: was made by errors, exec; may leave the list if nothing else needs it",
            ]
        );
        assert_eq!(without_addresses("mprotect(0x7fe11c3f6000, 12288, PROT_EXEC"), "mprotect(…, 12288, PROT_EXEC");
    }

    #[test]
    fn the_list_is_read_from_the_relays_source() {
        let filter =
            std::fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(FILTER)).unwrap();
        let listed = listed(&filter);
        // Allowed calls, in one line and in several, calls allowed with compilation, and refused ones. The calls that
        // make the lock are not listed.
        for call in ["read", "futex", "pkey_mprotect", "openat"] {
            assert!(listed.contains(call), "{call}: {listed:?}");
        }
        assert!(!listed.contains("clone") && !listed.contains("prctl"), "{listed:?}");
    }
}
