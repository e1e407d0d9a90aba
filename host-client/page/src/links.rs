//! Approval links: signed addresses of pages, each for one call and its exact arguments, at which a person decides once.
//!
//! - `secret`: the key; `token`: what a link holds
//! - `question`: a question as its page shows it; `routes`: the pages

mod question;
mod routes;
mod secret;
mod token;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::{digest, hmac};
use host_client_core::audit::Hash;
use host_client_core::durable::Journal;
use host_client_core::rules::RunQuestion;
use host_client_core::{Approval, ApprovalRequest};
use tokio::sync::oneshot;
use tokio::time::Instant;
use url::Url;

use crate::open::{self, NotOpened, OpenGuard, OpenQuestions};
pub use secret::{LinkSecret, SecretError};
use token::{Place, Token};

/// The time for which a link works by default: one day.
const EXPIRES_AFTER: Duration = Duration::from_secs(86_400);
/// The maximum length of a link's base, in bytes.
const MAX_BASE_BYTES: usize = 1 << 10;

/// Signed links by which people decide about tool calls, and the pages behind them.
///
/// A link is for one call with exactly its arguments. It works until it expires or somebody has decided. Opening it shows
/// the call and decides nothing. Whoever has a link can decide: send it to that person alone.
///
/// ```no_run
/// use std::sync::Arc;
/// use host_client_page::{ApprovalLinks, LinkSecret};
/// use host_client_journal::SqliteJournal;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Arc::new(SqliteJournal::open("agent/journal.db").await?);
/// let secret = LinkSecret::kept_in("agent/links.secret")?;
/// let links = ApprovalLinks::new("https://agent.example.com", secret)?.journal(journal);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8090").await?;
/// // Behind a proxy with TLS, which has the name agent.example.com.
/// axum::serve(listener, links.router()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ApprovalLinks(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// Scheme, host, port and path under which people reach the pages, with a slash at its end.
    base: Url,
    link_key: hmac::Key,
    form_key: hmac::Key,
    expires_after: Duration,
    open: Arc<OpenQuestions>,
    journal: Option<Arc<dyn Journal>>,
}

/// The reason why there can be no links.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The base is not an HTTP or HTTPS URL without query, fragment, user name and password.
    #[error("{0:?} is no address for approval links: write https://example.com or https://example.com/path")]
    Base(String),
    /// There are too many open questions.
    #[error("{0} calls wait for an answer already")]
    TooMany(usize),
    /// The operating system gives no random numbers.
    #[error("there are no random numbers")]
    Random,
}

/// A link that was made for a question.
pub(crate) struct Link {
    pub(crate) url: String,
    /// An id that is the same whenever the question is asked.
    pub(crate) id: String,
    pub(crate) expires: SystemTime,
    /// The answer that is to come; `None`: it comes by the journal.
    pub(crate) answer: Option<(oneshot::Receiver<Approval>, OpenGuard)>,
}

impl From<NotOpened> for LinkError {
    fn from(error: NotOpened) -> Self {
        match error {
            NotOpened::TooMany(most) => Self::TooMany(most),
            NotOpened::Random => Self::Random,
        }
    }
}

impl std::fmt::Debug for ApprovalLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalLinks").field("base", &self.0.base.as_str()).finish_non_exhaustive()
    }
}

impl ApprovalLinks {
    /// Makes links that begin with `base`, such as `https://agent.example.com`: the address under which people reach
    /// [`ApprovalLinks::router`].
    ///
    /// # Errors
    /// [`LinkError::Base`].
    pub fn new(base: &str, secret: LinkSecret) -> Result<Self, LinkError> {
        let invalid = || LinkError::Base(base.chars().take(100).collect());
        let mut url = Url::parse(base).map_err(|_| invalid())?;
        let has_more = url.query().is_some() || url.fragment().is_some();
        let has_user = !url.username().is_empty() || url.password().is_some();
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        if has_more || has_user || !is_http || base.len() > MAX_BASE_BYTES {
            return Err(invalid());
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Self(Arc::new(Inner {
            base: url,
            link_key: secret.key(b"approval link"),
            form_key: secret.key(b"approval form"),
            expires_after: EXPIRES_AFTER,
            open: Arc::default(),
            journal: None,
        })))
    }

    /// Sets the time for which a link works, if the question is open for so long; one day by default.
    #[must_use]
    pub fn expires_after(mut self, time: Duration) -> Self {
        Arc::make_mut(&mut self.0).expires_after = time;
        self
    }

    /// Sets the journal of durable runs. Links for their calls work in every process with the same journal and secret,
    /// also after a restart. Without a journal, links are for calls of this process alone.
    #[must_use]
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        Arc::make_mut(&mut self.0).journal = Some(journal);
        self
    }

    /// Returns the pages of the links, to be served at the base. They check the host that requests name, and need no
    /// other authentication.
    pub fn router(&self) -> axum::Router {
        routes::router(self.clone())
    }

    /// Opens a question, and makes its link.
    ///
    /// # Errors
    /// [`LinkError::TooMany`], [`LinkError::Random`].
    pub(crate) fn open(&self, request: ApprovalRequest) -> Result<Link, LinkError> {
        let within = self.0.expires_after.min(request.deadline.saturating_duration_since(Instant::now()));
        let expires = SystemTime::now() + within;
        let (place, question, answer) = match (&request.question, &self.0.journal) {
            (Some(RunQuestion { run, sha256 }), Some(_)) => {
                let place = Place::Run { run: run.clone(), call: request.call };
                (place, digest_of(*sha256), None)
            }
            _ => {
                let question = open::sha256(&request);
                let (id, answer, guard) = OpenQuestions::open(&self.0.open, request)?;
                (Place::Open(id), question, Some((answer, guard)))
            }
        };
        let id = place.id();
        let token = Token { place, expires_s: seconds(expires), question };
        let mut url = self.0.base.clone();
        url.set_path(&format!("{}approve/{}", self.0.base.path(), token.sign(&self.0.link_key)));
        Ok(Link { url: url.into(), id, expires, answer })
    }

    /// Returns what a link holds; `None`: it is forged or has expired.
    fn read(&self, token: &str) -> Option<Token> {
        let token = Token::verify(token, &self.0.link_key)?;
        (seconds(SystemTime::now()) < token.expires_s).then_some(token)
    }
}

fn digest_of(question: Hash) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, question.to_string().as_bytes()).as_ref());
    hash
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
