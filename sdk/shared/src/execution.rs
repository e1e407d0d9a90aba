//! Code that runs: its events, its outcome, and the way to stop it.

use std::sync::Arc;

use futures_util::FutureExt as _;
use host_client::{EventStream, ExecuteRequest, LazyClient};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::SdkError;
use crate::runtime;
use crate::shape::{OutputShape, UsageShape, WarningShape, event};

/// The most sessions that one request is sent to, each of which has events.
const MOST_SESSIONS: usize = 4;

/// The outcome of code that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The returned value as JSON text.
    #[serde(skip)]
    pub json: String,
    /// What the code printed.
    pub output: Vec<OutputShape>,
    /// The warnings about the code.
    pub warnings: Vec<WarningShape>,
    /// What the code used.
    pub usage: UsageShape,
}

impl From<host_client::Outcome> for Outcome {
    fn from(outcome: host_client::Outcome) -> Self {
        Self {
            json: String::from_utf8_lossy(&outcome.json).into_owned(),
            output: outcome.output.iter().map(Into::into).collect(),
            warnings: outcome.warnings.iter().map(Into::into).collect(),
            usage: outcome.usage.into(),
        }
    }
}

/// How code ended.
pub type Ended = Result<Arc<Outcome>, SdkError>;

/// Code that runs. Dropping it cancels the code.
#[derive(Debug)]
pub struct Execution {
    cancel: CancellationToken,
    outcome: watch::Receiver<Option<Ended>>,
    events: Events,
}

impl Execution {
    /// Starts code on the runtime, as one of the tasks that `cancel` stops.
    ///
    /// # Errors
    /// Those of [`runtime::handle`].
    pub(crate) fn start(
        client: LazyClient,
        request: ExecuteRequest,
        (cancel, tasks): (CancellationToken, &TaskTracker),
    ) -> Result<Self, SdkError> {
        let (tell, outcome) = watch::channel(None);
        let (streams, told) = mpsc::channel(MOST_SESSIONS);
        let stop = cancel.clone();
        let task = async move {
            let ended = runtime::caught(run(client, request, stop, streams)).await;
            // Nobody may wait for it any more.
            let _ = tell.send(Some(ended.map(Arc::new)));
        };
        tasks.spawn_on(task, &runtime::handle()?);
        Ok(Self { cancel, outcome, events: Events::new(told) })
    }

    /// Waits for the outcome. It may be asked for several times.
    ///
    /// # Errors
    /// The code failed, or no relay could be reached.
    pub async fn outcome(&self) -> Ended {
        let mut outcome = self.outcome.clone();
        match outcome.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_else(|| Err(SdkError::closed())),
            Err(_) => Err(SdkError::closed()),
        }
    }

    /// Returns the events from the start. All that ask share them.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Cancels the code, which ends with `CANCELLED` and the output so far. Its tools are not waited for.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Events, as JSON. Clones share them.
#[derive(Debug, Clone)]
pub struct Events(Arc<Mutex<Streams>>);

#[derive(Debug)]
struct Streams {
    coming: mpsc::Receiver<EventStream>,
    current: Option<EventStream>,
}

impl Events {
    fn new(coming: mpsc::Receiver<EventStream>) -> Self {
        Self(Arc::new(Mutex::new(Streams { coming, current: None })))
    }

    /// Makes the events of one stream.
    pub(crate) fn of(stream: EventStream) -> Self {
        let (_, coming) = mpsc::channel(1);
        Self(Arc::new(Mutex::new(Streams { coming, current: Some(stream) })))
    }

    /// Waits for the next event, and returns it with those that have come by then, at most `most`. Empty: the last one was
    /// returned.
    pub async fn next(&self, most: usize) -> Vec<Value> {
        let mut streams = self.0.lock().await;
        let Some(first) = streams.next().await else { return Vec::new() };
        let mut events = vec![first];
        while events.len() < most
            && let Some(Some(next)) = streams.next().now_or_never()
        {
            events.push(next);
        }
        events
    }
}

impl Streams {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if self.current.is_none() {
                self.current = Some(self.coming.recv().await?);
            }
            if let Some(current) = &mut self.current
                && let Some(next) = current.next().await
            {
                return Some(event(&next));
            }
            self.current = None;
        }
    }
}

/// Runs code to its end, or until it is cancelled.
async fn run(
    client: LazyClient,
    request: ExecuteRequest,
    cancel: CancellationToken,
    streams: mpsc::Sender<EventStream>,
) -> Result<Outcome, SdkError> {
    // `true` while a relay has the code. It may be sent to several, one after the other.
    let (runs, mut running) = watch::channel(false);
    let runs = &runs;
    let follow = |execution: host_client::Execution| {
        runs.send_replace(true);
        let (mut execution, events) = execution.with_events();
        // There is room for all sessions; and nobody has to watch.
        let _ = streams.try_send(events);
        let cancel = cancel.clone();
        async move {
            let outcome = tokio::select! {
                outcome = &mut execution => Some(outcome),
                () = cancel.cancelled() => None,
            };
            let outcome = match outcome {
                Some(outcome) => outcome,
                None => {
                    execution.cancel();
                    execution.await
                }
            };
            runs.send_replace(false);
            outcome
        }
    };
    let between = async {
        cancel.cancelled().await;
        // An execution that runs is told, and ends with its output.
        let _ = running.wait_for(|is_running| !is_running).await;
    };
    tokio::select! {
        biased;
        outcome = client.run_with(request, follow) => Ok(outcome?.into()),
        () = between => Err(SdkError::cancelled()),
    }
}
