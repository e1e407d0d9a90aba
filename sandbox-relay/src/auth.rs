//! Tokens: who a peer is and what it may do. Every refusal looks the same from outside; the reason goes to the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use relay_proto::{LimitOverrides, ToolName};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// The shortest secret for HS256, in bytes: as long as its hash.
pub const MIN_SECRET_BYTES: usize = 32;
/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// How far clocks may differ.
const LEEWAY_SECONDS: u64 = 5;

/// The key that tokens are checked with.
#[derive(Clone)]
pub enum KeySource {
    /// A shared secret, for HS256.
    Secret(Zeroizing<Vec<u8>>),
    /// A public key in PEM, for RS256, ES256 or EdDSA.
    PublicKey(Zeroizing<Vec<u8>>),
    /// A JSON Web Key Set.
    Jwks(Zeroizing<Vec<u8>>),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::PublicKey(_) => "PublicKey",
            Self::Jwks(_) => "Jwks",
        })
    }
}

/// What a token has to fit.
#[derive(Debug, Clone)]
pub struct AuthConfig {
    /// The key.
    pub key: KeySource,
    /// Who it has to be for.
    pub audience: String,
    /// Who it has to be from.
    pub issuer: String,
}

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Too short to be safe.
    #[error("the secret has {0} bytes; HS256 needs at least {MIN_SECRET_BYTES}")]
    ShortSecret(usize),
    /// Not a key, or not of a kind that is taken.
    #[error("the public key is no PEM of an RSA, P-256 or Ed25519 public key")]
    PublicKey,
    /// Not a key set, or none of its keys can be used.
    #[error("the key set cannot be used: {0}")]
    Jwks(String),
    /// Tokens are made with the secret.
    #[error("tokens are made with a shared secret: set RELAY_JWT_SECRET or RELAY_JWT_SECRET_FILE")]
    NoSecret,
    /// The token could not be written.
    #[error("the token could not be made: {0}")]
    Sign(#[from] jsonwebtoken::errors::Error),
}

/// What a token says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
    aud: serde_json::Value,
    iss: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<BTreeMap<String, u64>>,
}

/// Who is connected, and what it may do: proof that a token was checked.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The token's subject.
    pub subject: Arc<str>,
    /// Until when.
    pub expires_in: Duration,
    /// The tools that exist for it.
    pub tools: ToolPatterns,
    /// The limits that it has in place of the defaults.
    pub limits: LimitOverrides,
}

/// The request shows no token that is accepted. It looks the same from outside, whatever the reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(String);

/// Which tools a token allows: all without the claim, else those that a pattern fits. `*` stands for any characters.
#[derive(Debug, Clone, Default)]
pub struct ToolPatterns(Option<Arc<[String]>>);

impl ToolPatterns {
    /// Whether a tool exists for this token.
    pub fn allow(&self, tool: &ToolName) -> bool {
        self.0.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| fits(pattern, tool.as_str())))
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Checks tokens with one family of algorithms.
pub struct Verifier {
    keys: Keys,
    validation: Validation,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

enum Keys {
    One(Box<DecodingKey>),
    ById(BTreeMap<String, (DecodingKey, Algorithm)>),
}

impl Verifier {
    /// Reads the key.
    ///
    /// # Errors
    /// It is none, or too weak.
    pub fn new(config: &AuthConfig) -> Result<Self, KeyError> {
        let (keys, algorithms) = match &config.key {
            KeySource::Secret(secret) => {
                if secret.len() < MIN_SECRET_BYTES {
                    return Err(KeyError::ShortSecret(secret.len()));
                }
                (Keys::One(DecodingKey::from_secret(secret).into()), vec![Algorithm::HS256])
            }
            KeySource::PublicKey(pem) => {
                let (key, algorithm) = public_key(pem)?;
                (Keys::One(key.into()), vec![algorithm])
            }
            KeySource::Jwks(json) => key_set(json)?,
        };
        let mut validation =
            Validation { algorithms, leeway: LEEWAY_SECONDS, validate_nbf: true, ..Validation::default() };
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        validation.set_audience(&[&config.audience]);
        validation.set_issuer(&[&config.issuer]);
        Ok(Self { keys, validation })
    }

