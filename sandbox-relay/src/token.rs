//! `token`: makes a token with the configured secret.

use std::time::Duration;

use clap::Args;
use relay_proto::{LimitName, LimitOverrides};

use crate::auth::{self, KeyError, TokenRequest};
use crate::config::{ConfigError, KeyArgs, Settings};

/// The flags of `token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(flatten)]
    keys: KeyArgs,
    /// Who the token is for
    #[arg(long)]
    subject: String,
    /// How long it is good, such as 30s, 15m or 1h
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
    ttl: Duration,
    /// A pattern of tools that exist for it, such as 'github.*'; may be repeated; without one, all do
    #[arg(long, value_name = "PATTERN")]
    tools: Vec<String>,
    /// A limit in place of its default, such as wall_ms=5000; may be repeated
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = parse_limit)]
    limits: Vec<(LimitName, u64)>,
    /// Let its code be compiled to machine code, where the relay allows it too
    #[arg(long)]
    jit: bool,
}

fn parse_limit(text: &str) -> Result<(LimitName, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is given as NAME=VALUE, such as wall_ms=5000")?;
    let name = name.parse().map_err(|error: relay_proto::limit::UnknownLimit| error.to_string())?;
    let value = value.parse().map_err(|_| format!("{value:?} is not a whole number"))?;
    Ok((name, value))
}

/// No token could be made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret is missing or too weak.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Makes the token.
///
/// # Errors
/// There is no secret, or it is too short.
pub fn token(args: TokenArgs) -> Result<String, TokenError> {
    let settings = Settings::load(args.keys.config.as_ref(), &args.keys)?;
    let mut limits = LimitOverrides::default();
    for (name, value) in args.limits {
        limits.set(name, value);
    }
    let request = TokenRequest { subject: args.subject, ttl: args.ttl, tools: args.tools, limits, jit: args.jit };
    Ok(auth::make_token(&settings.auth()?, request)?)
}
