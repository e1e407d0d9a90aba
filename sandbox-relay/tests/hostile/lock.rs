//! The lock of a worker and the walls of the relay's own process, as the kernel shows them.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use host_client::{ExecuteRequest, LimitName, Tools};
use serde_json::json;

use crate::hostile::arena::{Arena, children};
use crate::support::{binary, until, within};

fn status(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    value.unwrap_or_default().trim().to_owned()
}

/// The workers that have closed their lock.
fn locked(arena: &Arena) -> Vec<u32> {
    // The forking process has two of the three filters.
    children(arena.pid()).into_iter().filter(|pid| status(*pid, "Seccomp_filters") == "3").collect()
}

#[test]
fn every_way_out_is_closed() {
    let output = Command::new(binary()).arg("self-test").output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && report.lines().count() > 60, "{report}");
    assert!(report.lines().all(|line| !line.starts_with("FAIL")), "{report}");
}

#[tokio::test]
async fn a_worker_is_locked_before_it_has_code() {
    for backend in ["fork", "exec"] {
        let arena = Arena::start(&["--worker-backend", backend, "--worker-stock", "3"]).await;
        until(|| locked(&arena).len() == 3).await;
        for pid in locked(&arena) {
            assert_eq!((status(pid, "Seccomp"), status(pid, "NoNewPrivs")), ("2".into(), "1".into()));
            assert_eq!(status(pid, "Threads"), "1");
            assert_eq!(std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim(), "1000");
            assert_eq!(std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(), 1, "one descriptor");
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            let writable_code = maps.lines().filter(|line| line.contains("rwx")).count();
            assert_eq!(writable_code, 0, "{maps}");
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            for limit in ["Max core file size", "Max file size", "Max processes", "Max locked memory"] {
                let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
                assert!(line[limit.len()..].trim_start().starts_with("0 "), "{line}");
            }
        }
        // The relay itself is the last to go when memory runs out.
        let relay = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", arena.pid())).unwrap();
        assert_eq!(relay.trim(), std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim());
    }
}

#[tokio::test]
async fn nobody_of_the_same_user_reads_the_relays_memory_or_environment() {
    let arena = Arena::start(&[]).await;
    // As root everything can be read, so that another user stands in, for the relay and for who looks.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sandbox-relay");
    std::fs::copy(binary(), &program).unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let user = |command: &mut Command| {
        if is_root {
            command.uid(65_534).gid(65_534);
        }
    };
    let mut command = Command::new(&program);
    user(command.args(["serve", "--listen", "127.0.0.1:0"]).env("RELAY_JWT_SECRET", crate::hostile::arena::SECRET));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut relay = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(relay.stdout.as_mut().unwrap()), &mut line).unwrap();
    assert!(line.starts_with("listening"), "{line}");
    let mut own = Command::new("cat");
    user(own.arg("/proc/self/environ"));
    assert!(own.output().unwrap().status.success(), "the test can read what it may");
    for file in ["environ", "maps", "mem", "fd/0", "auxv"] {
        let mut look = Command::new("cat");
        user(look.arg(format!("/proc/{}/{file}", relay.id())));
        let output = look.output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{file} can be read");
    }
    relay.kill().unwrap();
    relay.wait().unwrap();
    drop(arena);
}

/// Returns whether a worker has executable memory that is from no file: compiled code.
fn has_compiled_code(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        // Huge pages with the program's own code have no file either, and stand where the program is.
        fields[1].contains('x') && fields[1].contains('w') && fields.len() < 6
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_compiled_only_where_the_relay_and_the_token_both_allow_it() {
    // A loop that V8 compiles when it may, long enough to be looked at.
    let code = "let x = 0; for (let i = 0; i < 3e7; i++) x = (x * 31 + i) | 0; await mcp.call('test.wait', {ms: 300}); return x";
    for (relay, token, compiled) in [(true, true, true), (true, false, false), (false, true, false)] {
        let arena = Arena::start(if relay { &["--jit"] } else { &[] }).await;
        let mut arguments = vec!["--subject", "jit"];
        arguments.extend(token.then_some("--jit"));
        let config =
            host_client::ClientConfig::new(format!("ws://{}/ws", arena.address), arena.token(&arguments).await);
        let client = within(host_client::Client::connect(config, crate::support::tools(&Default::default()))).await;
        let client = client.unwrap();
        let request = ExecuteRequest::new(code).always_in_sandbox().limit(LimitName::CpuMs, 60_000);
        let running = tokio::spawn({
            let client = client.clone();
            async move { client.run(request).await }
        });
        let mut seen = false;
        while !running.is_finished() {
            // The stock of compiling workers has its code space ready; only one that runs has burnt CPU.
            seen |= locked(&arena).into_iter().any(|pid| used_cpu(pid) > 3 && has_compiled_code(pid));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let outcome = within(running).await.unwrap().unwrap();
        assert!(outcome.parse::<i32>().is_ok(), "{:?}", outcome.json);
        assert_eq!(seen, compiled, "relay {relay}, token {token}");
        // The surface is the same.
        let surface = "try { eval('1') } catch (e) { return [e.name, typeof WebAssembly, typeof SharedArrayBuffer] }";
        let outcome = within(client.run(ExecuteRequest::new(surface).always_in_sandbox())).await.unwrap();
        assert_eq!(outcome.value().unwrap(), json!(["EvalError", "undefined", "undefined"]));
        drop(client);
        arena.unharmed().await;
    }
}

/// The CPU time of a process, in ticks of 10 ms.
fn used_cpu(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap_or_default().1.split_ascii_whitespace().collect();
    fields.get(11..13).map_or(0, |times| times.iter().map(|it| it.parse::<u64>().unwrap()).sum())
}

#[tokio::test]
async fn a_worker_that_breaks_its_lock_is_ended_and_says_so() {
    // SIGSYS from outside stands for the forbidden call of a compromised worker.
    let arena = Arena::start(&["--worker-stock", "1"]).await;
    let client = arena.connect("lock", Tools::new()).await;
    let before = children(arena.pid());
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.run(ExecuteRequest::new("for(;;){}")).await }
    });
    let burning = within(async {
        loop {
            let found = locked(&arena).into_iter().find(|pid| used_cpu(*pid) > 2);
            if let Some(pid) = found {
                return pid;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let pid = rustix::process::Pid::from_raw(burning.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::SYS).unwrap();
    let error = within(running).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("WORKER_LOST") && error.contains("forbids"), "{error}");
    assert!(!before.is_empty() && arena.log().contains("a worker was lost"));
    drop(client);
    arena.unharmed().await;
}
