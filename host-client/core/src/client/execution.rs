//! A running execution.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, ExecutionId, wire};
use tokio::sync::{broadcast, oneshot};
use tokio::time::Sleep;

use super::Warning;
use super::outcome::Outcome;
use crate::call::ExecutionContext;
use crate::call::ledger::{Ended, Opened};
use crate::error::{Error, ExecutionError};
use crate::event::{Event, EventStream};
use crate::session::Session;

/// A running execution: a future of its outcome. Dropping it cancels the execution.
#[derive(Debug)]
#[must_use = "dropping an execution cancels it"]
pub struct Execution {
    context: Arc<ExecutionContext>,
    session: Arc<Session>,
    events: Option<broadcast::Receiver<Event>>,
    outcome: oneshot::Receiver<Ended>,
    deadline: Pin<Box<Sleep>>,
    /// The warnings of this host about the code, which come before those of the relay.
    warnings: Vec<Warning>,
    /// The time at which it is given up, without the time spent waiting for approvals.
    given_up_at: tokio::time::Instant,
    /// The time that the session had been without a connection when the execution began.
    away_before: Duration,
    /// The time that executions of the same durable run had waited for approvals before.
    waited_before: Duration,
}

impl Execution {
    /// Creates the future of an opened execution. From here on, dropping it cancels the execution.
    pub(super) fn new(session: Arc<Session>, opened: Opened, within: Duration) -> Self {
        Self {
            away_before: session.away().0,
            waited_before: opened.context.approvals.clock.waited().0,
            session,
            events: Some(opened.events),
            outcome: opened.outcome,
            deadline: Box::pin(tokio::time::sleep(within)),
            warnings: Vec::new(),
            given_up_at: tokio::time::Instant::now() + within,
            context: opened.context,
        }
    }

    /// Adds warnings of this host about the code.
    #[cfg(feature = "short-path")]
    pub(super) fn with_warnings(mut self, warnings: Vec<Warning>) -> Self {
        self.warnings = warnings;
        self
    }

    pub(super) fn context(&self) -> &Arc<ExecutionContext> {
        &self.context
    }

    /// Returns the id, which names this execution in the relay's and the host's logs.
    pub fn id(&self) -> &ExecutionId {
        &self.context.id
    }

    /// Returns the events from the start; `None`: they were taken before.
    pub fn events(&mut self) -> Option<EventStream> {
        self.events.take().map(EventStream::new)
    }

    /// Returns the execution and its events from the start; if those were taken before, its events from now on.
    ///
    /// ```no_run
    /// # async fn example(client: host_client_core::Client) -> Result<(), host_client_core::Error> {
    /// use futures_util::StreamExt as _;
    /// use host_client_core::{Event, ExecuteRequest};
    ///
    /// let (execution, events) = client.execute(ExecuteRequest::new("return 1")).await?.with_events();
    /// let watch = events.for_each(async |event| println!("{event:?}"));
    /// let (outcome, ()) = tokio::join!(execution, watch);
    /// println!("{}", outcome?.value()?);
    /// # Ok(()) }
    /// ```
    pub fn with_events(mut self) -> (Self, EventStream) {
        let events = self.events.take().unwrap_or_else(|| self.context.events.subscribe());
        (self, EventStream::new(events))
    }

    /// Cancels the execution, which can still be awaited: it fails at once with `CANCELLED` and the output so far,
    /// unless it had ended before. Its tools are no longer waited for. Dropping it cancels it, too.
    pub fn cancel(&self) {
        self.give_up(ExecutionError::new(ErrorCode::Cancelled, "the execution was cancelled"));
    }

    /// Ends the execution on this side at once with this error, and cancels it at the relay if it was sent there.
    fn give_up(&self, error: ExecutionError) {
        if !self.session.ledger.is_open(&self.context.id) {
            return;
        }
        let is_relays = self.session.ledger.is_relays(&self.context.id);
        self.session.ledger.end(&self.context.id, Err(error));
        if !is_relays {
            return;
        }
        let cancel = Payload::Cancel(wire::Cancel {
            execution_id: self.context.id.as_str().to_owned(),
            reason: "the host dropped it".into(),
            ..wire::Cancel::default()
        });
        if let Err(cancel) = self.session.outbound.try_send(cancel)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let session = Arc::clone(&self.session);
            runtime.spawn(async move { session.outbound.send(*cancel).await });
        }
    }
}

impl Future for Execution {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ended = Pin::new(&mut self.outcome).poll(cx);
        while ended.is_pending() && self.deadline.as_mut().poll(cx).is_ready() {
            // Waiting for people stops the relay's clock, and ours; so does a lost connection, for as long as the session can
            // be resumed.
            let (waited, waits) = self.context.approvals.clock.waited();
            let (away, is_away) = self.session.away();
            let (away, most) = (away.saturating_sub(self.away_before), self.session.window());
            let now = tokio::time::Instant::now();
            let given_up_at = self.given_up_at + waited.saturating_sub(self.waited_before) + away.min(most);
            if given_up_at > now || waits || (is_away && away < most) {
                self.deadline.as_mut().reset(given_up_at.max(now + Duration::from_secs(1)));
                continue;
            }
            self.give_up(ExecutionError::new(ErrorCode::Timeout, "the relay did not end the execution in time"));
            ended = Pin::new(&mut self.outcome).poll(cx);
        }
        let ended = ready!(ended);
        let Ok(Ended { result, output }) = ended else {
            // The ledger always says how an execution ended; it is gone only with the whole session.
            let error = ExecutionError::new(ErrorCode::SessionLost, "the session is over");
            return Poll::Ready(Err(Box::new(error).into()));
        };
        let mut warnings = std::mem::take(&mut self.warnings);
        Poll::Ready(match result {
            Ok(result) => Ok(Outcome {
                json: if result.data.is_empty() { Bytes::from_static(b"null") } else { result.data },
                output,
                warnings: {
                    warnings.extend(result.warnings.into_iter().map(Into::into));
                    warnings
                },
                usage: result.usage.unwrap_or_default().into(),
            }),
            Err(error) => {
                warnings.extend(error.warnings);
                Err(Box::new(ExecutionError { output, warnings, ..error }).into())
            }
        })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}
