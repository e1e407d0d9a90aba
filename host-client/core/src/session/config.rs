//! What a client needs to connect to a relay.

use std::time::Duration;

use relay_proto::session::DEFAULT_HEARTBEAT;

/// Where the relay is, and who we are.
#[derive(Clone)]
pub struct ClientConfig {
    /// The relay's address, such as `ws://127.0.0.1:8080/ws`.
    pub url: String,
    /// The bearer token.
    pub token: String,
    /// Our name, for the relay's log.
    pub name: String,
    /// How long connecting may take, from the first packet to the relay's welcome.
    pub connect_timeout: Duration,
    /// How often the relay is pinged; it is given up after three times as long without a sign.
    pub heartbeat: Duration,
    /// The authorities that the relay's certificate has to be from, as certificates in PEM; none but these are trusted then.
    /// Without, those of the web are. For `wss://`.
    pub authorities: Option<Vec<u8>>,
    /// How long an execution may wait for its turn at the relay. After this and its `wall_ms`, and with some patience on top,
    /// it is given up with `TIMEOUT`, whatever the relay does.
    pub queue_timeout: Duration,
    /// Allow `ws://` to an address that is not loopback: the token can then be read on the way.
    pub allow_plain_remote: bool,
}

impl ClientConfig {
    /// An address and a token; everything else as usual.
    pub fn new(url: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: token.into(),
            name: concat!("host-client/", env!("CARGO_PKG_VERSION")).into(),
            connect_timeout: Duration::from_secs(10),
            heartbeat: DEFAULT_HEARTBEAT,
            authorities: None,
            queue_timeout: Duration::from_secs(300),
            allow_plain_remote: false,
        }
    }
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig").field("url", &self.url).field("name", &self.name).finish_non_exhaustive()
    }
}
