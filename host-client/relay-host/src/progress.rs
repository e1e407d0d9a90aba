//! What a person sees while code runs: calls in flight, done, bytes, time; and, between its frames, everything else
//! that is printed meanwhile. Where standard error is no terminal, there is nothing but the latter.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use host_client::prompt::visible;
use host_client::{Event, EventStream, OutputItem, OutputKind};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::plain;

/// How often the line is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// How long a question may take to be closed that nobody waits for any more.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// How much is kept that is printed while a question is open, in bytes.
const MAX_HELD_BYTES: usize = 256 << 10;

/// The line on the terminal. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Shared>);

struct Shared {
    line: Mutex<Line>,
    /// Told when a question is closed.
    closed: Condvar,
}

struct Line {
    is_wanted: bool,
    /// What draws, while there is something to draw and no question is open.
    bar: Option<ProgressBar>,
    /// What it shows, and since when.
    shown: Option<(String, Instant)>,
    /// How many questions are open. They have the terminal to themselves.
    questions: usize,
    /// What was to be printed meanwhile.
    held: Vec<u8>,
}

#[derive(Default)]
struct Counts {
    running: BTreeMap<u64, String>,
    done: u64,
    failed: u64,
    bytes: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_wanted = io::stderr().is_terminal();
        let line = Line { is_wanted, bar: None, shown: None, questions: 0, held: Vec::new() };
        Self(Arc::new(Shared { line: Mutex::new(line), closed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows nothing from here on.
    pub(crate) fn hide(&self) {
        self.clear();
        self.lock().is_wanted = false;
    }

    pub(crate) fn say(&self, text: impl Into<String>) {
        let mut line = self.lock();
        let since = line.shown.take().map_or_else(Instant::now, |(_, since)| since);
        line.shown = Some((text.into(), since));
        line.draw();
    }

    /// Shows nothing until there is something new. A question that nobody waits for any more is off the terminal after
    /// this.
    pub(crate) fn clear(&self) {
        tokio::task::block_in_place(|| {
            let closed = self.0.closed.wait_timeout_while(self.lock(), CLOSED_WITHIN, |line| line.questions > 0);
            let (mut line, _) = closed.unwrap_or_else(PoisonError::into_inner);
            line.shown = None;
            line.erase();
        });
    }

    /// Asks something, and keeps everything else from the terminal until it is answered. Nobody waits for the answer
    /// but who asks.
    pub(crate) fn suspend<T>(&self, ask: impl FnOnce() -> T) -> T {
        {
            let mut line = self.lock();
            line.questions += 1;
            line.erase();
        }
        let answer = ask();
        let mut line = self.lock();
        line.questions -= 1;
        if line.questions == 0 {
            let held = std::mem::take(&mut line.held);
            write(&held);
            line.draw();
            self.0.closed.notify_all();
        }
        answer
    }

    /// Prints to standard error without the line in between; while a question is open, after it. Whether there was
    /// room for it.
    pub(crate) fn print(&self, text: &[u8]) -> bool {
        let mut line = self.lock();
        if line.questions > 0 {
            let fits = line.held.len() + text.len() <= MAX_HELD_BYTES;
            if fits {
                line.held.extend(text);
            }
            return fits;
        }
        match &line.bar {
            Some(bar) => bar.suspend(|| write(text)),
            None => write(text),
        }
        true
    }

    /// Follows one execution to its end, and prints its output as it comes where that is wanted. Gives how many items
    /// of output were printed: less than all where we were too slow.
    pub(crate) fn watch(&self, mut events: EventStream, prints: bool) -> JoinHandle<usize> {
        let progress = self.clone();
        tokio::spawn(async move {
            let mut counts = Counts::default();
            let (mut printed, mut prints) = (0, prints);
            while let Some(event) = events.next().await {
                match event {
                    // A terminal or a pipe may be slow; nothing else is to wait for it.
                    Event::Output(item) if prints => {
                        prints = tokio::task::block_in_place(|| progress.print(output(&item).as_bytes()));
                        printed += usize::from(prints);
                    }
                    Event::Missed(_) => prints = false,
                    event if counts.count(&event) => progress.say(counts.line()),
                    _ => {}
                }
            }
            progress.clear();
            printed
        })
    }
}

impl Line {
    fn draw(&mut self) {
        let Some((text, since)) = self.shown.as_ref().filter(|_| self.is_wanted && self.questions == 0) else { return };
        if let Some(bar) = &self.bar {
            bar.set_message(text.clone());
            return;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let bar = bar.with_elapsed(since.elapsed()).with_message(text.clone());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(DRAWN_EVERY);
        self.bar = Some(bar);
    }

    fn erase(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Log lines are printed as everything else is.
impl io::Write for Progress {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // What finds no room is lost: a log must not grow while somebody thinks about a question.
        self.print(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Progress {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn write(text: &[u8]) {
    // Where this fails, there is nobody left to tell.
    let _ = io::stderr().lock().write_all(text);
}

/// What the code printed, as it is shown.
pub(crate) fn output(item: &OutputItem) -> String {
    let text = if io::stderr().is_terminal() { plain(&item.text) } else { item.text.as_str().into() };
    let end = if item.kind == OutputKind::Emit { "" } else { "\n" };
    format!("{text}{end}")
}

impl Counts {
    /// Whether there is something new to show.
    fn count(&mut self, event: &Event) -> bool {
        match event {
            Event::Started => {}
            Event::ToolCallRequested { id, tool, .. } => drop(self.running.insert(*id, visible(tool).into_owned())),
            Event::ToolCallFinished { id, result_bytes, .. } => {
                self.running.remove(id);
                self.done += 1;
                self.bytes += *result_bytes as u64;
            }
            Event::ToolCallFailed { id, .. } | Event::ToolCallDenied { id, .. } => {
                self.running.remove(id);
                self.failed += 1;
            }
            _ => return false,
        }
        true
    }

    fn line(&self) -> String {
        let mut line = format!("calls: {} done, {}", self.done, HumanBytes(self.bytes));
        if self.failed > 0 {
            line.push_str(&format!(", {} failed", self.failed));
        }
        if let Some(tool) = self.running.values().next_back() {
            line.push_str(&format!(", {} in flight: {tool}", self.running.len()));
        }
        line
    }
}
