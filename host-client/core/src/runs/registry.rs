//! The runs of one process: it begins them, takes those of a process that has died, and keeps its hold on all of them.

use std::sync::Arc;

use relay_proto::ToolPatterns;
use relay_proto::time::now_ms;
use tracing::Instrument as _;

use super::drive::Drive;
use super::handle::Run;
use super::holder::{Driven, Holder, instruct};
use super::places::Place;
use super::plan::RunPlan;
use super::prepare::{Here, prepare};
use super::stop::Stop;
use super::{RunError, RunOptions};
use crate::client::{Check, ExecuteRequest, LazyClient};
use crate::durable::MemoryJournal;
use crate::durable::journal::{Journal, JournalError, NewRun, RunFilter, RunId, RunStatus};
use crate::durable::record::RunRecord;
use crate::error::Error;
use crate::trace;

/// The number of runs that are read from the journal at once.
const PAGE: usize = 256;

/// The durable runs of one process: of a client, with the journal of its host.
///
/// Dropping it, and all clones, does not end its runs: they go on as long as the process does.
///
/// ```no_run
/// use std::sync::Arc;
/// use host_client_core::{ExecuteRequest, Host, Journal, LazyClient, Tools};
/// use host_client_core::runs::{RunOptions, Runs};
///
/// # async fn example(client: LazyClient) -> Result<(), host_client_core::Error> {
/// // The client's host was made with `Host::new(tools).journal(…)`.
/// let runs = Runs::new(client, RunOptions::default())?;
/// // Runs that a process has left behind, such as this program before it was stopped.
/// for run in runs.recover().await?.runs {
///     println!("{} goes on", run.id());
/// }
/// let run = runs.start(ExecuteRequest::new("return await mcp.call('bank.pay', {to: 'Ada', amount: 7})")).await?;
/// println!("{} has begun", run.id());
/// println!("{}", run.outcome().await?.value()?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Runs {
    pub(super) holder: Arc<Holder>,
    pub(super) client: LazyClient,
    /// The owner whose runs these are; `None`: they are everybody's.
    pub(super) owner: Option<Arc<str>>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runs").field("journal", &self.holder.journal).finish_non_exhaustive()
    }
}

/// The runs that a process takes over.
#[derive(Debug, Default)]
pub struct Recovered {
    /// The runs that go on here.
    pub runs: Vec<Run>,
    /// The runs that another process holds.
    pub held: Vec<RunId>,
    /// The runs that cannot go on, with the reasons. They stay in the journal.
    pub failed: Vec<(RunId, RunError)>,
}

impl Runs {
    /// Creates the runs of a client, with the journal of its host.
    ///
    /// # Errors
    /// [`RunError::NoJournal`]: the host has none.
    pub fn new(client: impl Into<LazyClient>, options: RunOptions) -> Result<Self, Error> {
        let client = client.into();
        let journal = client.host().journal.clone().ok_or(RunError::NoJournal)?;
        let holder = Arc::new(Holder::new(journal, options, true));
        Ok(Self { holder, client, owner: None })
    }

    /// Creates runs that end with this process, of a host that need not have a journal: they outlive their relay and the
    /// requests for them, and wait without holding anything there. What they do is kept in memory until they are forgotten.
    pub fn in_memory(client: impl Into<LazyClient>, options: RunOptions) -> Self {
        let holder = Arc::new(Holder::new(Arc::new(MemoryJournal::new()), options, false));
        Self { holder, client: client.into(), owner: None }
    }

    /// Begins a run. It is in the journal when this returns, and goes on whatever becomes of the returned handle.
    ///
    /// # Errors
    /// - [`Error::Run`]: it cannot be durable, the owner has [`RunOptions::open_runs`] that have not ended, or the journal does not
    ///   take it.
    /// - Those of [`LazyClient::lease`]: no relay can be reached, and nothing was begun.
    /// - [`Error::Pattern`]: a pattern of [`ExecuteRequest::tools`] can fit no tool.
    /// - [`Error::Audit`]: the run could not be recorded, and was not begun.
    pub async fn start(&self, request: ExecuteRequest) -> Result<Run, Error> {
        let client = self.client.lease().await?;
        if client.build().is_none() {
            return Err(RunError::OldRelay { relay: client.relay().to_owned() }.into());
        }
        let request = request.with_offered(client.offered());
        self.check_redactions(&request)?;
        let id = RunId::random();
        let span = tracing::info_span!("durable_run", run = id.as_str(), trace_id = tracing::field::Empty);
        let trace = trace::begin(&span, request.trace);
        span.record("trace_id", trace.trace_id());
        let mut plan = RunPlan::new(&request, &self.holder.options, (trace, client.granted_tools()), |name| {
            client.effective_limit(&request, name)
        });
        plan.owner = self.owner.as_deref().map(str::to_owned);
        drop(client);
        let this = self.clone();
        let here = Here {
            client: self.client.clone(),
            approver: request.approver,
            check: request.check,
            conversation: self.client.conversation(),
            span: span.clone(),
        };
        let begun = tokio::spawn(async move { this.begin(id, plan, here).await }.instrument(span));
        // A caller that stops waiting leaves nothing half begun.
        begun.await.map_err(|_panic| RunError::Left)?
    }

