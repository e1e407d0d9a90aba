//! `ui`: serves the page of a journal and an audit log. `--ui`: the page of what a command runs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use host_client::page::{self, Page, PageApprover, ServeLimits};
use host_client::watch::Watch;
use host_client::{Approver, Host, Journal};
use tokio::task::JoinSet;

use crate::approvals::listen;
use crate::args::{LiveArgs, UiArgs};
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::journal::open_existing;
use crate::output::{note, print};
use crate::user::user;

/// Runs the command, until a signal.
pub(crate) async fn ui(args: UiArgs) -> Result<(), Failure> {
    if !args.listen.ip().is_loopback() && args.host.is_none() {
        return Err(Failure::usage(
            "the page would go over the network in the clear: listen on 127.0.0.1, or put a proxy with TLS in front and name it \
             with --host",
        ));
    }
    if args.host.is_none() {
        check_own_name(args.listen)?;
    }
    let mut interrupts = Interrupts::new()?;
    let journal = open_existing(&args.journal).await?.journal;
    let mut page = Page::new(journal).map_err(Failure::failed)?.by(args.by.unwrap_or_else(user));
    if let Some(file) = args.audit {
        page = page.audit(file);
    }
    let listener = listen(args.listen).await?;
    let mut address = page.local_address(listener.local_addr().map_err(Failure::failed)?.port());
    if let Some(host) = args.host {
        address = format!("https://{host}/#{}", page.token());
        page = page.host(host);
    }
    // The token opens the page once.
    print(&address)?;
    tokio::select! {
        never = page::serve(listener, page.router(), ServeLimits::default()) => match never {},
        () = interrupts.next() => Ok(()),
    }
}

/// Checks that browsers find the page's own name at an address.
///
/// # Errors
/// Status 2: they do not.
fn check_own_name(address: SocketAddr) -> Result<(), Failure> {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => Ok(()),
        _ => Err(Failure::usage("browsers look for the page's own name at 127.0.0.1 and [::1]: listen on one of them")),
    }
}

/// Page of what this program runs. Dropping it ends its server.
pub(crate) struct LivePage {
    page: Page,
    watch: Watch,
    _server: JoinSet<()>,
}

impl LivePage {
    /// Serves the page that the arguments ask for, and prints its address to standard error; `None`: they ask for none.
    ///
    /// # Errors
    /// Status 2: the address cannot be used.
    pub(crate) async fn open(
        args: &LiveArgs,
        journal: Option<Arc<dyn Journal>>,
        audit: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = args.ui else { return Ok(None) };
        check_own_name(address)?;
        let watch = Watch::new();
        let mut page = Page::live(&watch).map_err(Failure::failed)?.by(user());
        if let Some(journal) = journal {
            page = page.with_journal(journal);
        }
        if let Some(file) = audit {
            page = page.audit(file);
        }
        let listener = listen(address).await?;
        note(&format!("page: {}", page.local_address(listener.local_addr().map_err(Failure::failed)?.port())));
        let (mut server, router) = (JoinSet::new(), page.router());
        server.spawn(async move { match page::serve(listener, router, ServeLimits::default()).await {} });
        Ok(Some(Self { page, watch, _server: server }))
    }

    /// Lets a host's runs be seen on the page.
    pub(crate) fn watch(&self, host: Host) -> Host {
        host.watch(self.watch.clone())
    }

    /// Returns the approver that asks on the page, and another one at the same time if there is one.
    pub(crate) fn approver(&self, other: Option<Arc<dyn Approver>>) -> PageApprover {
        let approver = self.page.approver();
        match other {
            Some(other) => approver.or(other),
            None => approver,
        }
    }
}
