//! The worker's end of its socket to the relay, as state of the thread: calls are collected and written together, what is
//! printed and stored is written at once.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::channel::message::instruction::Kind as Instruction;
use super::channel::message::report::Kind as Report;
use super::channel::{ChannelError, Port};
use super::sys;

/// Maximum time for which calls wait while the script does not yield.
const FLUSH_AFTER: Duration = Duration::from_millis(2);

thread_local! {
    static LINK: RefCell<Option<Link>> = const { RefCell::new(None) };
}

struct Link {
    port: Port,
    flushed_at: Instant,
}

impl Link {
    fn flush(&mut self) {
        self.flushed_at = Instant::now();
        self.write();
    }

    fn write(&mut self) {
        if self.port.pending_bytes() > 0 && self.port.flush().is_err() {
            // The relay closed the socket: nobody waits for this execution any more.
            sys::exit_now(sys::EXIT_ORPHANED);
        }
    }
}

fn with<R>(f: impl FnOnce(&mut Link) -> R) -> R {
    LINK.with_borrow_mut(|link| match link {
        Some(link) => f(link),
        // Scripts run only after `begin`, and nothing takes the link away.
        None => sys::exit_now(sys::EXIT_BROKEN),
    })
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    LINK.set(None);
}

/// Takes the port, before any code runs.
pub(super) fn begin(port: Port) {
    LINK.set(Some(Link { port, flushed_at: Instant::now() }));
}

/// Collects a report.
pub(super) fn put(report: Report) {
    with(|link| link.port.put(report));
}

/// Writes a report at once, with all that are collected: whatever ends this process next, the relay has it.
pub(super) fn write(report: Report) {
    with(|link| {
        link.port.put(report);
        link.write();
    });
}

/// Returns whether the last flush was so long ago that the script does not yield.
pub(super) fn is_overdue() -> bool {
    with(|link| link.flushed_at.elapsed() > FLUSH_AFTER)
}

/// Writes everything that is collected.
pub(super) fn flush() {
    with(Link::flush);
}

/// Waits for the next instruction.
///
/// # Errors
/// [`ChannelError`]: the relay is gone, or sent what is no instruction.
pub(super) fn receive() -> Result<Instruction, ChannelError> {
    with(|link| link.port.receive())
}

/// Waits for the next instruction; `None`: none came within the time.
///
/// # Errors
/// [`ChannelError`]: the relay is gone, or sent what is no instruction.
pub(super) fn receive_within(within: Option<Duration>) -> Result<Option<Instruction>, ChannelError> {
    with(|link| link.port.receive_within(within))
}

/// Takes the next instruction; `None`: none has arrived whole.
///
/// # Errors
/// [`ChannelError`]: the relay is gone, or sent what is no instruction.
pub(super) fn try_receive() -> Result<Option<Instruction>, ChannelError> {
    with(|link| link.port.try_receive())
}

/// Writes the last report. Works in the middle of anything, a garbage collection included.
pub(super) fn finish(report: Report) {
    LINK.with(|link| {
        if let Ok(mut link) = link.try_borrow_mut()
            && let Some(link) = link.as_mut()
        {
            link.port.put(report);
            // A relay that is gone needs no report.
            let _ = link.port.flush();
        }
    });
}
