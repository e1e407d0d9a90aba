//! The relay of a host: one elsewhere, or one that is started when it is first needed and ends with the host.

use std::sync::Arc;
use std::time::Duration;

use host_client::local::LocalRelayBuilder;
use host_client::{Client, ClientConfig, Error, Host, LocalRelay, TokenSource};
use tokio::sync::Mutex;

use crate::error::SdkError;
use crate::foreign::ForeignTokens;
use crate::options::{RelayOptions, limit_name};

/// The relay of a host. Clones are of the same.
#[derive(Clone)]
pub(crate) struct Relay {
    place: Place,
    own: Arc<Mutex<Option<LocalRelay>>>,
    /// Whether another host ends it.
    is_of_another: bool,
}

/// Where the relay is.
#[derive(Clone)]
enum Place {
    /// Elsewhere.
    Named(Box<ClientConfig>),
    /// On this machine, started for this host.
    Own(Box<LocalRelayBuilder>),
}

impl Relay {
    /// Reads the options.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind): options contradict each other, or a file cannot be read.
    pub(crate) fn new(options: RelayOptions, tokens: Option<Arc<dyn ForeignTokens>>) -> Result<Self, SdkError> {
        let place = match options.url.clone() {
            Some(url) => Place::Named(Box::new(named(url, options, tokens)?)),
            None => Place::Own(Box::new(own(options, tokens.is_some())?)),
        };
        Ok(Self { place, own: Arc::default(), is_of_another: false })
    }

    /// Connects a client for a host; starts the relay if it is this host's own and does not run.
    ///
    /// # Errors
    /// Those of [`Client::connect`] and [`LocalRelayBuilder::start`].
    pub(crate) async fn connect(self, host: Arc<Host>) -> Result<Client, Error> {
        let config = match &self.place {
            Place::Named(config) => ClientConfig::clone(config),
            Place::Own(builder) => {
                let mut own = self.own.lock().await;
                let relay = match own.take_if(LocalRelay::is_running) {
                    Some(running) => running,
                    None => LocalRelayBuilder::clone(builder).start().await?,
                };
                own.insert(relay).client_config().await?
            }
        };
        Client::connect_when_free(config, host).await
    }

    /// Returns the same relay for a host that does not end it.
    pub(crate) fn of_another(&self) -> Self {
        Self { is_of_another: true, ..self.clone() }
    }

    /// Ends the relay that was started, unless another host does.
    pub(crate) async fn close(&self) {
        if self.is_of_another {
            return;
        }
        if let Some(mut relay) = self.own.lock().await.take() {
            // One that cannot be killed ends with this process: its standard input is closed.
            let _ = relay.kill().await;
        }
    }

    /// Returns the process id of the relay that was started; `None`: there is none.
    pub(crate) async fn process_id(&self) -> Option<u32> {
        self.own.lock().await.as_ref().and_then(LocalRelay::process_id)
    }
}

/// Reads the options of a relay elsewhere.
fn named(url: String, it: RelayOptions, tokens: Option<Arc<dyn ForeignTokens>>) -> Result<ClientConfig, SdkError> {
    let for_own = [
        ("program", it.program.is_some()),
        ("image", it.image.is_some()),
        ("max_limits", !it.max_limits.is_empty()),
        ("env", !it.env.is_empty()),
        ("arguments", !it.arguments.is_empty()),
    ];
    if let Some((name, _)) = for_own.into_iter().find(|(_, is_given)| *is_given) {
        return Err(SdkError::option(format!(
            "relay.{name} is for a relay that is started, and relay.url names one elsewhere: leave one of them out"
        )));
    }
    let source = match (&it.token, tokens) {
        (Some(_), None) => None,
        (None, Some(tokens)) => Some(TokenSource::new(move || {
            let tokens = Arc::clone(&tokens);
            async move { Ok(tokens.token().await?) }
        })),
        _ => {
            let text = "a relay at relay.url needs relay.token: a text, or a function that gives fresh ones";
            return Err(SdkError::option(text));
        }
    };
    let mut config = ClientConfig::new(url, it.token.unwrap_or_default());
    config.token_source = source;
    config.fallbacks = it.fallbacks;
    config.allow_plain_remote = it.allow_plain_remote;
    if let Some(path) = it.ca_file {
        let pem = std::fs::read(&path);
        let unread = |error| SdkError::option(format!("relay.ca_file: {} cannot be read: {error}", path.display()));
        config.authorities = Some(pem.map_err(unread)?);
    }
    let time = |ms: Option<u64>, usual| ms.map_or(usual, Duration::from_millis);
    config.connect_timeout = time(it.connect_timeout_ms, config.connect_timeout);
    config.queue_timeout = time(it.queue_timeout_ms, config.queue_timeout);
    if let Some(window) = it.resume_window_ms {
        config.resume = (window > 0).then(|| Duration::from_millis(window));
    }
    Ok(config)
}

/// Reads the options of a relay on this machine.
fn own(it: RelayOptions, has_tokens: bool) -> Result<LocalRelayBuilder, SdkError> {
    if it.token.is_some() || has_tokens {
        return Err(SdkError::option(
            "relay.token is for a relay elsewhere: name it with relay.url, or leave the token out",
        ));
    }
    let mut builder = LocalRelay::builder();
    match (it.program, it.image) {
        (Some(_), Some(_)) => return Err(SdkError::option("relay.program and relay.image exclude each other")),
        (Some(program), None) => builder = builder.binary(program),
        (None, Some(image)) => builder = builder.in_container(image),
        (None, None) => {}
    }
    for (name, value) in &it.max_limits {
        builder = builder.max_limit(limit_name(name)?, *value);
    }
    let builder = it.env.into_iter().fold(builder, |builder, (name, value)| builder.env(name, value));
    Ok(it.arguments.into_iter().fold(builder, LocalRelayBuilder::argument))
}
