//! The settings of a client's connection to a relay.

use std::time::Duration;

use relay_proto::session::DEFAULT_HEARTBEAT;

use super::credit::CallCapacity;
use super::token::TokenSource;

/// The pauses between attempts to connect again. Each is twice as long as the one before, and longer by a random part, so that
/// clients that lost the same relay do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first attempt, which is made at once; 50 ms by default.
    pub first: Duration,
    /// The maximum pause, without the random part; 5 s by default.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(50), most: Duration::from_secs(5) }
    }
}

/// The settings of a client's connection to a relay.
#[derive(Clone)]
pub struct ClientConfig {
    /// The relay's address, such as `ws://127.0.0.1:8080/ws`.
    pub url: String,
    /// The addresses of further relays, which take the same tokens; none by default. They are tried in this order when no relay
    /// answers at `url`, or the one there has no room.
    pub fallbacks: Vec<String>,
    /// The bearer token. Without meaning if there is a `token_source`.
    pub token: String,
    /// The source of bearer tokens, which is asked when the client connects, and again before a token expires. `None`, the
    /// default: `token` is the only one, and the session ends with it unless [`Client::renew`](crate::Client::renew) shows
    /// another.
    pub token_source: Option<TokenSource>,
    /// The name of this client, for the relay's log; `host-client/VERSION` by default.
    pub name: String,
    /// The time limit of connecting, from the first packet to the relay's welcome; 10 s by default.
    pub connect_timeout: Duration,
    /// The interval between pings to the relay; 15 s by default. The connection is lost when the relay is silent for three
    /// times as long.
    pub heartbeat: Duration,
    /// The maximum time for which the client tries to resume its session on another connection after one was lost; 60 s by
    /// default. The relay has such a time as well: the shorter one holds. `None`: the session ends with its connection.
    pub resume: Option<Duration>,
    /// The pauses between attempts to resume the session.
    pub backoff: Backoff,
    /// The tool calls that the relay may have sent at a time.
    pub call_capacity: CallCapacity,
    /// The authorities that may issue the relay's certificate for `wss://`, as certificates in PEM; no others are
    /// trusted then. `None`, the default: the public authorities that Mozilla trusts.
    pub authorities: Option<Vec<u8>>,
    /// The time that an execution may wait for its turn at the relay; 300 s by default, at least 1 ms. After this the
    /// relay does not begin it, and it fails with `OVERLOADED`. After this, its `wall_ms` and 30 s more, it fails with
    /// `TIMEOUT`, whatever the relay does; a relay of an older version knows no other bound.
    pub queue_timeout: Duration,
    /// `true` allows `ws://` to an address that is not loopback: the token can then be read on the way. The default is
    /// `false`.
    pub allow_plain_remote: bool,
}

impl ClientConfig {
    /// Creates settings with an address, a token, and the defaults.
    pub fn new(url: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            fallbacks: Vec::new(),
            token: token.into(),
            token_source: None,
            name: concat!("host-client/", env!("CARGO_PKG_VERSION")).into(),
            connect_timeout: Duration::from_secs(10),
            heartbeat: DEFAULT_HEARTBEAT,
            resume: Some(Duration::from_secs(60)),
            backoff: Backoff::default(),
            call_capacity: CallCapacity::default(),
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
