//! Approvals by links: the webhook that is told of them, and the server of their pages.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_client::page::{self, ServeLimits};
use host_client::{ApprovalLinks, Journal, LinkSecret, WebhookApprover, WebhookConfig, WebhookSecret};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::args::{ApprovalArgs, LinkArgs};
use crate::exit::Failure;
use crate::output::note;

/// Maximum time until messages are delivered, before the program ends.
const DELIVERED_WITHIN: Duration = Duration::from_secs(15);

/// Approvals by links. Dropping it ends the server of their pages.
pub(crate) struct Approvals {
    pub(crate) approver: WebhookApprover,
    /// `true`: this program serves the pages, and can wait for a decision.
    pub(crate) is_served: bool,
    _server: JoinSet<()>,
}

impl Approvals {
    /// Makes what the arguments ask for; `None`: they name no webhook.
    ///
    /// # Errors
    /// Status 2: the arguments do not fit together, or an address cannot be used.
    pub(crate) async fn open(args: &ApprovalArgs, journal: Option<&SharedJournal>) -> Result<Option<Self>, Failure> {
        let (Some(webhook), Some(secret)) = (&args.approval_webhook, &args.approval_webhook_secret) else {
            if args.links.approval_listen.is_some() || args.links.approval_url.is_some() {
                return Err(Failure::usage("name who is told of approval links with --approval-webhook"));
            }
            return Ok(None);
        };
        if journal.is_none() && args.links.approval_listen.is_none() {
            return Err(Failure::usage(
                "name the address at which this program serves approval links with --approval-listen; without it, links are for \
                 durable runs alone",
            ));
        }
        let secret = WebhookSecret::new(secret).map_err(Failure::usage)?;
        let mut config = WebhookConfig::new(webhook, secret);
        for network in &args.approval_webhook_network {
            config = config.allow_private(network).map_err(Failure::usage)?;
        }
        let (links, listener) = links(&args.links, journal).await?;
        let links = links.expires_after(args.link_expiry());
        let mut server = JoinSet::new();
        let is_served = listener.is_some();
        if let Some(listener) = listener {
            let router = links.router();
            server.spawn(async move { match page::serve(listener, router, ServeLimits::default()).await {} });
        }
        let approver = WebhookApprover::new(links, config).map_err(Failure::usage)?;
        Ok(Some(Self { approver, is_served, _server: server }))
    }

    /// Waits until the messages that are under way are delivered, or given up.
    pub(crate) async fn delivered(&self) {
        let _ = tokio::time::timeout(DELIVERED_WITHIN, self.approver.delivered()).await;
    }
}

/// Journal with the file in which the secret of links is kept.
pub(crate) struct SharedJournal {
    pub(crate) journal: Arc<dyn Journal>,
    /// File beside the journal; `None`: the journal is no file.
    pub(crate) secret_file: Option<PathBuf>,
}

/// Makes the links, and listens if the arguments say so.
///
/// # Errors
/// Status 2: the arguments do not fit together, or an address cannot be used.
async fn links(
    args: &LinkArgs,
    journal: Option<&SharedJournal>,
) -> Result<(ApprovalLinks, Option<TcpListener>), Failure> {
    let is_tls = args.approval_url.as_deref().is_some_and(|url| url.starts_with("https://"));
    let listener = match args.approval_listen {
        Some(address) if !address.ip().is_loopback() && !is_tls => {
            return Err(Failure::usage(
                "approval links would go over the network in the clear: listen on 127.0.0.1, or put a proxy with TLS in front and \
                 name it with --approval-url https://…",
            ));
        }
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let own = listener.as_ref().map(TcpListener::local_addr).transpose().map_err(Failure::failed)?;
    let base = match (&args.approval_url, own) {
        (Some(url), _) => url.clone(),
        (None, Some(address)) => format!("http://{address}"),
        (None, None) => {
            return Err(Failure::usage(
                "name where people reach approval links: serve them here with --approval-listen, or name the program that serves \
                 them, such as `relay-host runs links`, with --approval-url",
            ));
        }
    };
    let secret = match (&args.approval_secret_file, journal.and_then(|journal| journal.secret_file.as_deref())) {
        (Some(file), _) => LinkSecret::from_file(file),
        (None, Some(file)) => LinkSecret::kept_in(file),
        (None, None) if journal.is_none() => LinkSecret::random(),
        (None, None) => {
            return Err(Failure::usage(
                "name the secret of approval links with --approval-secret-file: the journal is no file",
            ));
        }
    };
    let links = ApprovalLinks::new(&base, secret.map_err(Failure::usage)?).map_err(Failure::usage)?;
    let links = match journal {
        Some(journal) => links.journal(Arc::clone(&journal.journal)),
        None => links,
    };
    if let Some(address) = own {
        note(&format!("approval links are served at http://{address}, as {base}"));
    }
    Ok((links, listener))
}

/// Listens at an address.
///
/// # Errors
/// Status 2: it cannot be listened on.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::usage(format!("{address} cannot be listened on: {error}")))
}

/// Serves the pages of approval links of a journal's runs, until a signal.
///
/// # Errors
/// Status 2: the arguments do not fit together, or an address cannot be used.
pub(crate) async fn serve(args: &LinkArgs, journal: &SharedJournal) -> Result<(), Failure> {
    if args.approval_listen.is_none() {
        return Err(Failure::usage("name the address to serve approval links at with --approval-listen"));
    }
    let (links, listener) = links(args, Some(journal)).await?;
    match listener {
        Some(listener) => match page::serve(listener, links.router(), ServeLimits::default()).await {},
        None => Ok(()),
    }
}

/// Returns the file in which the secret of links is kept beside a journal.
pub(crate) fn secret_file(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".links-secret");
    PathBuf::from(name)
}
