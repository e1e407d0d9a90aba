//! Ctrl-C and SIGTERM: what was started for this program ends with it.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The signals that ask this program to stop. While this exists none of them ends it by itself, and one that comes
/// between two waits is not lost. A terminal that goes away still ends it, unless `nohup` says otherwise.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("signals cannot be received: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            Some(()) = self.interrupt.recv() => {}
            Some(()) = self.terminate.recv() => {}
            // Without signals it goes on until it is killed.
            else => std::future::pending().await,
        }
    }

    /// Does something, unless one comes first: it is dropped then.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.next() => Err(Failure::failed("interrupted")),
        }
    }
}
