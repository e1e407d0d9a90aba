//! Makes the parts of a host of its options.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use host_client::page::{LocalPage, Page};
use host_client::{Audit, Error, Host, Journal, LazyClient, McpOptions, McpServers, Policy, Runs, Tools, open_journal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Functions, Inner, Open, policy};
use crate::error::SdkError;
use crate::foreign::{ForeignApprover, ForeignCall, asked};
use crate::options::{HostOptions, McpOption, UiOptions, limits};
use crate::relay::Relay;
use crate::tool::{ForeignTool, ToolDescription};

/// The rules of a host, which hosts with other tools can share.
#[derive(Clone)]
pub(super) struct Rules {
    policy: Option<Policy>,
    approver: Option<Arc<dyn ForeignApprover>>,
    audit: Option<Audit>,
    page: Option<Arc<LocalPage>>,
    shows_denied: bool,
    learns: bool,
}

impl Rules {
    /// Makes a host of tools with these rules.
    fn host(&self, tools: &Tools) -> Host {
        let mut host = Host::new(tools.clone()).show_denied(self.shows_denied).learn_results(self.learns);
        if let Some(policy) = &self.policy {
            host = host.policy(policy.clone());
        }
        if let Some(page) = &self.page {
            host = page.watch(host);
        }
        if let Some(approver) = asked(self.approver.clone(), self.page.as_deref()) {
            host = host.approver(approver);
        }
        match &self.audit {
            Some(audit) => host.audit(audit.clone()),
            None => host,
        }
    }
}

/// Makes all parts, the quick ones first, so that mistakes show early.
pub(super) async fn start(mut options: HostOptions, functions: Functions) -> Result<Inner, SdkError> {
    let within = options.start_timeout();
    let limits = limits(&options.limits)?;
    let relay = Relay::new(std::mem::take(&mut options.relay), functions.tokens)?;
    let tools = Tools::new();
    for (description, function) in functions.tools {
        tools.add_tool(ForeignTool { description, function })?;
    }
    let policy = policy(&options)?;
    let journal = match &options.journal {
        Some(journal) => Some(open_journal(journal).await.map_err(host_client::RunError::from)?),
        None => None,
    };
    let audit_file = options.audit.as_ref().map(|audit| audit.0.path.clone());
    let rules = Rules {
        policy,
        approver: functions.approver,
        audit: options.audit.map(|audit| Audit::open(audit.0.into())).transpose().map_err(Error::from)?,
        page: match options.ui {
            Some(ui) => Some(Arc::new(page(ui, journal.clone(), audit_file).await?)),
            None => None,
        },
        shows_denied: options.show_denied,
        learns: options.learn_results.unwrap_or(true),
    };
    let mut host = rules.host(&tools);
    let servers = McpServers::with_options(&tools, McpOptions { call_waits: within, ..McpOptions::default() });
    let configs = options.mcp.into_vec().into_iter().map(McpOption::config);
    let configs = configs.collect::<Result<Vec<_>, _>>()?;
    let mut mounts = Vec::new();
    if let Some(workspace) = options.workspace {
        mounts.push(workspace.0.mount(&tools)?);
    }
    if let Some(http) = options.http {
        mounts.push(http.mount(&tools)?);
    }
    let is_durable = journal.is_some();
    if let Some(journal) = journal {
        host = host.journal(journal);
    }
    for (name, document) in options.openapi {
        mounts.push(document.0.mount(&tools, &name).await?);
    }
    for config in configs {
        servers.start(config)?;
    }
    servers.ready(within).await;
    let host = Arc::new(host);
    let connected = relay.clone();
    let client = LazyClient::new(Arc::clone(&host), move |host| connected.clone().connect(host));
    let runs = match is_durable {
        true => Some(Runs::new(client.clone(), options.durable.into())?),
        false => None,
    };
    let page = rules.page.clone();
    Ok(Inner {
        tools,
        open: Mutex::new(Some(Open { host, rules, client, runs, page })),
        siblings: Mutex::default(),
        conversations: Mutex::default(),
        relay,
        servers,
        limits,
        output: options.output.into(),
        cancel: CancellationToken::new(),
        tasks: TaskTracker::new(),
        _mounts: mounts,
    })
}

/// Serves the page of a host.
///
/// # Errors
/// [`ErrorKind::Configuration`](crate::ErrorKind): the address cannot be used.
async fn page(
    options: UiOptions,
    journal: Option<Arc<dyn Journal>>,
    audit: Option<PathBuf>,
) -> Result<LocalPage, SdkError> {
    let settings = |page: Page| {
        let page = options.by.into_iter().fold(page, Page::by);
        let page = journal.into_iter().fold(page, Page::with_journal);
        audit.into_iter().fold(page, Page::audit)
    };
    LocalPage::open(options.listen, settings).await.map_err(|error| SdkError::option(format!("ui: {error}")))
}

/// Makes the parts of a host with the rules and the relay of another, and with tools of its own. It is cancelled with that one.
pub(super) fn sibling(
    of: &Inner,
    rules: &Rules,
    functions: Vec<(ToolDescription, Arc<dyn ForeignCall>)>,
) -> Result<Inner, SdkError> {
    let tools = Tools::new();
    for (description, function) in functions {
        tools.add_tool(ForeignTool { description, function })?;
    }
    let (host, relay) = (Arc::new(rules.host(&tools)), of.relay.of_another());
    let connected = relay.clone();
    let client = LazyClient::new(Arc::clone(&host), move |host| connected.clone().connect(host));
    let servers = McpServers::new(&tools);
    Ok(Inner {
        tools,
        open: Mutex::new(Some(Open { host, rules: rules.clone(), client, runs: None, page: None })),
        siblings: Mutex::default(),
        conversations: Mutex::default(),
        relay,
        servers,
        limits: of.limits.clone(),
        output: of.output,
        cancel: of.cancel.child_token(),
        tasks: of.tasks.clone(),
        _mounts: Vec::new(),
    })
}
