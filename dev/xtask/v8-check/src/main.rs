//! Starts V8, forks, runs one script in the fork, and prints V8's version: what the relay does with it, at its smallest.
//!
//! `cargo xtask v8` runs it against an archive before anything else uses that archive. The output is one line, such as
//! `15.2.124.2-rusty Donnerstag, 1. Januar 1970`; any other exit than 0 means that the archive is of no use to the relay.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use rustix::process::{Pid, WaitOptions, waitpid};

// What the relay does before it forks, to the letter.
#[path = "../../../../sandbox-relay/src/sandbox/pages.rs"]
mod pages;

/// Needs a snapshot that was made well, promises, JSON, and ICU's data in a foreign language and zone.
const SCRIPT: &str = r#"
    let text = "";
    Promise.resolve(JSON.parse('{"day": 0}'))
        .then(({ day }) => { text = new Intl.DateTimeFormat("de-DE", { dateStyle: "full", timeZone: "Asia/Tokyo" }).format(day); });
    () => text
"#;

fn main() -> ExitCode {
    v8::V8::set_flags_from_string("--single-threaded --jitless --max-heap-size=8192");
    v8::V8::initialize_platform(v8::new_single_threaded_default_platform(false).make_shared());
    v8::V8::initialize();
    let mut isolate = v8::Isolate::new(v8::CreateParams::default());
    // With compressed pointers, a heap has at most 4 GiB, and buffers lie in it.
    if isolate.get_heap_statistics().heap_size_limit() < 6 << 30 {
        return fail("this V8 has compressed pointers, which the relay's limits do not expect");
    }
    let context = {
        v8::scope!(let scope, &mut isolate);
        let context = v8::Context::new(scope, v8::ContextOptions::default());
        v8::Global::new(scope, context)
    };
    match in_a_fork(|| run(&mut isolate, &context)) {
        Ok(text) => {
            // The version is the archive's own word, not the crate's.
            let printed = writeln!(io::stdout(), "{} {text}", v8::V8::get_version());
            printed.map_or_else(|error| fail(&error.to_string()), |()| ExitCode::SUCCESS)
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    // Whoever reads standard error is gone when this fails.
    drop(writeln!(io::stderr(), "{why}"));
    ExitCode::FAILURE
}

/// Runs the script, and returns its result as text; `None`: it failed.
fn run(isolate: &mut v8::OwnedIsolate, context: &v8::Global<v8::Context>) -> Option<String> {
    v8::scope!(let scope, isolate);
    let context = v8::Local::new(scope, context);
    let scope = &mut v8::ContextScope::new(scope, context);
    let code = v8::String::new(scope, SCRIPT)?;
    let read = v8::Script::compile(scope, code, None)?.run(scope)?;
    scope.perform_microtask_checkpoint();
    let read: v8::Local<'_, v8::Function> = read.try_into().ok()?;
    let nothing = v8::undefined(scope).into();
    let text = read.call(scope, nothing, &[])?;
    Some(text.to_rust_string_lossy(scope))
}

/// Runs something in a copy of this process, and gives the text that it gave there.
fn in_a_fork(work: impl FnOnce() -> Option<String>) -> io::Result<String> {
    pages::copy_all_on_fork()?;
    let (mut reader, mut writer) = io::pipe()?;
    // SAFETY: this process has one thread, so that its copy finds no lock held by a thread that is not there.
    #[expect(unsafe_code, reason = "a fork has no safe form")]
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let written = work().is_some_and(|text| writer.write_all(text.as_bytes()).is_ok());
        std::process::exit(i32::from(!written));
    }
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    match waitpid(Pid::from_raw(child), WaitOptions::empty())? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(text),
        ended => Err(io::Error::other(format!("the script did not end well in a fork: {ended:?}"))),
    }
}
