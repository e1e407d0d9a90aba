//! The application's side of every session: its tools, policy, approver and audit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use tower::{BoxError, Layer, Service};

use crate::audit::Audit;
use crate::executor::{self, ToolRequest, ToolService};
use crate::random::random_key;
use crate::rules::approval::{Approver, Grants};
use crate::rules::policy::Policy;
use crate::tools::Tools;

/// Tools, and what every call of them is held against. Clients are connected with one, and may share it; where there is
/// nothing but tools, `tools.into()` is one with the rules that hold by default.
pub struct Host {
    pub(crate) tools: Tools,
    pub(crate) policy: Policy,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// What was approved for the calls of [`Host::call`].
    pub(crate) grants: Grants,
    pub(crate) audit: Option<Audit>,
    pub(crate) service: ToolService,
    /// Counts the calls of [`Host::call`].
    pub(crate) calls: AtomicU64,
    /// Tells these calls apart from those of other hosts in the audit.
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
    /// Tools that read run, and all others are refused, for there is nobody to ask.
    pub fn new(tools: Tools) -> Self {
        Self {
            tools,
            policy: Policy::default(),
            approver: None,
            grants: Grants::default(),
            audit: None,
            service: executor::service(),
            calls: AtomicU64::new(0),
            key: random_key(),
        }
    }

    /// Sets the rules. Without, tools that read run, and all others are asked about.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        // What the policy says of tools holds for this host alone.
        self.tools = self.tools.amended(&policy.manifests);
        self.policy = policy;
        self
    }

    /// Sets who is asked where the rules ask. Without, nobody is, and such calls fail with `APPROVAL_DENIED`.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Records what is asked, decided and done. What cannot be recorded is not done.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Remembers what the results of tools without an output schema are like, and says it where such a tool is declared:
    /// shapes, never values. They are not promised, and nothing is held against them. Off unless turned on.
    #[must_use]
    pub fn learn_results(mut self, learns: bool) -> Self {
        self.tools = self.tools.learning(learns);
        self
    }

    /// Puts a layer around the running of tools, such as one of [`tower`] that limits their rate. The last one is outermost.
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

    /// The tools.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }
}
