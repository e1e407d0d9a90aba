//! `ui`: serves the page of a journal and an audit log.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use host_client::page::{self, Page, ServeLimits};

use crate::approvals::listen;
use crate::args::UiArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupts;
use crate::journal::open_existing;
use crate::output::print;
use crate::runs::user;

/// Runs the command, until a signal.
pub(crate) async fn ui(args: UiArgs) -> Result<(), Failure> {
    if !args.listen.ip().is_loopback() && args.host.is_none() {
        return Err(Failure::usage(
            "the page would go over the network in the clear: listen on 127.0.0.1, or put a proxy with TLS in front and name it \
             with --host",
        ));
    }
    let is_own_name = matches!(args.listen.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST));
    if !is_own_name && args.host.is_none() {
        return Err(Failure::usage(
            "browsers look for the page's own name at 127.0.0.1 and [::1]: listen on one of them",
        ));
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
