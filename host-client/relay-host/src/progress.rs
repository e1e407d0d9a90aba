//! Progress line on the terminal while code runs: calls, bytes and time. Everything else that is printed to standard
//! error meanwhile goes through it. If standard error is not a terminal, there is no line.

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

/// Interval between two frames of the line.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// Maximum time to close an approval question whose call has ended.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum size of the text that is held back while a question is open, in bytes.
const MAX_HELD_BYTES: usize = 256 << 10;

/// Progress line on the terminal. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Terminal>);

struct Terminal {
    line: Mutex<Line>,
    /// Notified when the last question is closed.
    closed: Condvar,
}

/// State of the line.
struct Line {
    is_wanted: bool,
    /// Drawn line; `None` while there is nothing to draw, or a question is open.
    bar: Option<ProgressBar>,
    /// Text of the line, and the time since which it counts.
    shown: Option<(String, Instant)>,
    /// Number of open questions. While there are any, nothing else is written to the terminal.
    questions: usize,
    /// Text that is held back until the questions are closed.
    held: Vec<u8>,
}

/// Counters of one execution's calls.
#[derive(Default)]
struct Counts {
    running: BTreeMap<u64, String>,
    done: u64,
    failed: u64,
    bytes: u64,
}

impl Progress {
    /// Creates an empty line, which is shown if standard error is a terminal.
    pub(crate) fn new() -> Self {
        let is_wanted = io::stderr().is_terminal();
        let line = Line { is_wanted, bar: None, shown: None, questions: 0, held: Vec::new() };
        Self(Arc::new(Terminal { line: Mutex::new(line), closed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hides the line for good.
    pub(crate) fn hide(&self) {
        self.clear();
        self.lock().is_wanted = false;
    }

    /// Shows a text in the line.
    pub(crate) fn say(&self, text: impl Into<String>) {
        let mut line = self.lock();
        let since = line.shown.take().map_or_else(Instant::now, |(_, since)| since);
        line.shown = Some((text.into(), since));
        line.draw();
    }

    /// Erases the line until the next text. Waits for a question whose call has ended to leave the terminal, for at
    /// most 1 s.
    pub(crate) fn clear(&self) {
        tokio::task::block_in_place(|| {
            let closed = self.0.closed.wait_timeout_while(self.lock(), CLOSED_WITHIN, |line| line.questions > 0);
            let (mut line, _) = closed.unwrap_or_else(PoisonError::into_inner);
            line.shown = None;
            line.erase();
        });
    }

    /// Runs `ask` with the terminal for itself: other output is held back until it returns.
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

    /// Prints to standard error, above the line, or after the questions are closed. Returns `false` if the text was
    /// dropped because too much is held back.
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

    /// Follows one execution to its end. With `prints`, prints its output as it arrives. Returns the number of items
    /// that were printed, which is less than all if events were missed.
    pub(crate) fn watch(&self, mut events: EventStream, prints: bool) -> JoinHandle<usize> {
        let progress = self.clone();
        tokio::spawn(async move {
            let mut counts = Counts::default();
            let (mut printed, mut prints) = (0, prints);
            while let Some(event) = events.next().await {
                match event {
                    // A terminal or a pipe may be slow, and must not block other tasks.
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
    /// Draws the line if there is a text and no question is open.
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

    /// Removes the line from the terminal.
    fn erase(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Prints log lines above the progress line.
impl io::Write for Progress {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Without room the text is dropped: logs must not grow while a question is open.
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

/// Writes to standard error.
fn write(text: &[u8]) {
    // A failure cannot be reported anywhere.
    let _ = io::stderr().lock().write_all(text);
}

/// Formats an item of output for standard error.
pub(crate) fn output(item: &OutputItem) -> String {
    let text = if io::stderr().is_terminal() { plain(&item.text) } else { item.text.as_str().into() };
    let end = if item.kind == OutputKind::Emit { "" } else { "\n" };
    format!("{text}{end}")
}

impl Counts {
    /// Counts an event. Returns `true` if the line changes.
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

    /// Formats the line.
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
