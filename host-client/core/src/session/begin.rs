//! The beginning of a session: connecting, hello and welcome.

use std::sync::Arc;

use futures_util::SinkExt as _;
use relay_proto::credit::TooMuchCredit;
use relay_proto::session::feature;
use relay_proto::wire::message::Payload;
use relay_proto::{PROTOCOL_VERSION, frame, wire};
use tokio_tungstenite::tungstenite::Message;

use super::announce::{Announced, announced};
use super::config::ClientConfig;
use super::connection::{Purpose, Socket, dial, first_message, handshake};
use super::credit::{CallCredit, ExecutionCredit};
use super::grant::TokenGrant;
use super::life::{Attempts, Life, Resumption};
use super::token::Tokens;
use super::{Session, Terms, short_reason};
use crate::error::{ConnectStep, Error};
use crate::host::Host;
use crate::tools::Tools;

/// A session with a relay that welcomed the client.
pub(crate) struct Connected {
    pub(crate) session: Arc<Session>,
    pub(crate) welcome: wire::Welcome,
    /// The token that the relay accepted.
    pub(crate) token: String,
}

/// Connects, says hello, and starts the task that handles messages from then on.
///
/// # Errors
/// [`Error::Address`], [`Error::Token`], [`Error::Unreachable`], [`Error::Certificate`], [`Error::Cut`],
/// [`Error::NoRelay`], [`Error::Unauthenticated`], [`Error::Status`], [`Error::Refused`], [`Error::Tools`].
pub(crate) async fn connect(config: ClientConfig, host: Arc<Host>) -> Result<Connected, Error> {
    // Changes from here on are announced later.
    let changes = host.tools.changes();
    let announced = Announced::version(*changes.borrow());
    let tokens = Arc::new(Tokens::new(&config.token, config.token_source.clone()));
    let connected = tokio::time::timeout(config.connect_timeout, greet(&config, &tokens, &host.tools)).await;
    let (socket, welcome, token) = connected.unwrap_or_else(|_| {
        let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Err(Error::Unreachable { url: config.url.clone(), error })
    })?;
    let is_on = |name: &str| wanted(&config).contains(&name) && offers(&welcome, name);
    let resumption = is_on(feature::RESUME).then(|| Resumption::of(&config, &welcome)).transpose()?;
    let counts = is_on(feature::CREDIT);
    let terms = Terms {
        knows_states: offers(&welcome, feature::CALL_STATE),
        goes_away: is_on(feature::GO_AWAY),
        window: resumption.as_ref().map(|resumption| resumption.window),
        calls: credit_if(counts, CallCredit::new(config.call_capacity.credit()))?,
        executions: credit_if(counts, ExecutionCredit::new(welcome.credit.unwrap_or_default()))?,
    };
    tokens.accepted(token.clone(), welcome.expires_in_ms);
    let (session, outbox) = Session::begin(host, terms, announced, Arc::clone(&tokens));
    session.set_grant(TokenGrant::new(&welcome.limits, &welcome.tools));
    // Changes are announced, and tokens renewed, where the relay takes that.
    let changes = offers(&welcome, feature::TOOLS_CHANGED).then_some(changes);
    let renews = tokens.has_source() && offers(&welcome, feature::RENEW);
    let attempts = Attempts::new(&config);
    let life = Life { config, tokens, resumption, session: Arc::downgrade(&session), outbox, attempts };
    tokio::spawn(life.run(socket, changes, renews));
    Ok(Connected { session, welcome, token })
}

/// Reads the credit of one direction, where both peers count; `None`: they do not.
fn credit_if<T>(counts: bool, credit: Result<T, TooMuchCredit>) -> Result<Option<T>, Error> {
    if counts { credit.map(Some).map_err(|error| Error::Refused(error.to_string())) } else { Ok(None) }
}

/// Returns the features that hello asks for.
fn wanted(config: &ClientConfig) -> Vec<&'static str> {
    let mut wanted = vec![feature::CREDIT, feature::GO_AWAY];
    wanted.extend(config.resume.is_some().then_some(feature::RESUME));
    wanted
}

fn offers(welcome: &wire::Welcome, name: &str) -> bool {
    welcome.features.iter().any(|feature| feature == name)
}

/// Opens a WebSocket, sends hello, and reads welcome.
async fn greet(
    config: &ClientConfig,
    tokens: &Tokens,
    tools: &Tools,
) -> Result<(Socket, wire::Welcome, String), Error> {
    let token = tokens.usable().await?;
    let mut socket = dial(config, &token, Purpose::Begin).await?;
    let hello = wire::Hello {
        protocol_version: PROTOCOL_VERSION,
        features: wanted(config).into_iter().map(str::to_owned).collect(),
        tools: announced(tools).map_err(Error::Tools)?,
        client: config.name.clone(),
        credit: Some(config.call_capacity.credit()),
    };
    let hello = wire::Message { sequence: 1, ..Payload::Hello(hello).into() };
    let sent = socket.send(Message::Binary(frame::encode(&hello))).await;
    sent.map_err(|error| handshake::websocket_failure(&config.url, ConnectStep::Welcome, error))?;
    match first_message(&mut socket, &config.url).await? {
        wire::Message { payload: Some(Payload::Welcome(welcome)), sequence: 1, .. } => Ok((socket, welcome, token)),
        wire::Message { payload: Some(Payload::Error(error)), .. } => {
            Err(Error::Refused(short_reason(&error.error).to_owned()))
        }
        _ => Err(handshake::no_relay(&config.url, "its first message is no welcome")),
    }
}
