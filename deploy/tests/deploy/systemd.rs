//! The unit: checked by `systemd-analyze`; a relay runs with its environment under its filter of system calls.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

use crate::support::{SECRET, connect, execute, read, relay_binary, relay_with, run};

const UNIT: &str = "deploy/systemd/sandbox-relay.service";
/// Numbers of AF_UNIX, AF_INET and AF_INET6, by their names in the unit.
const FAMILIES: [(&str, u32); 3] = [("AF_UNIX", 1), ("AF_INET", 2), ("AF_INET6", 10)];

/// Returns the words of all lines that set this setting.
fn setting(name: &str) -> Vec<String> {
    let unit = read(UNIT);
    let values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    values.flat_map(str::split_ascii_whitespace).map(str::to_owned).collect()
}

/// Returns the variables of the unit, for a secret in this folder. The relay listens on a free port.
fn variables(credentials: &Path) -> Vec<(String, String)> {
    let pairs = setting("Environment").into_iter().map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or_else(|| panic!("{pair}"));
        (name.to_owned(), value.replace("%d", credentials.to_str().unwrap()))
    });
    let listens = |name: &str| name.ends_with("_LISTEN");
    pairs.filter(|(name, _)| !listens(name)).collect()
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit_and_little_that_is_exposed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox-relay.service");
    let installed = "ExecStart=/usr/local/bin/sandbox-relay ";
    assert!(read(UNIT).contains(installed));
    let here = format!("ExecStart={} ", relay_binary().display());
    std::fs::write(&file, read(UNIT).replace(installed, &here)).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(run("systemd-analyze", &["verify", "--man=no", file]), (true, String::new()));
    // Tenths of the exposure, from 0 to 100.
    let (is_low, report) =
        run("systemd-analyze", &["security", "--offline=true", "--threshold=20", "--no-pager", file]);
    assert!(is_low, "{report}");
}

#[test]
fn the_unit_waits_for_the_drain_and_fifteen_seconds_and_leaves_workers_to_the_relay() {
    let variables = variables(Path::new("/"));
    let drain: u64 = variables.iter().find(|(name, _)| name == "RELAY_DRAIN_MS").unwrap().1.parse().unwrap();
    assert_eq!(setting("TimeoutStopSec"), [format!("{}s", drain / 1000 + 15)]);
    // By default SIGTERM goes to all processes, and one worker that the kernel kills ends the service.
    assert_eq!([setting("KillMode"), setting("OOMPolicy")], [["mixed"], ["continue"]]);
}

/// Lists the system calls of a set of systemd's, with those of the sets in it.
fn system_calls(name: &str) -> BTreeSet<String> {
    if !name.starts_with('@') {
        return BTreeSet::from([name.to_owned()]);
    }
    let (is_known, text) = run("systemd-analyze", &["syscall-filter", "--no-pager", name]);
    assert!(is_known, "{text}");
    let lines = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.flat_map(system_calls).collect()
}

/// Makes the unit's filter, without `left_out`.
fn filter(left_out: &str) -> BpfProgram {
    let compile = |rules: &[Value]| {
        let error = json!({"errno": 1});
        let text = json!({"filter": {"mismatch_action": error, "match_action": "allow", "filter": rules}}).to_string();
        seccompiler::compile_from_json(text.as_bytes(), TargetArch::x86_64)
    };
    let names = setting("SystemCallFilter");
    let names: BTreeSet<_> = names.iter().flat_map(|name| system_calls(name)).collect();
    // A set has calls of all machines, each of which only this one's compiler knows.
    let mut rules: Vec<_> = names
        .iter()
        .filter(|name| !["socket", left_out].contains(&name.as_str()))
        .map(|name| json!({"syscall": name}))
        .filter(|rule| compile(std::slice::from_ref(rule)).is_ok())
        .collect();
    assert!(rules.len() > 200, "{rules:?}");
    for family in setting("RestrictAddressFamilies") {
        let (_, number) = FAMILIES.into_iter().find(|(name, _)| *name == family).unwrap();
        rules.push(json!({"syscall": "socket", "args": [{"index": 0, "type": "dword", "op": "eq", "val": number}]}));
    }
    assert_eq!(setting("SystemCallErrorNumber"), ["EPERM"]);
    compile(&rules).unwrap().remove("filter").unwrap()
}

/// Runs something in a thread under the unit's filter, which all processes inherit that it starts.
fn filtered<T: Send + 'static>(left_out: &str, what: impl FnOnce() -> T + Send + 'static) -> T {
    let filter = filter(left_out);
    let thread = std::thread::spawn(move || {
        rustix::thread::set_no_new_privs(true).unwrap();
        seccompiler::apply_filter(&filter).unwrap();
        what()
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn a_relay_runs_code_with_the_environment_and_under_the_filter_of_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("jwt-secret"), SECRET).unwrap();
    let variables = variables(folder.path());
    filtered("", move || {
        let refused = rustix::net::socket(rustix::net::AddressFamily::NETLINK, rustix::net::SocketType::RAW, None);
        assert_eq!(refused.unwrap_err(), rustix::io::Errno::PERM, "the filter is in place");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut token = Command::new(relay_binary());
        token.args(["token", "--subject", "me"]).env_clear().envs(variables.clone());
        assert!(token.output().unwrap().status.success(), "the secret is where the unit says");
        runtime.block_on(async {
            // The library gives the relay a secret itself, and two are refused.
            let others = variables.iter().filter(|(name, _)| name != "RELAY_JWT_SECRET_FILE");
            let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
            let relay = relay_with(&[], &others.chain([("RELAY_JWT_SECRET", SECRET)]).collect::<Vec<_>>()).await;
            execute(&connect(relay.address(), "me").await).await;
        });
    });
}

#[test]
fn workers_are_locked_under_the_filter_of_the_unit_and_cannot_be_without_what_it_adds() {
    let self_test = || Command::new(relay_binary()).arg("self-test").output().unwrap();
    let report = filtered("", self_test);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.status.success() && text.lines().count() > 60 && !text.contains("FAIL"), "{text}");
    assert!(!filtered("seccomp", self_test).status.success());
}
