//! The page of one process, for browsers of its machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use host_client_core::watch::Watch;
use host_client_core::{Approver, Host};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::approver::PageApprover;
use crate::serve::{ServeLimits, serve};
use crate::ui::{NoRandom, Page};

/// The [page](Page::live) of what one process runs, served at an address of its machine. Dropping it ends its server.
///
/// ```no_run
/// use host_client_core::{Host, Tools};
/// use host_client_page::LocalPage;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let page = LocalPage::open("127.0.0.1:0".parse()?, |page| page.by("Ada")).await?;
/// let host = page.watch(Host::new(Tools::new())).approver(page.approver(None));
/// println!("open {}", page.address());
/// # drop(host);
/// # Ok(()) }
/// ```
pub struct LocalPage {
    page: Page,
    watch: Watch,
    address: String,
    _server: JoinSet<()>,
}

/// A page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalPageError {
    /// Browsers would not find the page's own name at the address.
    #[error("a page is for browsers of this machine, which look for it at 127.0.0.1 and [::1]: {0} is neither")]
    NotLocal(SocketAddr),
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The operating system gives no random numbers.
    #[error(transparent)]
    NoRandom(#[from] NoRandom),
}

impl std::fmt::Debug for LocalPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address has the token.
        f.debug_struct("LocalPage").field("page", &self.page).finish_non_exhaustive()
    }
}

impl LocalPage {
    /// Serves a page, with a free port in the place of port 0. `settings` adds to it, such as [`Page::by`],
    /// [`Page::with_journal`] and [`Page::audit`].
    ///
    /// # Errors
    /// All of [`LocalPageError`].
    pub async fn open(address: SocketAddr, settings: impl FnOnce(Page) -> Page) -> Result<Self, LocalPageError> {
        check_local(address)?;
        let watch = Watch::new();
        let page = settings(Page::live(&watch)?);
        let refused = |source| LocalPageError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let port = listener.local_addr().map_err(refused)?.port();
        let (mut server, router) = (JoinSet::new(), page.router());
        server.spawn(async move { match serve(listener, router, ServeLimits::default()).await {} });
        Ok(Self { address: page.local_address(port), page, watch, _server: server })
    }

    /// Returns the address that opens the page in a browser, once: it has the token.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Lets a host's runs be seen on the page.
    #[must_use]
    pub fn watch(&self, host: Host) -> Host {
        host.watch(self.watch.clone())
    }

    /// Returns the approver that asks on the page, and another one at the same time if there is one.
    pub fn approver(&self, other: Option<Arc<dyn Approver>>) -> PageApprover {
        let approver = self.page.approver();
        match other {
            Some(other) => approver.or(other),
            None => approver,
        }
    }
}

/// Checks that browsers find a page's own name, which ends in `.localhost`, at an address.
///
/// # Errors
/// [`LocalPageError::NotLocal`].
pub fn check_local(address: SocketAddr) -> Result<(), LocalPageError> {
    match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => Ok(()),
        _ => Err(LocalPageError::NotLocal(address)),
    }
}
