//! Makes the parts of a host of its options.

use std::sync::{Arc, Mutex};

use host_client::{Audit, Error, Host, LazyClient, McpOptions, McpServers, Policy, Runs, Tools, open_journal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Functions, Inner, Open, policy};
use crate::error::SdkError;
use crate::foreign::{Asked, ForeignApprover, ForeignCall};
use crate::options::{HostOptions, McpOption, limits};
use crate::relay::Relay;
use crate::tool::{ForeignTool, ToolDescription};

/// The rules of a host, which hosts with other tools can share.
#[derive(Clone)]
pub(super) struct Rules {
    policy: Option<Policy>,
    approver: Option<Arc<dyn ForeignApprover>>,
    audit: Option<Audit>,
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
        if let Some(approver) = &self.approver {
            host = host.approver(Asked::new(Arc::clone(approver)));
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
    let rules = Rules {
        policy: policy(&options)?,
        approver: functions.approver,
        audit: options.audit.map(|audit| Audit::open(audit.0.into())).transpose().map_err(Error::from)?,
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
    if let Some(journal) = &options.journal {
        host = host.journal(open_journal(journal).await.map_err(host_client::RunError::from)?);
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
    let runs = match options.journal {
        Some(_) => Some(Runs::new(client.clone(), options.durable.into())?),
        None => None,
    };
    Ok(Inner {
        tools,
        open: Mutex::new(Some(Open { host, rules, client, runs })),
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
        open: Mutex::new(Some(Open { host, rules: rules.clone(), client, runs: None })),
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
