//! The output of the example: progress while the script runs, then its table and the bytes that it saved.
#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use host_client::{Event, EventStream, Outcome};
use serde::Deserialize;

use crate::tools::Traffic;

/// The interval between two lines of progress on a terminal, where each replaces the one before.
const EVERY: Duration = Duration::from_millis(100);
const EVERY_WITHOUT_TERMINAL: Duration = Duration::from_secs(2);

/// Shows calls and bytes as they come.
#[derive(Debug)]
pub(crate) struct Progress {
    traffic: Arc<Traffic>,
    running: u64,
    failed: u64,
}

impl Progress {
    pub(crate) fn new(traffic: Arc<Traffic>) -> Self {
        Self { traffic, running: 0, failed: 0 }
    }

    /// Watches until the execution ends.
    pub(crate) async fn watch(mut self, mut events: EventStream) {
        let in_place = std::io::stderr().is_terminal();
        let every = if in_place { EVERY } else { EVERY_WITHOUT_TERMINAL };
        let (started, mut shown) = (Instant::now(), Instant::now());
        while let Some(event) = events.next().await {
            match event {
                Event::ToolCallStarted { .. } => self.running += 1,
                Event::ToolCallFinished { .. } => self.running = self.running.saturating_sub(1),
                Event::ToolCallFailed { tool, message, .. } => {
                    self.running = self.running.saturating_sub(1);
                    self.failed += 1;
                    eprintln!("\r{tool} failed: {message}");
                }
                Event::Output(item) => eprintln!("\r{}", item.text),
                _ => {}
            }
            if shown.elapsed() > every {
                shown = Instant::now();
                self.show(in_place, started.elapsed());
            }
        }
        self.running = 0;
        self.show(in_place, started.elapsed());
        if in_place {
            eprintln!();
        }
    }

    fn show(&self, in_place: bool, elapsed: Duration) {
        let (start, end) = if in_place { ("\r\x1b[2K", "") } else { ("", "\n") };
        let calls = self.traffic.calls.load(Ordering::Relaxed);
        let bytes = megabytes(self.traffic.bytes.load(Ordering::Relaxed));
        let (running, failed, seconds) = (self.running, self.failed, elapsed.as_secs_f64());
        eprint!(
            "{start}  {calls} calls done, {running} running, {failed} failed, {bytes:.1} MB read, {seconds:.1} s{end}"
        );
        // An error is ignored: nobody can see the progress then.
        let _ = std::io::stderr().flush();
    }
}

#[derive(Debug, Deserialize)]
struct Audit {
    packages: u64,
    files: u64,
    lines: u64,
    skipped: u64,
    licenses: Vec<(String, u64)>,
    most_unsafe: Vec<(String, u64, u64)>,
    without_license: Vec<String>,
    without_repository: Vec<String>,
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Prints the answer, and the calls, time and bytes that it took.
pub(crate) fn print(outcome: &Outcome, traffic: &Traffic, script: usize, elapsed: Duration) -> anyhow::Result<()> {
    match outcome.parse::<Audit>() {
        Ok(audit) => print_audit(&audit),
        // A visitor's own script answers what it likes.
        Err(_) => println!("{}", serde_json::to_string_pretty(&outcome.value()?)?),
    }
    for warning in &outcome.warnings {
        println!("warning: {}", warning.message);
    }
    let read = traffic.bytes.load(Ordering::Relaxed);
    let model = script + outcome.json.len();
    println!();
    println!("{} tool calls in {:.2} s", outcome.usage.tool_calls, elapsed.as_secs_f64());
    println!("{:.1} MB read by the script, none of it by a model", megabytes(read));
    println!("{model} bytes for the model: {script} of script and {} of answer", outcome.json.len());
    if let Some(times) = usize::try_from(read).ok().and_then(|read| read.checked_div(model))
        && times > 1
    {
        println!("that is {times} times less than the files themselves");
    }
    Ok(())
}

fn print_audit(audit: &Audit) {
    let Audit { packages, files, lines, skipped, .. } = audit;
    println!("\n{packages} packages, {files} source files, {lines} lines ({skipped} files too large to read)\n");
    println!("{:<52} packages", "licence");
    for (license, count) in &audit.licenses {
        let short: String = license.chars().take(52).collect();
        println!("{short:<52} {count:>8}");
    }
    println!("\n{:<42} {:>8} {:>9}", "most unsafe", "unsafe", "lines");
    for (package, count, lines) in &audit.most_unsafe {
        println!("{package:<42} {count:>8} {lines:>9}");
    }
    for (title, names) in [("licence", &audit.without_license), ("repository", &audit.without_repository)] {
        let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        println!("\nwithout a {title}: {list}");
    }
}