    /// Adds a run to the journal, and begins to drive it.
    async fn begin(&self, id: RunId, plan: RunPlan, here: Here) -> Result<Run, Error> {
        let json = plan.to_json()?;
        let (holder, owner) = (&self.holder, plan.owner.as_deref());
        let journal = (&*holder.journal, holder.name.as_str());
        let is_here = |run: &RunId| holder.active().contains_key(run);
        let place = holder.places.take_new(owner, holder.options.open_runs, journal, is_here).await?;
        let record = RunRecord::read(&id, &json, &[]).map_err(RunError::Journal)?;
        // First the audit: a run that it does not take is not begun.
        let (run, drive) = prepare(holder, &id, plan, record, here)?;
        let new = NewRun { id: id.clone(), created_ms: now_ms(), plan: json };
        if let Err(error) = self.holder.journal.create(new, self.holder.claim()).await {
            // It may be there although the journal does not know: nobody is to find it.
            let _ = self.holder.journal.forget(id, self.holder.name.clone(), now_ms()).await;
            return Err(RunError::Journal(error).into());
        }
        self.launch(&run, drive, place);
        Ok(run)
    }

    /// Goes on with the runs that no process goes on with: those of this program before it was stopped, among others.
    ///
    /// # Errors
    /// [`Error::Run`]: the journal cannot be read.
    pub async fn recover(&self) -> Result<Recovered, Error> {
        let (mut recovered, mut after) = (Recovered::default(), None);
        loop {
            let filter = RunFilter { unfinished: true, limit: PAGE, after: after.take(), newest_first: false };
            let page = self.holder.journal.runs(filter).await.map_err(RunError::Journal)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|head| (head.created_ms, head.id.clone()));
            for head in page {
                if self.get(&head.id).is_some() {
                    continue;
                }
                match self.resume(&head.id).await {
                    Ok(run) => recovered.runs.push(run),
                    Err(Error::Run(error)) => match *error {
                        RunError::Journal(JournalError::Claimed { run, .. }) => recovered.held.push(run),
                        // Somebody has ended or removed it meanwhile.
                        RunError::Unknown(_) | RunError::Journal(JournalError::Unknown(_)) => {}
                        error => recovered.failed.push((head.id, error)),
                    },
                    // The audit does not take it.
                    Err(error) => recovered.failed.push((head.id, RunError::NotBegun(error.to_string()))),
                }
            }
            if is_last {
                return Ok(recovered);
            }
        }
    }

    /// Goes on with a run. Approvals that a person gives for a session hold in this run alone.
    ///
    /// # Errors
    /// - [`Error::Run`]: another process holds it, it has ended, or the journal cannot be read.
    /// - [`Error::Audit`]: that it goes on could not be recorded, and it does not.
    pub async fn resume(&self, id: &RunId) -> Result<Run, Error> {
        if let Some(run) = self.get(id) {
            return Ok(run);
        }
        self.check_owner(id).await?;
        self.check_open(id).await?;
        let turn = self.holder.turn_of(id);
        let _turn = turn.lock().await;
        if let Some(run) = self.get(id) {
            return Ok(run);
        }
        let journal = &self.holder.journal;
        journal.claim(id.clone(), self.holder.claim(), now_ms()).await.map_err(RunError::Journal)?;
        match self.read(id).await {
            Ok((run, drive)) => {
                let place = self.holder.places.take(run.owner());
                self.launch(&run, drive, place);
                // Those that were left since they were read. One that comes twice counts once.
                if let Ok(instructions) = journal.instructions_of(id.clone()).await {
                    instructions.into_iter().for_each(|it| instruct(&run, it));
                }
                Ok(run)
            }
            Err(error) => {
                // Others may want to have it.
                let _ = journal.release(id.clone(), self.holder.name.clone()).await;
                Err(error)
            }
        }
    }

    /// Checks that a run has not ended.
    ///
    /// # Errors
    /// [`RunError::Unknown`]: it has, or there is none. [`RunError::Journal`]: the journal cannot be read.
    async fn check_open(&self, id: &RunId) -> Result<(), RunError> {
        match self.holder.journal.run(id.clone()).await? {
            Some(head) if head.status != RunStatus::Ended => Ok(()),
            _ => Err(RunError::Unknown(id.clone())),
        }
    }

    /// Reads a run and what is decided about it from the journal.
    ///
    /// # Errors
    /// Those of [`Runs::resume`].
    async fn read(&self, id: &RunId) -> Result<(Run, Drive), Error> {
        let journal = &self.holder.journal;
        let json = journal.plan(id.clone()).await.map_err(RunError::Journal)?;
        let json = json.ok_or_else(|| RunError::Unknown(id.clone()))?;
        let entries = journal.entries(id.clone(), 0).await.map_err(RunError::Journal)?;
        let record = RunRecord::read(id, &json, &entries).map_err(RunError::Journal)?;
        if record.ended.is_some() {
            return Err(RunError::Unknown(id.clone()).into());
        }
        let instructions = journal.instructions_of(id.clone()).await.map_err(RunError::Journal)?;
        let here = Here {
            client: self.client.clone(),
            approver: None,
            check: Check::Off,
            // What was approved for the session of whoever asks for the run does not hold for the run.
            conversation: Arc::new(self.client.conversation().another()),
            span: tracing::info_span!("durable_run", run = id.as_str()),
        };
        let (run, drive) = prepare(&self.holder, id, RunPlan::parse(id, &json)?, record, here)?;
        instructions.into_iter().for_each(|it| instruct(&run, it));
        Ok((run, drive))
    }

    /// Returns whether the runs end with this process: they were made by [`Runs::in_memory`].
    pub fn are_in_memory(&self) -> bool {
        !self.holder.is_stored
    }

    /// Returns the journal, such as to list its runs.
    pub fn journal(&self) -> &dyn Journal {
        &*self.holder.journal
    }

    /// Returns a run that goes on in this process; `None`: it does not.
    pub fn get(&self, id: &RunId) -> Option<Run> {
        self.holder.active().get(id).filter(|run| self.knows(run.owner())).cloned()
    }

    /// Returns the runs that go on in this process.
    pub fn active(&self) -> Vec<Run> {
        self.holder.active().values().filter(|run| self.knows(run.owner())).cloned().collect()
    }

    /// Gives all runs up, so that another process can go on with them at once, such as before this one ends. Calls whose tools
    /// run are stopped, and their outcomes are unknown.
    pub async fn leave(&self) {
        let runs = self.active();
        for run in &runs {
            run.stop(Stop::Leave);
        }
        for run in runs {
            // It ends with [`RunError::Left`], unless it had another end just now.
            let _ = run.outcome().await;
        }
    }

    /// Refuses code that may call tools whose arguments must not be kept: the code has them, and the journal the code.
    fn check_redactions(&self, request: &ExecuteRequest) -> Result<(), Error> {
        let host = self.client.host();
        let Some(audit) = host.audit.as_ref().filter(|_| self.holder.is_stored) else { return Ok(()) };
        let patterns = request.tools.as_ref().map(ToolPatterns::checked).transpose()?.unwrap_or_default();
        let names = host.tools.callable().into_iter().map(|tool| tool.name.clone());
        let redacted: Vec<_> = names.filter(|name| patterns.allow(name) && audit.redacts(name.as_str())).collect();
        if redacted.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = redacted.iter().take(5).map(ToString::to_string).collect();
        let text = format!(
            "arguments of {} are redacted in the audit, and the journal would keep them; leave these tools out with \
             ExecuteRequest::tools",
            names.join(", "),
        );
        Err(RunError::NotDurable(text).into())
    }

    /// Begins to drive a run.
    fn launch(&self, run: &Run, drive: Drive, place: Place) {
        self.holder.active().insert(run.id().clone(), run.clone());
        let driven = Driven {
            holder: Arc::clone(&self.holder),
            id: run.id().clone(),
            calls: Arc::clone(&drive.calls),
            is_released: false,
            _place: place,
        };
        let span = drive.calls.context.span.clone();
        let driving = async move {
            let (outcome, sender) = drive.run().await;
            driven.end().await;
            sender.send_replace(Some(outcome));
        };
        tokio::spawn(driving.instrument(span));
        self.holder.keep();
    }
}
