//! The host: an application's tools with the policy, approver, audit and layers that all calls pass.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use relay_proto::ToolName;
use tower::{BoxError, Layer, Service};

use crate::audit::Audit;
use crate::conversation::Conversation;
use crate::durable::Journal;
use crate::executor::{self, ToolRequest, ToolService};
use crate::random::random_key;
use crate::rules::approval::Approver;
use crate::rules::policy::{Decision, Explanation, Phase, Policy, PolicyPattern, PolicyWarning};
use crate::tools::{Offer, Tools};
use crate::watch::Watch;

/// An application's tools with the policy, approver, audit and layers that every call of them passes.
///
/// A client is connected with a host, and several clients may share one. [`Client::connect`](crate::Client::connect)
/// also takes [`Tools`] alone, which become a host with the default policy.
///
/// ```
/// use host_client_core::{Approval, CallbackApprover, Effect, Host, ToolError, Tools};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Pay { to: String, amount: u32 }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = Tools::new();
/// let pay = |args: Pay| async move { Ok::<_, ToolError>(format!("{} to {}", args.amount, args.to)) };
/// tools.add("bank.pay", "Pays an amount", Effect::Mutating, pay)?;
///
/// let small_amounts = CallbackApprover::new("small amounts", |request| async move {
///     if request.arguments["amount"].as_u64() < Some(100) { Approval::Once } else { Approval::deny() }
/// });
/// // The default policy requires an approval for tools that change something.
/// let host = Host::new(tools).approver(small_amounts);
///
/// let result = host.call("bank.pay", &json!({"to": "Ada", "amount": 7})).await?;
/// assert_eq!(result, r#""7 to Ada""#);
/// let denied = host.call("bank.pay", &json!({"to": "Ada", "amount": 700})).await;
/// assert!(denied.is_err());
/// # Ok(()) }
/// ```
pub struct Host {
    /// The tools, of which those are offered that the policy does not deny without a phase.
    pub(crate) tools: Tools,
    /// The tools as the phases discover and write offer them.
    of_phases: [Tools; 2],
    shows_denied: bool,
    pub(crate) policy: Policy,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// The approvals for the whole session of the calls of [`Host::call`].
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) audit: Option<Audit>,
    /// The watch over its executions; `None`: nobody watches.
    pub(crate) watch: Option<Watch>,
    /// The journal of durable runs; `None`: there can be none.
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) service: ToolService,
    /// The number of calls made with [`Host::call`].
    pub(crate) calls: AtomicU64,
    /// The id that stands for the session in the audit's records of these calls.
    pub(crate) key: String,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl From<Tools> for Arc<Host> {
    fn from(tools: Tools) -> Self {
        Self::new(Host::new(tools))
    }
}

impl Host {
    /// Creates a host with the default policy, and without approver, audit and layers: tools with [`Effect::ReadOnly`]
    /// run, calls of all others need an approval and fail with `APPROVAL_DENIED`, because there is no approver.
    ///
    /// [`Effect::ReadOnly`]: crate::Effect::ReadOnly
    pub fn new(tools: Tools) -> Self {
        let new = Self {
            of_phases: [tools.clone(), tools.clone()],
            tools,
            shows_denied: false,
            policy: Policy::default(),
            approver: None,
            conversation: Arc::default(),
            audit: None,
            watch: None,
            journal: None,
            service: executor::service(),
            calls: AtomicU64::new(0),
            key: random_key(),
        };
        new.offering()
    }

    /// Makes the handles on the tools that offer what the policy does not deny.
    fn offering(mut self) -> Self {
        let offer = |phase| {
            let policy = self.policy.clone();
            Offer::new(self.shows_denied, move |tool| {
                match policy.decide(&tool.name, &tool.spec.manifest, phase).decision {
                    Decision::Deny { reason } => Some(reason),
                    _ => None,
                }
            })
        };
        self.of_phases = [Phase::Discover, Phase::Write].map(|phase| self.tools.offering(offer(Some(phase))));
        self.tools = self.tools.offering(offer(None));
        self
    }

    /// Returns the tools as they are offered in a phase; `None`: as [`Host::tools`] returns them.
    pub fn offered(&self, phase: Option<Phase>) -> &Tools {
        match phase {
            None => &self.tools,
            Some(Phase::Discover) => &self.of_phases[0],
            Some(Phase::Write) => &self.of_phases[1],
        }
    }

    /// Sets whether tools that the policy denies are shown to models and code, as `Not allowed` with the reason, and
    /// without types. Default: `false`, they are left out of overviews, searches and descriptions.
    #[must_use]
    pub fn show_denied(mut self, shows: bool) -> Self {
        self.shows_denied = shows;
        self.offering()
    }

    /// Sets the policy. By default, tools with [`Effect::ReadOnly`](crate::Effect::ReadOnly) run, and calls of all
    /// others need an approval.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        // The policy changes manifests for this host alone: other hosts may share the tools.
        self.tools = self.tools.amended(&policy.manifests);
        self.policy = policy;
        self.offering()
    }

    /// Sets the approver, which decides on calls that need an approval. Without one, these calls fail with
    /// `APPROVAL_DENIED`.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the audit log, which records every execution, decision, approval and result. A call that cannot be recorded
    /// is not made. There is none by default.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Sets the watch that sees what the host runs from now on: executions and durable runs, with their calls. There is
    /// none by default.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Sets the journal, in which [`Runs`](crate::runs::Runs) keeps durable runs. There is none by default.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Turns the learning of result types on or off; it is off by default. The types of the results of tools without an
    /// output schema are observed, and shown to models in the tools' declarations. Values are never kept, and results
    /// are not checked against these types.
    #[must_use]
    pub fn learn_results(mut self, learns: bool) -> Self {
        self.tools = self.tools.learning(learns);
        self.offering()
    }

    /// Wraps the step that runs tools in a [`tower`] layer, such as a rate limit. The last layer added is the
    /// outermost.
    #[must_use]
    pub fn layer<L>(mut self, layer: &L) -> Self
    where
        L: Layer<ToolService>,
        L::Service: Service<ToolRequest, Response = Bytes> + Clone + Send + Sync + 'static,
        <L::Service as Service<ToolRequest>>::Error: Into<BoxError>,
        <L::Service as Service<ToolRequest>>::Future: Send + 'static,
    {
        self.service = executor::layered(self.service, layer);
        self
    }

    /// Returns the tools, with their manifests as the policy changes them.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Explains what the policy says about a tool in a phase; `None`: there is no tool of this name.
    pub fn explain(&self, tool: &str, phase: Option<Phase>) -> Option<Explanation> {
        let spec = self.tools.spec(tool)?;
        let name = ToolName::try_from(spec.name).ok()?;
        Some(self.policy.explain(&name, &spec.manifest, phase))
    }

    /// Returns what the author of the policy should look at, given the tools that there are now: patterns that fit none
    /// of them, and manifest entries that contradict each other. Call it when all tools are there.
    pub fn policy_warnings(&self) -> Vec<PolicyWarning> {
        self.policy.warnings(&self.tools.names())
    }

    /// Returns every pattern of the policy with the number of tools that it fits now.
    pub fn policy_patterns(&self) -> Vec<PolicyPattern> {
        self.policy.patterns(&self.tools.names())
    }
}
