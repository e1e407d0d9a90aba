//! Credentials of the application, sent where the document's security schemes say. Neither code nor logs see them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::document::Document;
use super::error::{Flaw, Unusable};
use super::place::{Place, is_cookie_text};
use super::text::{percent_encoded, string_member};
use crate::net;

/// Minimum length of a secret that is removed from responses, in bytes: shorter ones occur in texts by chance.
const MIN_REDACTED_BYTES: usize = 8;
/// Maximum number of security schemes that an error message lists.
const NAMED_SCHEMES: usize = 20;
/// Maximum number of alternative security requirements that are read for one operation.
const MAX_ALTERNATIVES: usize = 20;
/// Replacement of a secret in a response.
const REDACTED: &str = "[credential]";

/// Credential for a security scheme of a document. `Debug` prints its kind alone.
///
/// ```
/// use host_client_sources::OpenApi;
/// use host_client_sources::openapi::Credential;
///
/// let key = Credential::ApiKey("0123456789abcdef".into());
/// assert_eq!(format!("{key:?}"), "ApiKey(…)");
/// // `petstore_key` is the name of a scheme in the document's `components.securitySchemes`.
/// let petstore = OpenApi::from_url("https://petstore.example/openapi.json").credentials("petstore_key", key);
/// # drop(petstore);
/// ```
#[derive(Clone)]
pub enum Credential {
    /// A bearer token, for schemes of the types `http` (with `bearer`), `oauth2` and `openIdConnect`.
    Bearer(String),
    /// A user name and a password, for schemes of the type `http` (with `basic`).
    Basic {
        /// The user name. It cannot contain a colon.
        user: String,
        /// The password.
        password: String,
    },
    /// An API key, for schemes of the type `apiKey`.
    ApiKey(String),
    /// A secret of the kind that the scheme takes: an API key, a bearer token, or `user:password`.
    Secret(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer(…)",
            Self::Basic { .. } => "Basic(…)",
            Self::ApiKey(_) => "ApiKey(…)",
            Self::Secret(_) => "Secret(…)",
        })
    }
}

impl Credential {
    /// Returns the credential in the kind that a scheme takes.
    fn of_scheme(&self, scheme: &Value) -> Self {
        let Self::Secret(secret) = self else { return self.clone() };
        let is_basic = string_member(scheme, "scheme").eq_ignore_ascii_case("basic");
        match (string_member(scheme, "type"), secret.split_once(':')) {
            ("apiKey", _) => Self::ApiKey(secret.clone()),
            ("http", Some((user, password))) if is_basic => {
                Self::Basic { user: user.to_owned(), password: password.to_owned() }
            }
            ("http", None) if is_basic => Self::ApiKey(secret.clone()),
            _ => Self::Bearer(secret.clone()),
        }
    }
}

/// Credential in its place in a request.
enum Placed {
    Header(HeaderName, HeaderValue),
    /// Name and value of a query parameter, percent-encoded.
    Query {
        name: String,
        value: String,
    },
    Cookie(String),
}

/// Credentials by the name of their security scheme, each with its place in a request.
pub(super) struct Credentials {
    placed: BTreeMap<String, Placed>,
    /// Texts to remove from responses, the longest first.
    secrets: Vec<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.placed.keys()).finish()
    }
}

impl Credentials {
    /// Looks up the scheme of each credential in the document.
    ///
    /// # Errors
    /// [`Unusable::Scheme`] for a scheme that the document does not have, [`Unusable::Credential`] for one of another
    /// kind.
    pub(super) fn new(document: &Document, given: &BTreeMap<String, Credential>) -> Result<Self, Unusable> {
        let schemes = document.root().pointer("/components/securitySchemes").and_then(Value::as_object);
        let mut credentials = Self { placed: BTreeMap::new(), secrets: Vec::new() };
        for (name, credential) in given {
            let scheme = schemes.and_then(|schemes| schemes.get(name)).ok_or_else(|| Unusable::Scheme {
                name: name.clone(),
                known: listed(schemes.into_iter().flat_map(|schemes| schemes.keys())),
            })?;
            let refuse = |reason| Unusable::Credential { name: name.clone(), reason };
            let scheme = document.resolve(scheme).map_err(|_| refuse("it refers to what is not in the document"))?;
            let credential = credential.of_scheme(scheme);
            let placed = place(scheme, &credential).map_err(refuse)?;
            credentials.placed.insert(name.clone(), placed);
            credentials.secrets.extend(secrets(&credential));
        }
        // The longest comes first: a shorter one within it would leave a part of it.
        credentials.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Ok(credentials)
    }

    /// Returns the schemes that an operation is called with: the first alternative with credentials for all its
    /// schemes. An alternative without schemes is the last choice.
    ///
    /// # Errors
    /// [`Flaw::Credential`] if no alternative has all its credentials.
    pub(super) fn schemes(&self, security: Option<&Value>) -> Result<Vec<String>, Flaw> {
        let alternatives = security.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let named: Vec<Vec<&String>> = alternatives
            .iter()
            .take(MAX_ALTERNATIVES)
            .filter_map(|alternative| Some(alternative.as_object()?.keys().collect()))
            .collect();
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let has_all = |names: &&Vec<&String>| names.iter().all(|name| self.placed.contains_key(*name));
        let with_some = named.iter().filter(|names| !names.is_empty()).find(has_all);
        match with_some.or_else(|| named.iter().find(has_all)) {
            Some(names) => Ok(names.iter().map(|name| (*name).clone()).collect()),
            None => Err(Flaw::Credential(listed(named.into_iter().flatten()))),
        }
    }

