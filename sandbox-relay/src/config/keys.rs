//! Settings of the keys that tokens are verified with.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::ConfigError;
use crate::auth::{AuthConfig, KeySource, RemoteKeySource};

/// Environment variable with the shared secret. It has no flag: every process can read command lines.
pub const SECRET_VARIABLE: &str = "RELAY_JWT_SECRET";

/// Settings of the keys.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct KeySettings {
    /// File with the shared secret for HS256, at least 32 bytes; or set RELAY_JWT_SECRET
    #[arg(long, env = "RELAY_JWT_SECRET_FILE", value_name = "FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// PEM file with the public key for RS256, ES256 or EdDSA
    #[arg(long, env = "RELAY_JWT_PUBLIC_KEY_FILE", value_name = "FILE")]
    jwt_public_key_file: Option<PathBuf>,
    /// File with a JSON Web Key Set
    #[arg(long, env = "RELAY_JWKS_FILE", value_name = "FILE")]
    jwks_file: Option<PathBuf>,
    /// https:// address of a JSON Web Key Set, which is fetched again every ten minutes
    #[arg(long, env = "RELAY_JWKS_URL", value_name = "URL")]
    jwks_url: Option<String>,
    /// PEM file with the authorities that the server of that address is trusted by; without it, those of the web
    #[arg(long, env = "RELAY_JWKS_CA_FILE", value_name = "FILE")]
    jwks_ca_file: Option<PathBuf>,
    /// Audience that a token has to name
    #[arg(long, env = "RELAY_JWT_AUDIENCE", default_value = "sandbox-relay")]
    jwt_audience: String,
    /// Issuer that a token has to name
    #[arg(long, env = "RELAY_JWT_ISSUER", default_value = "sandbox-relay")]
    jwt_issuer: String,
}

impl KeySettings {
    /// Reads the key of the settings, or that of [`SECRET_VARIABLE`].
    ///
    /// # Errors
    /// - [`ConfigError::Keys`]: there is no key, or more than one
    /// - [`ConfigError::KeyFile`]: the file with the key cannot be read
    pub fn auth(&self) -> Result<AuthConfig, ConfigError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map(Zeroizing::new).map_err(|error| ConfigError::KeyFile { path: path.clone(), error })
        };
        let mut sources = Vec::new();
        if let Some(secret) = std::env::var_os(SECRET_VARIABLE).map(OsString::into_vec) {
            sources.push(KeySource::Secret(Zeroizing::new(secret)));
        }
        if let Some(path) = &self.jwt_secret_file {
            let mut secret = read(path)?;
            if secret.ends_with(b"\n") {
                secret.pop();
            }
            sources.push(KeySource::Secret(secret));
        }
        if let Some(path) = &self.jwt_public_key_file {
            sources.push(KeySource::PublicKey(read(path)?));
        }
        if let Some(path) = &self.jwks_file {
            sources.push(KeySource::Jwks(read(path)?));
        }
        if let Some(url) = &self.jwks_url {
            let authorities = self.jwks_ca_file.as_ref().map(|path| read(path).map(|pem| pem.to_vec())).transpose()?;
            sources.push(KeySource::Remote(RemoteKeySource { url: url.clone(), authorities }));
        }
        let mut sources = sources.into_iter();
        match (sources.next(), sources.next()) {
            (Some(key), None) => Ok(self.auth_with(key)),
            (None, _) => Err(ConfigError::Keys(
                "there is no key to check tokens with: set RELAY_JWT_SECRET (at least 32 bytes), RELAY_JWT_SECRET_FILE, \
                 RELAY_JWT_PUBLIC_KEY_FILE, RELAY_JWKS_FILE or RELAY_JWKS_URL; or use `serve --dev` to try it out",
            )),
            (Some(_), Some(_)) => {
                Err(ConfigError::Keys("there is more than one key to check tokens with: set only one"))
            }
        }
    }

    /// Makes the configuration for this key, in place of that of the settings.
    pub fn auth_with(&self, key: KeySource) -> AuthConfig {
        AuthConfig { key, audience: self.jwt_audience.clone(), issuer: self.jwt_issuer.clone(), one_time: false }
    }
}
