//! `sandbox_execute`: carries out an objective about the files of one folder, by a program that a model writes.
//!
//! It is a tool for another agent's loop. The caller gives an objective, limits and globs, and gets a summary, the
//! files read, the tools called, and a patch or proposed edits. Of the files, only what the program returns reaches the
//! context of that agent.
//!
//! - The application sets the folder, and allows or forbids writing: see [`SandboxExecute`].
//! - The caller can only narrow that: a folder within, globs, a write policy, limits.
//! - The files, calls and patches in the report are what the host did, whatever the program says.

mod arguments;
mod output;
mod record;
#[cfg(feature = "rig")]
mod rig;

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use globset::{Glob, GlobSet, GlobSetBuilder};
use relay_proto::time::millis;
use relay_proto::{ErrorCode, LimitName, LimitOverrides};
use serde_json::Value;

use crate::agent::{Definition, unwrapped};
use crate::arguments::{parse, schema};
use crate::programmatic::{Model, Programmatic, ProgrammaticConfig, ProgrammaticRequest, Step};
use crate::report::Report;
use host_client_core::audit::Audit;
use host_client_core::client::Client;
use host_client_core::client::LazyClient;
use host_client_core::error::Error;
use host_client_core::event::Event;
use host_client_core::host::Host;
use host_client_core::rules::approval::Approver;
use host_client_core::rules::policy::{Budget, Phase, Policy};
use host_client_core::tools::{Mount, Tools};
use host_client_sources::sets::workspace::WorkspaceSet;

pub use arguments::{OutputMode, SandboxInput, SandboxLimits, SandboxWorkspace, WritePolicy};
pub use output::{EditAction, ProposedEdit, SandboxError, SandboxOutput, ToolUsage};
use record::Recorder;

/// Name of the server whose tools the program calls.
const SERVER: &str = "workspace";
/// Maximum length of an objective, in bytes.
const MAX_OBJECTIVE_BYTES: usize = 20_000;
/// Description of the tool for the calling model.
const DESCRIPTION: &str = "\
Has a program written and run that looks at the files of a folder, or changes them, for an objective in words. Use it \
where many files have to be listed, searched or read: only a summary comes back, with what was read, what was called, \
and the edits that are proposed or were made. Phase `discover` only reads; phase `write` changes what \
`writePolicy.allowedPaths` fits.";
/// Instructions for the model: what its program must return.
const TASK: &str = "\
The request is an objective about the files of one folder, which the tools of `workspace` reach; paths are seen from \
it. Return `{summary: string, proposedEdits?: [{path, action: \"create\" | \"modify\" | \"delete\" | \"rename\", \
reason}], needsEscalation?: string}`: `summary` is a short text for whoever gave the objective, `needsEscalation` says \
what is missing where the objective cannot be reached with what is allowed here.";
/// Instructions for the model to propose a patch.
const WITH_PATCH: &str = "\
Also return `patch?: string` with the edits that you propose, as one unified diff, or in the other format of \
`apply_patch`.";

/// The tool `sandbox_execute` for one folder. It reads, and writes only after [`allow_writes`](Self::allow_writes).
///
/// ```no_run
/// use host_client_core::{Client, ClientConfig};
/// use host_client_model::SandboxExecute;
/// use host_client_model::programmatic::Model;
///
/// # async fn example(model: impl Model) -> Result<(), Box<dyn std::error::Error>> {
/// let config = ClientConfig::new("ws://127.0.0.1:8080/ws", "the token");
/// let tool = SandboxExecute::new(model, "/srv/project", move |host| Client::connect(config.clone(), host))?
///     .hide([".env", "*.pem"])?;
/// // Give the calling model `tool.definition()`, and pass on its calls:
/// let arguments = serde_json::json!({"objective": "Which files have more than 400 lines?", "phase": "discover"});
/// let report = tool.call(arguments).await;
/// println!("{}", report.text);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SandboxExecute {
    model: Arc<dyn Model>,
    /// Client of the relay. Each run has a host of its own.
    client: LazyClient,
    root: PathBuf,
    hidden: Vec<String>,
    hidden_names: GlobSet,
    may_write: bool,
    approver: Option<Arc<dyn Approver>>,
    audit: Option<Audit>,
    config: ProgrammaticConfig,
}

impl fmt::Debug for SandboxExecute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxExecute")
            .field("root", &self.root)
            .field("may_write", &self.may_write)
            .finish_non_exhaustive()
    }
}

impl SandboxExecute {
    /// Name of the tool.
    pub const NAME: &'static str = "sandbox_execute";

