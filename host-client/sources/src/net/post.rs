//! Posting to one address that the application names.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;
use url::Url;

use super::{BodyLimit, GuardedClient, NetError, RemoteAccess, Request, origin};

/// Bytes of an answer that are read: its content means nothing.
const MAX_ANSWER_BYTES: usize = 4 << 10;

/// HTTP client that posts to one address. It connects to the address' own host and port, follows no redirect, and reaches
/// a private network only if the access names it with [`RemoteAccess::allow_private`].
pub struct Poster {
    client: GuardedClient,
    url: Url,
}

/// Failure to post. No message contains a path or a query, because those may hold secrets.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The address is not an HTTP or HTTPS URL without user name and password.
    #[error("it is no address to post to: write https://example.com/path")]
    Address,
    /// The client cannot be made, such as with authorities that are no certificates.
    #[error("the HTTP client cannot be made: {0}")]
    Setup(String),
    /// The address may not be reached. Another try would fail the same way.
    #[error("{0}")]
    Refused(String),
    /// It could not be sent, or there was no answer in time.
    #[error("{0}")]
    Failed(String),
}

impl std::fmt::Debug for Poster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poster").field("origin", &origin(&self.url)).finish_non_exhaustive()
    }
}

impl Poster {
    /// Makes a client for one address. Of `access`, its private networks and authorities count; its hosts do not.
    ///
    /// # Errors
    /// [`PostError::Address`], [`PostError::Setup`].
    pub fn new(url: &str, access: RemoteAccess) -> Result<Self, PostError> {
        let url = Url::parse(url).map_err(|_| PostError::Address)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || !matches!(url.scheme(), "http" | "https") {
            return Err(PostError::Address);
        }
        let access = access.only_to(&origin(&url)).map_err(|_| PostError::Address)?;
        let client = GuardedClient::new(access).map_err(|error| PostError::Setup(error.to_string()))?;
        Ok(Self { client, url })
    }

    /// Returns the scheme, host and port of the address.
    pub fn origin(&self) -> String {
        origin(&self.url)
    }

    /// Posts once, and returns the status of the answer. A redirect is an answer, and is not followed.
    ///
    /// # Errors
    /// [`PostError::Refused`], [`PostError::Failed`].
    pub async fn post(&self, headers: HeaderMap, body: Bytes, within: Duration) -> Result<StatusCode, PostError> {
        let request = Request { method: Method::POST, url: self.url.clone(), headers, body: Some(body) };
        let answer = self.client.send(request, BodyLimit::CutAt(MAX_ANSWER_BYTES), Instant::now() + within).await;
        answer.map(|answer| answer.status).map_err(|error| match &error {
            NetError::NotAllowed { .. } | NetError::UserInfo | NetError::LongUrl | NetError::OutOfReach { .. } => {
                PostError::Refused(error.to_string())
            }
            _ => PostError::Failed(error.to_string()),
        })
    }
}