    /// Returns `true` if a credential sets this parameter.
    pub(super) fn set_parameter(&self, place: &Place, name: &str) -> bool {
        self.placed.values().any(|placed| match (placed, place) {
            (Placed::Header(own, _), Place::Header(other)) => own == other,
            (Placed::Query { name: own, .. }, Place::Query) => *own == percent_encoded(name),
            (Placed::Cookie(own), Place::Cookie) => own.split('=').next() == Some(name),
            _ => false,
        })
    }

    /// Returns `true` if a part of a query sets a parameter that holds a credential.
    pub(super) fn are_named_in(&self, part: &str) -> bool {
        let mut names = part.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        names.any(|other| self.placed.values().any(|it| matches!(it, Placed::Query { name, .. } if name == other)))
    }

    /// Adds the credentials of these schemes to the headers and the query of a request, and its cookies to the headers.
    pub(super) fn apply(&self, schemes: &[String], headers: &mut HeaderMap, query: &mut String, cookies: &[String]) {
        let mut cookies: Vec<&str> = cookies.iter().map(String::as_str).collect();
        for placed in schemes.iter().filter_map(|scheme| self.placed.get(scheme)) {
            match placed {
                Placed::Header(name, value) => drop(headers.insert(name, value.clone())),
                Placed::Query { name, value } => {
                    let separator = if query.is_empty() { "" } else { "&" };
                    query.extend([separator, name, "=", value]);
                }
                Placed::Cookie(cookie) => cookies.push(cookie.as_str()),
            }
        }
        // Each cookie was checked to be a valid header value, and so is their list.
        if let Ok(mut value) = HeaderValue::try_from(cookies.join("; "))
            && !cookies.is_empty()
        {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    /// Removes the credentials from a text of the server, because some servers echo the request.
    pub(super) fn redact(&self, mut text: String) -> String {
        for secret in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        text
    }

    /// Removes the credentials from bytes of the server that are no text.
    pub(super) fn redact_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.secrets.iter().fold(bytes, |bytes, secret| {
            let (mut redacted, mut rest) = (Vec::with_capacity(bytes.len()), &bytes[..]);
            while let Some(at) = rest.windows(secret.len()).position(|window| window == secret.as_bytes()) {
                redacted.extend_from_slice(&rest[..at]);
                redacted.extend_from_slice(REDACTED.as_bytes());
                rest = &rest[at + secret.len()..];
            }
            redacted.extend_from_slice(rest);
            redacted
        })
    }

    pub(super) fn are_empty(&self) -> bool {
        self.placed.is_empty()
    }
}

/// Returns the place of a credential according to its scheme; else what the scheme takes.
fn place(scheme: &Value, credential: &Credential) -> Result<Placed, &'static str> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let http_scheme = text("scheme").to_ascii_lowercase();
    match (text("type"), credential) {
        ("http", Credential::Bearer(token)) if http_scheme == "bearer" => authorization(&format!("Bearer {token}")),
        ("oauth2" | "openIdConnect", Credential::Bearer(token)) => authorization(&format!("Bearer {token}")),
        ("http", Credential::Basic { user, password }) if http_scheme == "basic" => {
            if user.contains(':') {
                return Err("a user name has no colon");
            }
            authorization(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
        }
        ("apiKey", Credential::ApiKey(key)) => match text("in") {
            "header" => {
                let name = HeaderName::try_from(text("name")).map_err(|_| "it names no header")?;
                if net::is_reserved_header(&name) {
                    return Err("it names a header that is not for a document to set");
                }
                Ok(Placed::Header(name, sensitive(key)?))
            }
            "query" if !text("name").is_empty() => {
                Ok(Placed::Query { name: percent_encoded(text("name")), value: percent_encoded(key) })
            }
            "cookie" => {
                let name = text("name");
                if name.is_empty() || name.contains('=') || !is_cookie_text(name) || !is_cookie_text(key) {
                    return Err("a cookie's name or value holds what a cookie cannot hold");
                }
                Ok(Placed::Cookie(format!("{name}={key}")))
            }
            _ => Err("it puts the key where none can be put"),
        },
        ("http", _) if http_scheme == "bearer" => Err("it takes a Bearer"),
        ("http", _) if http_scheme == "basic" => Err("it takes a Basic, a user and a password"),
        ("oauth2" | "openIdConnect", _) => Err("it takes a Bearer"),
        ("apiKey", _) => Err("it takes an ApiKey"),
        _ => Err("it is of a kind that is not known here"),
    }
}

fn authorization(value: &str) -> Result<Placed, &'static str> {
    Ok(Placed::Header(AUTHORIZATION, sensitive(value)?))
}

fn sensitive(value: &str) -> Result<HeaderValue, &'static str> {
    let mut value = HeaderValue::try_from(value).map_err(|_| "it holds what a header cannot hold")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the spellings of a credential that a response could contain: plain, percent-encoded, base64 and escaped as
/// in JSON.
fn secrets(credential: &Credential) -> Vec<String> {
    let plain = match credential {
        Credential::Bearer(secret) | Credential::ApiKey(secret) | Credential::Secret(secret) => vec![secret.clone()],
        Credential::Basic { user, password } => vec![password.clone(), STANDARD.encode(format!("{user}:{password}"))],
    };
    let mut all: Vec<String> =
        plain.iter().map(|secret| percent_encoded(secret)).chain(plain.iter().cloned()).collect();
    // The spelling within a JSON string, which has escapes.
    all.extend(plain.iter().map(|secret| Value::String(secret.clone()).to_string().trim_matches('"').to_owned()));
    all.retain(|secret| secret.len() >= MIN_REDACTED_BYTES);
    all.sort();
    all.dedup();
    all
}

/// Lists names for an error message, at most 20 of 100 characters.
fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.take(NAMED_SCHEMES).map(|name| name.chars().take(100).collect()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