    /// Creates the tool for a folder. `connect` connects a client for the host that it gets: each run has its own.
    ///
    /// # Errors
    /// [`Error::Source`] if there is no such folder.
    pub fn new<Fut>(
        model: impl Model,
        root: impl AsRef<Path>,
        connect: impl Fn(Arc<Host>) -> Fut + Send + Sync + 'static,
    ) -> Result<Self, Error>
    where
        Fut: Future<Output = Result<Client, Error>> + Send + 'static,
    {
        let refuse = |reason: String| Error::source(Self::NAME, reason);
        let root = root.as_ref();
        let real =
            root.canonicalize().map_err(|error| refuse(format!("{} cannot be used: {error}", root.display())))?;
        if !real.is_dir() {
            return Err(refuse(format!("{} is no folder", root.display())));
        }
        Ok(Self {
            model: Arc::new(model),
            client: LazyClient::new(Tools::new(), connect),
            root: real,
            hidden: Vec::new(),
            hidden_names: GlobSet::empty(),
            may_write: false,
            approver: None,
            audit: None,
            config: ProgrammaticConfig::default(),
        })
    }

    /// Hides files and folders by name, such as `.env` or `*.pem`, at any depth, whatever the caller asks for. Replaces
    /// the names of an earlier call. Default: none.
    ///
    /// # Errors
    /// [`Error::Source`] if a name is an invalid glob, or contains a `/`.
    pub fn hide<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        self.hidden = names.into_iter().map(Into::into).collect();
        let refuse =
            |name: &str, reason: &str| Error::source(Self::NAME, format!("the glob {name:?} cannot be used: {reason}"));
        let mut globs = GlobSetBuilder::new();
        for name in &self.hidden {
            if name.contains('/') {
                return Err(refuse(name, "it is not about a name"));
            }
            globs.add(Glob::new(name).map_err(|error| refuse(name, &error.to_string()))?);
        }
        self.hidden_names = globs.build().map_err(|error| refuse("", &error.to_string()))?;
        Ok(self)
    }

    /// Allows the phase `write`. Default: `false`. The caller's write policy says which files may be written; set an
    /// [`approver`](Self::approver) to be asked about each patch.
    #[must_use]
    pub fn allow_writes(mut self, yes: bool) -> Self {
        self.may_write = yes;
        self
    }

    /// Sets the approver of patches. Default: none, and patches that the caller's write policy allows are applied.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the audit log that records calls and decisions. Default: none.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Sets the settings for the model and its programs. Limits of the caller lower them. Default:
    /// [`ProgrammaticConfig::default`].
    #[must_use]
    pub fn config(mut self, config: ProgrammaticConfig) -> Self {
        self.config = config;
        self
    }

    /// Returns the definition for the calling agent's model.
    pub fn definition(&self) -> Definition {
        let parameters = Value::Object((*schema::<SandboxInput>()).clone());
        Definition::new(Self::NAME, DESCRIPTION.to_owned(), parameters)
    }

    /// Runs a call of the agent's model. The text of the report is the JSON of a [`SandboxOutput`]. `arguments` is an
    /// object, or a string with its JSON.
    pub async fn call(&self, arguments: Value) -> Report {
        let output = match parse::<SandboxInput>(Self::NAME, unwrapped(arguments)) {
            Ok(input) => self.run(input).await,
            Err(wrong) => SandboxOutput::refused(None, wrong.strip_prefix("INVALID_INPUT: ").unwrap_or(&wrong)),
        };
        output.into()
    }

    /// Carries out an objective. Failures are in [`SandboxOutput::error`].
    pub async fn run(&self, input: SandboxInput) -> SandboxOutput {
        let (began, phase) = (Instant::now(), input.phase);
        if phase == Phase::Write && !self.may_write {
            let mut output = SandboxOutput::refused(Some(phase), "the phase write is not enabled here");
            output.needs_escalation = Some("writing has to be enabled by whoever runs this tool".into());
            return output;
        }
        let recorder = Recorder::new(input.limits.max_read_bytes);
        let (host, _mount) = match self.host(&input, &recorder) {
            Ok(host) => host,
            Err(reason) => return SandboxOutput::refused(Some(phase), &reason),
        };
        let denied = Arc::new(Mutex::new(None));
        let request = self.request(&input, Arc::clone(&denied));
        let config = ProgrammaticConfig { limits: self.limits(&input.limits), ..self.config.clone() };
        let programmatic =
            Programmatic::shared(Arc::clone(&self.model), self.client.for_host(Arc::new(host))).config(config);
        let within = Duration::from_millis(input.limits.max_duration_ms);
        let ended = tokio::time::timeout(within, programmatic.run(request)).await;
        let mut output = match ended {
            Ok(ended) => SandboxOutput::from_result(ended, &input),
            Err(_) => {
                let message = format!("it was not done within maxDurationMs, {} ms", within.as_millis());
                SandboxOutput::failed(Some(phase), ErrorCode::Timeout.into(), message)
            }
        };
        recorder.fill(&mut output, &input);
        output.tool_usage.duration_ms = millis(began.elapsed());
        if !output.success && output.needs_escalation.is_none() {
            output.needs_escalation = denied.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        output
    }

    /// Makes a host with the tools of the folder only.
    fn host(&self, input: &SandboxInput, recorder: &Recorder) -> Result<(Host, Mount), String> {
        if input.objective.trim().is_empty() || input.objective.len() > MAX_OBJECTIVE_BYTES {
            return Err(format!("the objective has to have 1 to {MAX_OBJECTIVE_BYTES} bytes"));
        }
        let SandboxWorkspace { root, include_globs, exclude_globs } = &input.workspace;
        let to_text = |error: Error| error.to_string();
        let mut set = WorkspaceSet::open(self.folder(root.as_deref())?).map_err(to_text)?;
        set = set.exclude(self.hidden.iter().chain(exclude_globs)).map_err(to_text)?;
        if !include_globs.is_empty() {
            set = set.include(include_globs).map_err(to_text)?;
        }
        if input.phase == Phase::Write {
            let policy = input.write_policy.as_ref().filter(|policy| !policy.allowed_paths.is_empty());
            let policy =
                policy.ok_or("the phase write needs writePolicy.allowedPaths: globs of what may be written")?;
            set = set.writable(&policy.allowed_paths).map_err(to_text)?;
            set = set.allow_create(policy.allow_create).allow_delete(policy.allow_delete);
        }
        let tools = Tools::new();
        let mount = set.mount(&tools, SERVER).map_err(to_text)?;
        let patch = format!("{SERVER}.apply_patch");
        let limits = &input.limits;
        let mut policy = Policy::new().in_write_phase([&patch]).budget(Budget {
            calls: Some(limits.max_tool_calls),
            bytes_read: Some(limits.max_read_bytes),
            bytes_returned: Some(limits.max_result_bytes),
            ..Budget::default()
        });
        if self.approver.is_none() {
            policy = policy.allow([patch]);
        }
        let mut host = Host::new(tools).policy(policy).layer(recorder);
        if let Some(approver) = &self.approver {
            host = host.approver(Arc::clone(approver));
        }
        if let Some(audit) = &self.audit {
            host = host.audit(audit.clone());
        }
        Ok((host, mount))
    }

    /// Returns the requested folder within the root. The error is the same for a folder outside and one that does not
    /// exist.
    fn folder(&self, asked: Option<&str>) -> Result<PathBuf, String> {
        let Some(asked) = asked else { return Ok(self.root.clone()) };
        let none = || format!("workspace.root: there is no folder {asked:?} in {}", self.root.display());
        let folder = self.root.join(asked).canonicalize().map_err(|_| none())?;
        let below = folder.strip_prefix(&self.root).map_err(|_| none())?;
        let is_hidden = below.iter().any(|name| self.hidden_names.is_match(Path::new(name)) || name == ".git");
        if folder.is_dir() && !is_hidden { Ok(folder) } else { Err(none()) }
    }

    /// Makes the request to the model.
    fn request(&self, input: &SandboxInput, denied: Arc<Mutex<Option<String>>>) -> ProgrammaticRequest {
        let with_patch = input.output_mode == OutputMode::SummaryAndPatch && input.phase == Phase::Discover;
        let task = if with_patch { format!("{TASK} {WITH_PATCH}") } else { TASK.to_owned() };
        let request = ProgrammaticRequest::new(&input.objective).system(task).phase(input.phase);
        request.watch(move |step| {
            if let Step::Execution { event: Event::ToolCallDenied { reason, .. }, .. } = step {
                denied.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
            }
        })
    }

    /// Returns the limits of the application, lowered to those of the caller.
    fn limits(&self, asked: &SandboxLimits) -> LimitOverrides {
        let mut limits = self.config.limits.clone();
        for (name, asked) in [
            (LimitName::ToolCalls, asked.max_tool_calls),
            (LimitName::WallMs, asked.max_duration_ms),
            (LimitName::ResultBytes, asked.max_result_bytes),
        ] {
            let asked = asked.min(name.maximum());
            limits.set(name, limits.get(name).map_or(asked, |limit| limit.min(asked)));
        }
        limits
    }
}
