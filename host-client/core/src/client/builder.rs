//! A client that is not connected yet.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Backoff, CallCapacity, Client, ClientConfig, TokenError, TokenSource};
use crate::error::Error;
use crate::host::Host;

/// A client that is not connected yet; made by [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use = "the client is connected by `connect`"]
pub struct ClientBuilder(ClientConfig);

impl From<ClientConfig> for ClientBuilder {
    fn from(config: ClientConfig) -> Self {
        Self(config)
    }
}

impl From<ClientBuilder> for ClientConfig {
    fn from(builder: ClientBuilder) -> Self {
        builder.0
    }
}

impl Client {
    /// Creates a builder of a client of the relay at this address.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use host_client_core::{Client, Tools};
    ///
    /// # async fn log_in() -> Result<String, std::io::Error> { Ok("the token".into()) }
    /// # async fn example() -> Result<(), host_client_core::Error> {
    /// let client = Client::builder("wss://relay.example/ws")
    ///     .token(|| async { Ok(log_in().await?) })
    ///     .resume(Some(Duration::from_secs(30)))
    ///     .connect(Tools::new())
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder(ClientConfig::new(url, ""))
    }
}

impl ClientBuilder {
    /// Adds the address of a further relay, which takes the same tokens; see [`ClientConfig::fallbacks`].
    pub fn fallback(mut self, url: impl Into<String>) -> Self {
        self.0.fallbacks.push(url.into());
        self
    }

    /// Sets the source of tokens. It is asked when the client connects, before a token expires, and when a relay does not
    /// accept a token any more: the session does not end with its token.
    pub fn token<Fut>(mut self, ask: impl Fn() -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<String, TokenError>> + Send + 'static,
    {
        self.0.token_source = Some(TokenSource::new(ask));
        self
    }

    /// Sets the only token. The session ends with it.
    pub fn fixed_token(mut self, token: impl Into<String>) -> Self {
        (self.0.token, self.0.token_source) = (token.into(), None);
        self
    }

    /// Sets the name of this client, for the relay's log; see [`ClientConfig::name`].
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }

    /// Sets the time limit of connecting; see [`ClientConfig::connect_timeout`].
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.0.connect_timeout = timeout;
        self
    }

    /// Sets the interval between pings to the relay; see [`ClientConfig::heartbeat`].
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.0.heartbeat = interval;
        self
    }

    /// Sets the maximum time for which the session is resumed after its connection was lost; `None`: it ends with its
    /// connection. See [`ClientConfig::resume`].
    pub fn resume(mut self, window: Option<Duration>) -> Self {
        self.0.resume = window;
        self
    }

    /// Sets the pauses between attempts to resume the session; see [`ClientConfig::backoff`].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.0.backoff = backoff;
        self
    }

    /// Sets the tool calls that the relay may have sent at a time; see [`ClientConfig::call_capacity`].
    pub fn call_capacity(mut self, capacity: CallCapacity) -> Self {
        self.0.call_capacity = capacity;
        self
    }

    /// Sets the authorities that may issue the relay's certificate, in PEM; see [`ClientConfig::authorities`].
    pub fn authorities(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.0.authorities = Some(certificates.into());
        self
    }

    /// Sets the time that an execution may wait for its turn at the relay; see [`ClientConfig::queue_timeout`].
    pub fn queue_timeout(mut self, timeout: Duration) -> Self {
        self.0.queue_timeout = timeout;
        self
    }

    /// Sets whether the token may be sent without TLS to an address that is not loopback; see
    /// [`ClientConfig::allow_plain_remote`].
    pub fn allow_plain_remote(mut self, is_allowed: bool) -> Self {
        self.0.allow_plain_remote = is_allowed;
        self
    }

    /// Connects, and announces the tools.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub async fn connect(self, host: impl Into<Arc<Host>>) -> Result<Client, Error> {
        Client::connect(self.0, host).await
    }
}
