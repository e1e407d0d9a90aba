//! `token`: makes a token with the secret of the settings.

use std::time::Duration;

use clap::Args;
use relay_proto::{LimitName, LimitOverrides, ToolPattern};

use crate::auth::{self, KeyError, TokenRequest};
use crate::config::{ConfigArgs, ConfigError, Given, KeySettings};

/// The flags of `token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    keys: Given<KeySettings>,
    /// Subject of the token: who it is for
    #[arg(long)]
    subject: String,
    /// Lifetime, such as 30s, 15m or 1h
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// Pattern of tools that the token allows, such as 'github.*'; may be repeated; without one, all
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<ToolPattern>,
    /// Limit in place of its default, such as wall_ms=5000; may be repeated
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
    limits: Vec<(LimitName, u64)>,
    /// Let V8 compile its code to machine code, if the relay allows it too
    #[arg(long)]
    jit: bool,
}

/// Parses `NAME=VALUE`.
fn parse_limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is given as NAME=VALUE, such as wall_ms=5000")?;
    let name = name.parse().map_err(|error: relay_proto::limit::UnknownLimit| error.to_string())?;
    let value = value.parse().map_err(|_| format!("{value:?} is not a whole number"))?;
    Ok((name, value))
}

/// Reports why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret is missing or too weak.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Makes the token.
///
/// # Errors
/// - [`TokenError::Config`]: a setting cannot be used, or there is no key
/// - [`TokenError::Key`]: the key is no secret, or too short
pub fn token(args: TokenArgs) -> Result<String, TokenError> {
    let keys = KeySettings::load(&args.config, &args.keys)?;
    let mut limits = LimitOverrides::default();
    for (name, value) in args.limits {
        limits.set(name, value);
    }
    let request = TokenRequest {
        subject: args.subject,
        ttl: args.ttl,
        tools: args.tools.iter().map(ToString::to_string).collect(),
        limits,
        jit: args.jit,
    };
    Ok(auth::make_token(&keys.auth()?, request)?)
}
