//! Ctrl-C and SIGTERM: they end what was started for this program before the program itself.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Receiver of SIGINT and SIGTERM. While it exists, they do not end the program, and a signal between two waits is not
/// lost. SIGHUP still ends the program, unless `nohup` ignores it.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Begins to receive the signals.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("signals cannot be received: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            Some(()) = self.interrupt.recv() => {}
            Some(()) = self.terminate.recv() => {}
            // Without signals, only SIGKILL ends the wait.
            else => std::future::pending().await,
        }
    }

    /// Runs `work`, and drops it if a signal comes first.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.next() => Err(Failure::failed("interrupted")),
        }
    }
}
