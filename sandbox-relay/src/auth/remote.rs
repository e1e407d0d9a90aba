//! Fetches the key set of an HTTPS address: at the start, at intervals, and when a token names an unknown key, but for
//! tokens at most every [`FETCH_PAUSE`].

use std::time::Duration;

use axum::body::Body;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::keys::{self, KeyError, Keys, RemoteKeySource};
use crate::tls;

/// Minimum time between two fetches that tokens with unknown keys cause.
const FETCH_PAUSE: Duration = Duration::from_secs(30);
/// Maximum time of one fetch.
const FETCH_WITHIN: Duration = Duration::from_secs(5);
/// Maximum length of a key set in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Fetches one key set.
pub(super) struct RemoteKeys {
    url: Uri,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    fetched: Mutex<Instant>,
}

impl RemoteKeys {
    /// # Errors
    /// [`KeyError`]: the address is not `https://`, or the authorities cannot be read.
    pub(super) fn new(source: &RemoteKeySource) -> Result<Self, KeyError> {
        let wrong = |reason: String| KeyError::Unreachable { url: source.url.clone(), reason };
        let url: Uri = source.url.parse().map_err(|_| wrong("it is no address".into()))?;
        if url.scheme_str() != Some("https") {
            return Err(wrong("it has to begin with https://".into()));
        }
        let config = tls::client_config(source.authorities.as_deref()).map_err(|error| wrong(error.to_string()))?;
        let connector =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().build();
        // This client follows no redirect.
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Self { url, client, fetched: Mutex::new(Instant::now()) })
    }

    /// Waits for the turn to fetch a missing key. `None`: another task has fetched it meanwhile, or the last fetch was
    /// just now.
    pub(super) async fn turn(&self, still_missing: impl Fn() -> bool) -> Option<MutexGuard<'_, Instant>> {
        let mut fetched = self.fetched.lock().await;
        if !still_missing() || fetched.elapsed() < FETCH_PAUSE {
            return None;
        }
        *fetched = Instant::now();
        Some(fetched)
    }

    /// Fetches the keys.
    ///
    /// # Errors
    /// [`KeyError`]: no answer in time, none with status 200, or no key set.
    pub(super) async fn fetch(&self) -> Result<Keys, KeyError> {
        let wrong = |reason: String| KeyError::Unreachable { url: self.url.to_string(), reason };
        let fetched = async {
            let response = self.client.get(self.url.clone()).await.map_err(|error| wrong(causes(&error)))?;
            if response.status() != StatusCode::OK {
                return Err(wrong(format!("its status is {}", response.status())));
            }
            let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
            Ok(body.map_err(|error| wrong(error.to_string()))?.to_bytes())
        };
        let json = tokio::time::timeout(FETCH_WITHIN, fetched).await;
        keys::key_set(&json.unwrap_or_else(|_| Err(wrong("it does not answer in time".into())))?)
    }
}

/// Joins the texts of an error and of its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
