//! The wait of an execution before it is sent: for a connection, and for the relay's credit.

use std::sync::Arc;

use relay_proto::session::feature;
use relay_proto::time::millis;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, ExecutionId, wire};
use tokio::time::Instant;

use super::Client;
use crate::error::ExecutionError;
use crate::outbound::Room;

impl Client {
    /// Returns the time within which the relay has to begin an execution, in milliseconds; 0: it knows no such bound.
    pub(super) fn begin_within_ms(&self) -> u64 {
        match self.offers(feature::BEGIN_WITHIN) {
            true => millis(self.queue_timeout).max(1),
            false => 0,
        }
    }

    /// Waits until an execution may be sent: there is a connection, and the relay has granted credit. The wait for credit
    /// counts as queueing. From here on, the execution is the relay's: send the message with the returned room at once.
    ///
    /// # Errors
    /// `SESSION_LOST`: the session could not be resumed. `OVERLOADED`: there was no credit within the time for queueing.
    pub(super) async fn may_begin(&self, message: &mut Payload, id: &ExecutionId) -> Result<Room<'_>, ExecutionError> {
        let lost = |reason: Arc<str>| {
            ExecutionError::new(ErrorCode::SessionLost, format!("nothing was run: {reason}")).unsent()
        };
        self.session.connected().await.map_err(lost)?;
        let queued = Instant::now();
        let credit = tokio::time::timeout(self.queue_timeout, self.session.take_credit(message)).await;
        let credit = credit.map_err(|_elapsed| {
            let text = "nothing was run: the relay took no further execution of this session in time";
            ExecutionError::new(ErrorCode::Overloaded, text)
        })?;
        if let Payload::Execute(wire::Execute { begin_within_ms: within @ 1.., .. }) = message {
            *within = within.saturating_sub(millis(queued.elapsed())).max(1);
        }
        // The wait for credit may have been long.
        self.session.connected().await.map_err(lost)?;
        let room = self.session.outbound.reserve(message).await;
        let room = room.map_err(|_closed| lost("the session is over".into()))?;
        // There is no await from here until it is sent: a caller that stops waiting leaves nothing half done.
        self.session.ledger.start(id).map_err(|reason| lost(reason.into()))?;
        if let Some(credit) = credit {
            credit.spend();
        }
        Ok(room)
    }
}