    /// Checks the value of an `Authorization` header.
    ///
    /// # Errors
    /// It holds no token that is accepted.
    pub fn verify(&self, authorization: Option<&str>) -> Result<Identity, Unauthenticated> {
        let refuse = |reason: &str| Unauthenticated(reason.to_owned());
        let (scheme, token) = authorization.and_then(|it| it.split_once(' ')).ok_or_else(|| refuse("no token"))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(refuse("not a bearer token"));
        }
        let token = token.trim();
        if token.len() > MAX_TOKEN_BYTES {
            return Err(refuse("the token is too long"));
        }
        let invalid = |error: jsonwebtoken::errors::Error| Unauthenticated(error.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(invalid)?;
        // Where a key is to be found is our decision, not the token's.
        let tells_its_key =
            header.jku.is_some() || header.jwk.is_some() || header.x5u.is_some() || header.x5c.is_some();
        if tells_its_key || header.crit.is_some() {
            return Err(refuse("the token's header asks for what is not supported"));
        }
        let key = match &self.keys {
            Keys::One(key) => key,
            Keys::ById(keys) => {
                let id = header.kid.as_deref().ok_or_else(|| refuse("the token names no key"))?;
                let (key, algorithm) = keys.get(id).ok_or_else(|| refuse("the token names an unknown key"))?;
                if *algorithm != header.alg {
                    return Err(refuse("the token's algorithm is not its key's"));
                }
                key
            }
        };
        let claims = jsonwebtoken::decode::<Claims>(token, key, &self.validation).map_err(invalid)?.claims;
        let limits =
            LimitOverrides::try_from(&claims.limits.unwrap_or_default()).map_err(|error| refuse(&error.to_string()))?;
        let expires = UNIX_EPOCH + Duration::from_secs(claims.exp.saturating_add(LEEWAY_SECONDS).min(u32::MAX.into()));
        Ok(Identity {
            subject: claims.sub.into(),
            expires_in: expires.duration_since(SystemTime::now()).unwrap_or_default(),
            tools: ToolPatterns(claims.tools.map(Into::into)),
            limits,
        })
    }
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

fn key_set(json: &[u8]) -> Result<(Keys, Vec<Algorithm>), KeyError> {
    let wrong = |reason: &str| KeyError::Jwks(reason.to_owned());
    let set: JwkSet = serde_json::from_slice(json).map_err(|error| KeyError::Jwks(error.to_string()))?;
    let mut keys = BTreeMap::new();
    for jwk in &set.keys {
        let id = jwk.common.key_id.clone().ok_or_else(|| wrong("a key has no \"kid\""))?;
        let algorithm = jwk.common.key_algorithm.and_then(|it| it.to_string().parse().ok());
        let algorithm = algorithm.ok_or_else(|| wrong("a key has no \"alg\""))?;
        if !matches!(algorithm, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
            return Err(wrong("the keys have to be for RS256, ES256 or EdDSA"));
        }
        let key = DecodingKey::from_jwk(jwk).map_err(|error| KeyError::Jwks(error.to_string()))?;
        keys.insert(id, (key, algorithm));
    }
    let mut algorithms: Vec<_> = keys.values().map(|(_, algorithm)| *algorithm).collect();
    algorithms.dedup();
    // One family: a key of one kind is never tried with another kind's algorithm.
    match algorithms.as_slice() {
        [_] => Ok((Keys::ById(keys), algorithms)),
        [] => Err(wrong("it holds no key")),
        _ => Err(wrong("its keys are of more than one algorithm")),
    }
}

/// What a new token is to say.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Who it is for.
    pub subject: String,
    /// How long it is good.
    pub ttl: Duration,
    /// Patterns of the tools that exist for it; empty is all.
    pub tools: Vec<String>,
    /// Limits that it has in place of the defaults.
    pub limits: LimitOverrides,
}

/// Makes a token with the configured secret.
///
/// # Errors
/// There is no secret, or it is too short.
pub fn make_token(config: &AuthConfig, request: TokenRequest) -> Result<String, KeyError> {
    let KeySource::Secret(secret) = &config.key else { return Err(KeyError::NoSecret) };
    if secret.len() < MIN_SECRET_BYTES {
        return Err(KeyError::ShortSecret(secret.len()));
    }
    let expires = SystemTime::now() + request.ttl;
    let claims = Claims {
        sub: request.subject,
        exp: expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        aud: config.audience.clone().into(),
        iss: config.issuer.clone(),
        tools: (!request.tools.is_empty()).then_some(request.tools),
        limits: Some(request.limits.to_wire()).filter(|limits| !limits.is_empty()),
    };
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret))?)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("github.*", "github.list", true),
            ("github.*", "gitlab.list", false),
            ("*", "a.b", true),
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("*.read_*", "files.read_all", true),
            ("*.read_*", "files.write", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
