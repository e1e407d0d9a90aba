//! A webhook that is told of calls that wait for a person, with an approval link for each.
//!
//! - `sign`: the signature of a message

mod sign;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backon::{ExponentialBuilder, Retryable as _};
use bytes::Bytes;
use host_client_core::rules::approval::ApprovalFuture;
use host_client_core::{Approval, ApprovalRequest, Approver, Effect};
use host_client_sources::{InvalidAccess, PostError, Poster, RemoteAccess};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::links::{ApprovalLinks, Link};
pub use sign::{WebhookSecret, WebhookSecretError};

/// The name of whoever answers, for events and the audit.
const NAME: &str = "approval link";
/// The maximum time of one request.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// The number of further tries after the first.
const RETRIES: usize = 5;
/// The shortest and the longest time between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(20));
/// The maximum length of arguments and of code that a message holds, in bytes.
const SENT_BYTES: usize = 16 << 10;

/// The settings of a [`WebhookApprover`].
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    url: String,
    secret: WebhookSecret,
    access: RemoteAccess,
    first_pause: Duration,
}

/// The reason why there can be no webhook.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address cannot be posted to.
    #[error("the webhook cannot be used: {0}")]
    Post(#[from] PostError),
}

impl WebhookConfig {
    /// Names the address, whose messages are signed with the secret.
    pub fn new(url: impl Into<String>, secret: WebhookSecret) -> Self {
        Self { url: url.into(), secret, access: RemoteAccess::default(), first_pause: PAUSES.0 }
    }

    /// Lets the address' host lie in this private network, such as `10.1.0.0/16`. Without it, only addresses of the public
    /// internet are reached.
    ///
    /// # Errors
    /// [`InvalidAccess::Network`].
    pub fn allow_private(mut self, network: &str) -> Result<Self, InvalidAccess> {
        self.access = self.access.allow_private(network)?;
        Ok(self)
    }

    /// Trusts these certificate authorities (PEM) instead of the public ones.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access = self.access.authorities(pem);
        self
    }

    /// Sets the time before the second try, which doubles with each further one; 500 ms by default.
    #[must_use]
    pub fn first_pause(mut self, pause: Duration) -> Self {
        self.first_pause = pause;
        self
    }
}

/// An approver that posts each question to a webhook, with an [approval link](ApprovalLinks), and waits for the decision
/// by the link.
///
/// A message is a JSON object, signed as [Standard Webhooks](https://www.standardwebhooks.com) says. It is sent up to six
/// times until the answer's status is 2xx; a redirect is not followed. If it cannot be delivered, the call is denied; that
/// of a durable run waits, because others can decide by the journal. A process that goes on with a durable run tells of its
/// open questions again, with the same `webhook-id`.
#[derive(Debug, Clone)]
pub struct WebhookApprover {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    links: ApprovalLinks,
    poster: Poster,
    secret: WebhookSecret,
    first_pause: Duration,
    /// The number of messages that are being delivered.
    sending: watch::Sender<usize>,
}

/// The content of a message.
#[derive(Serialize)]
struct Message<'a> {
    r#type: &'static str,
    /// The time of the question, RFC 3339.
    timestamp: String,
    data: Question<'a>,
}

#[derive(Serialize)]
struct Question<'a> {
    link: &'a str,
    expires: String,
    tool: &'a str,
    description: &'a str,
    effect: Option<&'static str>,
    rule: &'a str,
    line: Option<usize>,
    arguments_bytes: usize,
    /// `null` if they are long: the page shows them.
    arguments: Option<&'a Value>,
    code_bytes: usize,
    code: Option<&'a str>,
    run: Option<&'a str>,
    call: u64,
}

