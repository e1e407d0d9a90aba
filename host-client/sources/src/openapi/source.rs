//! The place that a document comes from, and its text.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use http::header::HeaderMap;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use url::Url;

use super::error::Unusable;
use super::server;
use crate::net::{self, BodyLimit, RemoteAccess, Request};

/// Maximum time to fetch a document.
const FETCH_WITHIN: Duration = Duration::from_secs(30);

/// Place that a document comes from.
#[derive(Clone)]
pub(super) enum Source {
    Text(String),
    File(PathBuf),
    Url(String),
}

impl Source {
    /// Describes the place, without the path and query of a URL, which may hold secrets.
    pub(super) fn origin(&self) -> String {
        match self {
            Self::Text(_) => "of the application".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Url(url) => Url::parse(url).map_or_else(|_| "at no address".to_owned(), |url| net::origin(&url)),
        }
    }

    /// Reads a document of at most `most` bytes. Returns its text with the base of its relative URLs, if it came from a URL.
    pub(super) async fn read(&self, most: usize, access: &RemoteAccess) -> Result<(String, Option<Url>), Unusable> {
        match self {
            Self::Text(text) if text.len() > most => Err(Unusable::Size(most)),
            Self::Text(text) => Ok((text.clone(), None)),
            Self::File(path) => {
                let mut bytes = Vec::new();
                let over = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
                tokio::fs::File::open(path).await?.take(over).read_to_end(&mut bytes).await?;
                if bytes.len() > most {
                    return Err(Unusable::Size(most));
                }
                Ok((String::from_utf8_lossy(&bytes).into_owned(), None))
            }
            Self::Url(url) => {
                let url = Url::parse(url).map_err(|_| Unusable::Address)?;
                Ok((fetch(url.clone(), most, access).await?, Some(url)))
            }
        }
    }
}

/// Fetches a document of at most `most` bytes from the host of `url`.
async fn fetch(url: Url, most: usize, access: &RemoteAccess) -> Result<String, Unusable> {
    let client = server::client(access.clone(), &url)?;
    let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
    let answer = client.send(request, BodyLimit::FailOver(most), Instant::now() + FETCH_WITHIN).await;
    let answer = answer.map_err(|error| Unusable::Fetch(error.to_string()))?;
    if !answer.status.is_success() {
        return Err(Unusable::Fetch(format!("the server answered with {}", answer.status)));
    }
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}
