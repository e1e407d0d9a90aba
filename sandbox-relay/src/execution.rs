//! One execution, from the hand-over to a worker until its end. It knows neither sessions nor transport: `session` and
//! `eval` run it with an [`EventSink`] of their own.
//!
//! The worker is counted and timed from here and trusted with nothing: every limit is checked again on this side.

mod clock;
mod durable;
#[cfg(test)]
mod hostile_worker;
mod link;
mod outcome;
mod place;
mod request;
mod run;
mod states;
mod stopwatch;

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use relay_proto::wire::OutputItem;
use relay_proto::{Binding, Code, ErrorCode, LimitName, Limits, ToolName};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::admission::ExecutionPermit;
use crate::sandbox::channel::message::instruction::Kind as Instruction;
use crate::sandbox::pool::Worker;
use crate::store;
pub(crate) use durable::{DurableRequest, News, Seen};
use link::{Reader, Writer, put_instruction};
use outcome::Ended;
pub(crate) use outcome::{ExecutionError, Outcome};
use place::Place;
pub(crate) use request::{Bindings, ExecutionRequest};
use run::Run;
pub(crate) use states::{CallStates, Wait};

/// Maximum time for which output from before the end waits for room in the sink.
const DELIVER_WITHIN: Duration = Duration::from_secs(1);

/// Command to a running execution.
#[derive(Debug)]
pub(crate) enum Command {
    /// Answers a call.
    Settle { call: WorkerCall, outcome: Result<Bytes, CallFailure> },
    /// Ends the execution: nobody wants its outcome any more.
    Cancel,
}

/// Receiving ends of a running execution.
#[derive(Debug)]
pub(crate) struct Control {
    /// Commands. The execution is cancelled when all senders are gone.
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) states: Arc<CallStates>,
    /// Place that the execution holds and can give back while it waits for people; `None`: it holds none.
    pub(crate) place: Option<Arc<ExecutionPermit>>,
    /// Maximum time for which its clocks stand still while there is no connection, in all.
    pub(crate) stopped_for: Duration,
}

/// Number that the worker gave a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WorkerCall(pub(crate) u64);

/// Failure of a call, as the script reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallFailure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Event of a running execution.
#[derive(Debug)]
pub(crate) enum Event {
    /// The script calls a tool. `remaining` is the time until the call expires, from when the event is sent, `line` the line of the code that calls,
    /// from 1; 0 is unknown.
    Call { call: WorkerCall, tool: ToolName, arguments: Bytes, remaining: Duration, line: u32, news: News },
    /// A call has expired: its answer is not wanted any more.
    CallGivenUp { call: WorkerCall, reason: &'static str },
    /// The script printed. Without a piece of output it carries news alone.
    Output(Vec<OutputItem>, News),
    /// A durable execution begins for the first time.
    Begun(Seen),
    /// The script of a durable execution waits. `timer_in_ms` is the time until its next timer is due.
    Waiting { timer_in_ms: Option<u64>, news: News },
}

/// Room that an event needs in its sink.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Bytes of JSON or text.
    pub(crate) bytes: usize,
    /// `true`: it is a tool call, which the host has to be ready for.
    pub(crate) is_call: bool,
}

impl Event {
    /// Returns the room that the event needs.
    fn needs(&self) -> Needs {
        match self {
            Self::Call { arguments, news, .. } => Needs { bytes: arguments.len() + news.len(), is_call: true },
            Self::CallGivenUp { .. } => Needs::default(),
            Self::Output(items, news) => {
                let texts: usize = items.iter().map(|item| item.text.len()).sum();
                Needs { bytes: texts + news.len(), is_call: false }
            }
            Self::Begun(seen) => Needs { bytes: seen.len(), is_call: false },
            Self::Waiting { news, .. } => Needs { bytes: news.len(), is_call: false },
        }
    }

    /// Returns what is left of the event when its execution has ended and it was not sent.
    fn after_end(self) -> Option<Self> {
        match self {
            Self::Output(..) => Some(self),
            // What comes behind it may carry later steps.
            Self::Call { news, .. } | Self::Waiting { news, .. } if !news.is_empty() => {
                Some(Self::Output(Vec::new(), news))
            }
            Self::Call { .. } | Self::Waiting { .. } | Self::CallGivenUp { .. } | Self::Begun(_) => None,
        }
    }
}

/// Receives the events of one execution. A full sink holds up this execution and no other.
pub(crate) trait EventSink {
    /// Room for one event.
    type Permit;

    /// Checks whether the script may call a tool, before anybody is asked. One whose call `is_recorded` need not exist any
    /// more.
    ///
    /// # Errors
    /// The failure that the script reads, such as `UNKNOWN_TOOL`.
    fn check_tool(&self, tool: &ToolName, is_recorded: bool) -> Result<(), CallFailure>;

