//! `ui`: serves the page of a journal and an audit log. `--ui`: the page of what a command runs.

use std::path::Path;
use std::sync::Arc;

use host_client::Journal;
use host_client::page::{self, LocalPage, Page, ServeLimits, check_local};

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
        check_local(args.listen).map_err(|error| Failure::usage(error.to_string()))?;
    }
    let mut interrupts = Interrupts::new()?;
    let journal = open_existing(&args.journal).await?.journal;
    let mut page = Page::new(journal).map_err(Failure::failed)?.by(args.by.unwrap_or_else(user));
    if let Some(file) = args.audit {
        page = page.audit(file);
    }
    if let Some(file) = args.study {
        page = page.study(file);
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

/// Serves the page that the arguments ask for, and prints its address to standard error; `None`: they ask for none.
///
/// # Errors
/// Status 2: the address cannot be used.
pub(crate) async fn open(
    args: &LiveArgs,
    journal: Option<Arc<dyn Journal>>,
    audit: Option<&Path>,
) -> Result<Option<LocalPage>, Failure> {
    let Some(address) = args.ui else { return Ok(None) };
    let settings = |mut page: Page| {
        page = page.by(user());
        if let Some(journal) = journal {
            page = page.with_journal(journal);
        }
        match audit {
            Some(file) => page.audit(file),
            None => page,
        }
    };
    let page = LocalPage::open(address, settings).await.map_err(|error| Failure::usage(error.to_string()))?;
    note(&format!("page: {}", page.address()));
    Ok(Some(page))
}