/// A guard that counts a message that is being delivered.
struct Sending<'a>(&'a watch::Sender<usize>);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl WebhookApprover {
    /// Makes an approver of links and the address that is told of them.
    ///
    /// # Errors
    /// [`WebhookError::Post`].
    pub fn new(links: ApprovalLinks, config: WebhookConfig) -> Result<Self, WebhookError> {
        let poster = Poster::new(&config.url, config.access)?;
        let (secret, first_pause) = (config.secret, config.first_pause);
        let inner = Inner { links, poster, secret, first_pause, sending: watch::Sender::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Waits until no message is being delivered, such as before the program ends.
    pub async fn delivered(&self) {
        // The sender is there as long as this is.
        let _ = self.inner.sending.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Approver for WebhookApprover {
    fn name(&self) -> &str {
        NAME
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.ask(request).await })
    }
}

impl Inner {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        // The reason is for the operator: to the code, it would tell of hosts that it cannot see.
        let warn = |reason: &str| {
            tracing::warn!(tool = request.tool.as_str(), reason, "a webhook was not told of a question");
        };
        let denied = || Approval::Deny { reason: Some("nobody could be asked".into()) };
        let mut link = match self.links.open(request.clone()) {
            Ok(link) => link,
            Err(error) => {
                warn(&error.to_string());
                return denied();
            }
        };
        let Some((mut answer, _open)) = link.answer.take() else {
            if let Err(reason) = self.tell(&request, &link).await {
                warn(&reason);
            }
            // The decision comes by the journal.
            return std::future::pending().await;
        };
        let told = tokio::select! {
            biased;
            // A receiver may pass the link on and then fail: a decision counts from the moment its page says so.
            decided = &mut answer => return decided.unwrap_or_else(|_closed| Approval::deny()),
            told = self.tell(&request, &link) => told,
        };
        let Err(reason) = told else {
            return answer.await.unwrap_or_else(|_closed| Approval::deny());
        };
        warn(&reason);
        answer.close();
        answer.try_recv().unwrap_or_else(|_none| denied())
    }

    /// Posts the question, again and again if that fails.
    ///
    /// # Errors
    /// The reason of the last failure, for people.
    async fn tell(&self, request: &ApprovalRequest, link: &Link) -> Result<(), String> {
        self.sending.send_modify(|count| *count += 1);
        let _sending = Sending(&self.sending);
        let body = Bytes::from(message(request, link).map_err(|error| error.to_string())?);
        let pauses = ExponentialBuilder::default()
            .with_min_delay(self.first_pause)
            .with_max_delay(PAUSES.1)
            .with_jitter()
            .with_max_times(RETRIES);
        let post = || async { self.post(&link.id, body.clone()).await };
        post.retry(pauses)
            .sleep(tokio::time::sleep)
            .when(|(is_passing, _)| *is_passing)
            .await
            .map_err(|(_, reason)| reason)
    }

    /// Posts a message once.
    ///
    /// # Errors
    /// Whether another try could go better, and the reason.
    async fn post(&self, id: &str, body: Bytes) -> Result<(), (bool, String)> {
        let headers = self.headers(id, &body).ok_or_else(|| (false, "the message cannot be signed".to_owned()))?;
        match self.poster.post(headers, body, REQUEST_WITHIN).await {
            Ok(status) if status.is_success() => Ok(()),
            Ok(status) => {
                let is_passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
                Err((is_passing, format!("{} answered with status {}", self.poster.origin(), status.as_u16())))
            }
            Err(error) => Err((matches!(error, PostError::Failed(_)), error.to_string())),
        }
    }

    fn headers(&self, id: &str, body: &[u8]) -> Option<HeaderMap> {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = self.secret.sign(id, seconds, body);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("webhook-id", HeaderValue::from_str(id).ok()?);
        headers.insert("webhook-timestamp", HeaderValue::from(seconds));
        headers.insert("webhook-signature", HeaderValue::from_str(&signature).ok()?);
        Some(headers)
    }
}

fn message(request: &ApprovalRequest, link: &Link) -> serde_json::Result<Vec<u8>> {
    let arguments_bytes = serde_json::to_vec(&*request.arguments)?.len();
    let code_bytes = request.code.len();
    let time = |time| humantime::format_rfc3339_seconds(time).to_string();
    let question = Question {
        link: &link.url,
        expires: time(link.expires),
        tool: request.tool.as_str(),
        description: &request.description,
        effect: request.manifest.effect.map(|effect| match effect {
            Effect::ReadOnly => "read_only",
            Effect::Mutating => "mutating",
            Effect::Privileged => "privileged",
        }),
        rule: &request.rule,
        line: request.line,
        arguments_bytes,
        arguments: (arguments_bytes <= SENT_BYTES).then_some(&*request.arguments),
        code_bytes,
        code: (code_bytes <= SENT_BYTES).then_some(&*request.code),
        run: request.question.as_ref().map(|question| question.run.as_str()),
        call: request.call,
    };
    serde_json::to_vec(&Message { r#type: "approval.requested", timestamp: time(SystemTime::now()), data: question })
}