    /// Waits for room for an event; `None`: nobody listens any more. Cancel safe.
    fn reserve(&self, needs: Needs) -> impl Future<Output = Option<Self::Permit>> + Send;

    /// Sends an event in the room that was reserved for it.
    fn send(&mut self, permit: Self::Permit, event: Event);

    /// Inserts a value into the session's store, or removes the key with `None`. Returns `false` if it has no room.
    #[must_use]
    fn store(&self, key: String, json: Option<Bytes>) -> bool;
}

/// Runs a script in a fresh worker until it ends, by itself or at a limit. The worker cannot be used again; ending its
/// process is the caller's.
pub(crate) async fn run(
    worker: &mut Worker,
    mut request: ExecutionRequest,
    control: Control,
    sink: &mut impl EventSink,
) -> Outcome {
    let Control { mut commands, states, place, stopped_for } = control;
    let limits = request.limits;
    let store_writes = if request.bindings.has(Binding::Store) { store::MAX_WRITES } else { 0 };
    let mut pending = request.seen().map(Event::Begun);
    let durable = request.durable.take();
    let start = request.into_instruction(durable.as_ref());
    let (mut reader, writer) = match begin(worker, &limits, start) {
        Ok(link) => link,
        Err(error) => {
            return Outcome::not_run(ExecutionError::new(
                ErrorCode::WorkerLost,
                format!("the worker was lost: {error}"),
            ));
        }
    };
    let mut run = Run::new(worker, limits, writer, Arc::clone(&states), store_writes, stopped_for, durable);
    let mut place = Place::new(place);
    let deadline = sleep_until(run.next_check());
    tokio::pin!(deadline);
    let ended = loop {
        place.update(run.waits_for_people());
        run.hold_clocks(place.comes_back());
        if place.is_held() {
            run.writer.try_write();
        }
        if deadline.deadline() != run.next_check() {
            deadline.as_mut().reset(run.next_check());
        }
        let needs = pending.as_ref().map(Event::needs).unwrap_or_default();
        tokio::select! {
            biased;
            command = commands.recv() => {
                let mut flow = run.command(command);
                // Answers that came together go to the worker together.
                while flow.is_continue() && let Ok(command) = commands.try_recv() {
                    flow = run.command(Some(command));
                }
                if let ControlFlow::Break(ended) = flow {
                    break ended;
                }
            }
            () = deadline.as_mut() => match run.check_time() {
                ControlFlow::Break(ended) => break ended,
                ControlFlow::Continue(()) => pending = pending.or_else(|| run.take_expired()),
            },
            () = states.changed() => run.update_clocks(),
            // The next round writes.
            () = run.writer.writable(), if run.writer.is_pending() && place.is_held() => {}
            change = place.changed() => place.apply(change, run.worker),
            permit = sink.reserve(needs), if pending.is_some() => match (permit, pending.take()) {
                (Some(permit), Some(mut event)) => {
                    run.begin(&mut event);
                    sink.send(permit, event);
                    pending = run.take_expired();
                }
                _ => break Ended::cancelled(),
            },
            report = reader.next(), if pending.is_none() && run.writer.has_room() => match report {
                Ok(report) => {
                    // However much a worker has said at once: the others on this thread have their turn.
                    tokio::task::coop::consume_budget().await;
                    match run.report(report, &mut reader, sink) {
                        ControlFlow::Continue(event) => pending = event,
                        ControlFlow::Break(ended) => break ended,
                    }
                }
                Err(error) => break run.lost(error).await,
            },
        }
    };
    drop(commands);
    let unsent = pending.and_then(Event::after_end);
    let rest = if let Ended::Stopped(_) = ended { run.take_rest(&mut reader, sink) } else { Vec::new() };
    let deliver = async {
        for event in unsent.into_iter().chain(rest) {
            let Some(permit) = sink.reserve(event.needs()).await else { return };
            sink.send(permit, event);
        }
    };
    // A sink that takes too long misses the rest.
    let _ = tokio::time::timeout(DELIVER_WITHIN, deliver).await;
    run.outcome(ended, place.waited())
}

/// Sets the worker's memory limit and hands it the instruction to start.
fn begin(worker: &mut Worker, limits: &Limits, start: Instruction) -> io::Result<(Reader, Writer)> {
    let mut socket = worker.take_socket().ok_or_else(|| io::Error::other("no socket"))?;
    worker.limit_memory(limits.get(LimitName::MemoryBytes))?;
    let mut pending = BytesMut::new();
    put_instruction(start, &mut pending);
    // The worker has it before the runtime knows the socket; what is too long for the socket's buffer follows.
    match io::Write::write(&mut socket, &pending) {
        Ok(written) => pending.advance(written),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    let (reader, writer) = tokio::net::UnixStream::from_std(socket)?.into_split();
    Ok((Reader { socket: reader, buffer: BytesMut::new() }, Writer { socket: writer, pending }))
}
