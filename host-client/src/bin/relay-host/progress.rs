//! What a person sees while code runs: calls in flight, done, bytes, time. Nothing where standard error is no terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use host_client::{Event, EventStream};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

/// The line on the terminal. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

#[derive(Default)]
struct Counts {
    running: BTreeMap<u64, String>,
    done: u64,
    failed: u64,
    bytes: u64,
}

impl Progress {
    pub(crate) fn new(is_wanted: bool) -> Self {
        let shows = is_wanted && std::io::stderr().is_terminal();
        let target = if shows { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Prints or asks something without the line in between.
    pub(crate) fn suspend<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.bar.suspend(ask)
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    pub(crate) fn clear(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    /// Follows one execution to its end.
    pub(crate) fn watch(&self, mut events: EventStream) -> JoinHandle<()> {
        let progress = self.clone();
        tokio::spawn(async move {
            progress.bar.reset();
            let mut counts = Counts::default();
            while let Some(event) = events.next().await {
                if counts.count(event) {
                    progress.say(counts.line());
                }
            }
            progress.clear();
        })
    }
}

impl Counts {
    /// Whether there is something new to show.
    fn count(&mut self, event: Event) -> bool {
        match event {
            Event::Started => {}
            Event::ToolCallRequested { id, tool, .. } => drop(self.running.insert(id, tool)),
            Event::ToolCallFinished { id, result_bytes, .. } => {
                self.running.remove(&id);
                self.done += 1;
                self.bytes += result_bytes as u64;
            }
            Event::ToolCallFailed { id, .. } | Event::ToolCallDenied { id, .. } => {
                self.running.remove(&id);
                self.failed += 1;
            }
            _ => return false,
        }
        true
    }

    fn line(&self) -> String {
        let mut line = format!("{} calls done, {}", self.done, HumanBytes(self.bytes));
        if self.failed > 0 {
            line.push_str(&format!(", {} failed", self.failed));
        }
        if let Some(tool) = self.running.values().next_back() {
            line.push_str(&format!(", {} in flight: {tool}", self.running.len()));
        }
        line
    }
}
