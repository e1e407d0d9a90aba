//! The server that the operations of a document are called at.

use url::Url;

use super::document::server_url;
use super::error::Unusable;
use crate::net::{self, GuardedClient, RemoteAccess};

/// Maximum number of servers that an error message lists.
const NAMED_SERVERS: usize = 20;

/// Returns the server of the application (`base_url`), or the `chosen` one of the document's `servers`, or the first of them.
///
/// # Errors
/// [`Unusable::BaseUrl`], [`Unusable::NoServer`], [`Unusable::Server`].
pub(super) fn choose(servers: &[Url], base_url: Option<&str>, chosen: Option<&str>) -> Result<Url, Unusable> {
    if let Some(url) = base_url {
        return server_url(url, None).ok_or_else(|| Unusable::BaseUrl(url.to_owned()));
    }
    let first = servers.first().ok_or(Unusable::NoServer)?;
    let Some(chosen) = chosen else { return Ok(first.clone()) };
    let found = server_url(chosen, None).filter(|url| servers.contains(url));
    found.ok_or_else(|| Unusable::Server {
        chosen: chosen.to_owned(),
        known: servers.iter().take(NAMED_SERVERS).map(Url::as_str).collect::<Vec<_>>().join(", "),
    })
}

/// Creates a client that reaches the host of `url` and no other.
///
/// # Errors
/// [`Unusable::Address`], [`Unusable::Client`].
pub(super) fn client(access: RemoteAccess, url: &Url) -> Result<GuardedClient, Unusable> {
    let access = access.and(&net::origin(url)).map_err(|_| Unusable::Address)?;
    GuardedClient::new(access).map_err(|error| Unusable::Client(error.to_string()))
}
