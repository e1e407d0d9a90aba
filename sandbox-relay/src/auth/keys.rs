//! Reads the keys that tokens are verified with: a secret, a public key, or a set of keys by id.

use std::collections::BTreeMap;

use jsonwebtoken::jwk::{JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use zeroize::Zeroizing;

/// Minimum length of a secret for HS256 in bytes: that of its hash.
const MIN_SECRET_BYTES: usize = 32;

/// Source of the key that tokens are verified with.
#[derive(Clone)]
pub enum KeySource {
    /// A shared secret, for HS256.
    Secret(Zeroizing<Vec<u8>>),
    /// A public key in PEM, for RS256, ES256 or EdDSA.
    PublicKey(Zeroizing<Vec<u8>>),
    /// A JSON Web Key Set.
    Jwks(Zeroizing<Vec<u8>>),
    /// Address of a JSON Web Key Set.
    Remote(RemoteKeySource),
}

/// Address of a key set, and the authorities of its server.
#[derive(Debug, Clone)]
pub struct RemoteKeySource {
    /// Address, `https://`.
    pub url: String,
    /// Authorities that the server is trusted by, in PEM; `None`: those of the web.
    pub authorities: Option<Vec<u8>>,
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::PublicKey(_) => "PublicKey",
            Self::Jwks(_) => "Jwks",
            Self::Remote(_) => "Remote",
        })
    }
}

/// Reports a key that cannot be used, or a token that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The secret is too short to be safe.
    #[error("the secret has {0} bytes; HS256 needs at least {MIN_SECRET_BYTES}")]
    ShortSecret(usize),
    /// The file is no key, or none of an accepted kind.
    #[error("the public key is no PEM of an RSA, P-256 or Ed25519 public key")]
    PublicKey,
    /// The file is no key set, or none of its keys can be used.
    #[error("the key set cannot be used: {0}")]
    Jwks(String),
    /// The key set cannot be fetched.
    #[error("the key set at {url} cannot be fetched: {reason}")]
    Unreachable {
        /// Address of the key set.
        url: String,
        /// Message for people.
        reason: String,
    },
    /// The system gives no random bytes.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The key is no secret, which tokens are made with.
    #[error("tokens are made with a shared secret: set RELAY_JWT_SECRET or RELAY_JWT_SECRET_FILE")]
    NoSecret,
    /// The token could not be encoded.
    #[error("the token could not be made: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// Keys of one algorithm.
pub(super) enum Keys {
    One(Box<DecodingKey>, Algorithm),
    ById(BTreeMap<String, (DecodingKey, Algorithm)>, Algorithm),
}

impl Keys {
    /// Reads a key that is at hand: any but that of an address.
    ///
    /// # Errors
    /// [`KeyError`]: it is no key, or too weak.
    pub(super) fn read(source: &KeySource) -> Result<Self, KeyError> {
        match source {
            KeySource::Secret(secret) => {
                check_length(secret)?;
                Ok(Self::One(DecodingKey::from_secret(secret).into(), Algorithm::HS256))
            }
            KeySource::PublicKey(pem) => public_key(pem).map(|(key, algorithm)| Self::One(key.into(), algorithm)),
            KeySource::Jwks(json) => key_set(json),
            KeySource::Remote(_) => Err(KeyError::Jwks("it is not here yet".into())),
        }
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Self::One(_, algorithm) | Self::ById(_, algorithm) => *algorithm,
        }
    }

    /// Finds the key for a token that names `id`. A single key is for any token, whatever it names.
    ///
    /// # Errors
    /// A text for the log: there is no such key.
    pub(super) fn find(&self, id: Option<&str>) -> Result<&DecodingKey, &'static str> {
        match self {
            Self::One(key, _) => Ok(key),
            Self::ById(keys, _) => {
                let (key, _) = keys.get(id.ok_or("the token names no key")?).ok_or("the token names an unknown key")?;
                Ok(key)
            }
        }
    }
}

/// Checks the length of a secret.
///
/// # Errors
/// [`KeyError::ShortSecret`]: the secret is too short to be safe.
pub(super) fn check_length(secret: &[u8]) -> Result<(), KeyError> {
    if secret.len() < MIN_SECRET_BYTES { Err(KeyError::ShortSecret(secret.len())) } else { Ok(()) }
}

fn public_key(pem: &[u8]) -> Result<(DecodingKey, Algorithm), KeyError> {
    type Read = fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>;
    let kinds: [(Read, Algorithm); 3] = [
        (DecodingKey::from_rsa_pem, Algorithm::RS256),
        (DecodingKey::from_ec_pem, Algorithm::ES256),
        (DecodingKey::from_ed_pem, Algorithm::EdDSA),
    ];
    kinds
        .into_iter()
        .find_map(|(read, algorithm)| read(pem).ok().map(|key| (key, algorithm)))
        .ok_or(KeyError::PublicKey)
}

pub(super) fn key_set(json: &[u8]) -> Result<Keys, KeyError> {
    let wrong = |reason: &str| KeyError::Jwks(reason.to_owned());
    let set: JwkSet = serde_json::from_slice(json).map_err(|error| KeyError::Jwks(error.to_string()))?;
    let mut keys = BTreeMap::new();
    for jwk in &set.keys {
        let algorithm = jwk.common.key_algorithm.and_then(|it| it.to_string().parse().ok());
        let is_for_signatures = !matches!(&jwk.common.public_key_use, Some(it) if *it != PublicKeyUse::Signature);
        // A set may hold keys for other uses, such as encryption.
        if let Some(id) = jwk.common.key_id.clone()
            && let Some(algorithm @ (Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA)) = algorithm
            && is_for_signatures
            && let Ok(key) = DecodingKey::from_jwk(jwk)
        {
            keys.insert(id, (key, algorithm));
        }
    }
    let Some((_, first)) = keys.values().next() else {
        return Err(wrong("it holds no key with a kid for RS256, ES256 or EdDSA"));
    };
    let first = *first;
    if keys.values().any(|(_, algorithm)| *algorithm != first) {
        return Err(wrong("its keys are of more than one algorithm"));
    }
    Ok(Keys::ById(keys, first))
}
