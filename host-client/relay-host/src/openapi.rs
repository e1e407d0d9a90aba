//! OpenAPI documents of the command line: `NAME=FILE`, `NAME=URL`, or `NAME=FILE.toml`, a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use host_client::openapi::{Credential, LeftOut, OpenApiMount};
use host_client::{Mount, OpenApi, Tools};
use serde::Deserialize;

use crate::exit::Failure;
use crate::files::read;
use crate::output::note;

/// Maximum number of operations that a report of those left out for one reason names.
const NAMED_OPERATIONS: usize = 3;

/// Configuration of one document. Paths are relative to its folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// File or URL of the document.
    document: String,
    /// URL of the document's server to call. Default: the first one.
    server: Option<String>,
    /// URL to call in the place of the document's servers.
    base_url: Option<String>,
    /// Values of the variables of the document's servers.
    #[serde(default)]
    server_variables: BTreeMap<String, String>,
    /// Networks that may be reached beside public ones: in CIDR notation, `loopback` or `private`.
    #[serde(default)]
    networks: Vec<String>,
    /// Tags of the operations that become tools.
    #[serde(default)]
    tags: Vec<String>,
    /// Patterns of the operations that become tools.
    #[serde(default)]
    operations: Vec<String>,
    /// Maximum size of the document, in bytes.
    document_bytes: Option<usize>,
    /// Maximum number of operations that become tools.
    max_operations: Option<usize>,
    /// PEM file with the authorities that sign the server's certificate.
    ca_file: Option<PathBuf>,
    /// Header in which calls that change something send their idempotency keys.
    idempotency_header: Option<String>,
    /// Credentials by the name of their security scheme.
    #[serde(default)]
    credentials: BTreeMap<String, Secret>,
}

/// Place of a credential: exactly one of `env` and `file`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    /// Environment variable that holds the secret.
    env: Option<String>,
    /// File that holds the secret, without its last line break.
    file: Option<PathBuf>,
    /// User name, for schemes that need one beside the secret.
    user: Option<String>,
}

/// Mounts the documents.
pub(crate) async fn documents(tools: &Tools, named: &[String]) -> Result<Vec<Mount>, Failure> {
    let mut mounts = Vec::new();
    for named in named {
        let (name, mounted) = document(tools, named).await?;
        report(name, &mounted.left_out);
        mounts.push(mounted.mount);
    }
    Ok(mounts)
}

/// Mounts one document. Returns its name, too.
pub(crate) async fn document<'a>(tools: &Tools, named: &'a str) -> Result<(&'a str, OpenApiMount), Failure> {
    let (name, document) = named.split_once('=').ok_or_else(|| {
        Failure::usage(format!("{named:?} is not NAME=FILE, NAME=URL or NAME=FILE.toml, such as shop=openapi.yaml"))
    })?;
    let is_config = !OpenApi::is_url(document) && Path::new(document).extension().is_some_and(|end| end == "toml");
    let document = if is_config { configured(Path::new(document))? } else { OpenApi::from_place(document, "") };
    Ok((name, document.mount(tools, name).await?))
}

/// Reads a configuration.
///
/// # Errors
/// Status 2 with the file, and what to do.
fn configured(path: &Path) -> Result<OpenApi, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let config: Config = toml::from_str(&read(path)?).map_err(|error| wrong(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut api = OpenApi::from_place(&config.document, folder).tags(config.tags).operations(config.operations);
    if let Some(server) = config.server {
        api = api.server(server);
    }
    if let Some(url) = config.base_url {
        api = api.base_url(url);
    }
    if let Some(header) = config.idempotency_header {
        api = api.idempotency_header(&header).map_err(|error| wrong(error.to_string()))?;
    }
    for (name, value) in config.server_variables {
        api = api.server_variable(name, value);
    }
    for network in &config.networks {
        api = api.allow_named(network).map_err(|error| wrong(error.to_string()))?;
    }
    if let Some(bytes) = config.document_bytes {
        api = api.document_bytes(bytes);
    }
    if let Some(most) = config.max_operations {
        api = api.max_operations(most);
    }
    if let Some(file) = config.ca_file {
        api = api.authorities(read(&folder.join(file))?);
    }
    for (scheme, secret) in config.credentials {
        let credential = secret.read(folder).map_err(|reason| wrong(format!("credentials.{scheme}: {reason}")))?;
        api = api.credentials(scheme, credential);
    }
    Ok(api)
}

impl Secret {
    /// Reads the credential.
    ///
    /// # Errors
    /// The reason in words, without the secret.
    fn read(self, folder: &Path) -> Result<Credential, String> {
        let secret = match (self.env, self.file) {
            (Some(name), None) => std::env::var(&name)
                .map_err(|_| format!("the environment variable {name} is not set, or is no text; set it"))?,
            (None, Some(file)) => {
                let text = read(&folder.join(file)).map_err(|failure| failure.text)?;
                let text = text.strip_suffix('\n').unwrap_or(&text);
                text.strip_suffix('\r').unwrap_or(text).to_owned()
            }
            _ => return Err("it needs either \"env\", the name of a variable, or \"file\", a path".to_owned()),
        };
        Ok(match self.user {
            Some(user) => Credential::Basic { user, password: secret },
            None => Credential::Secret(secret),
        })
    }
}

/// Reports the operations that are left out, those of one reason together.
fn report(name: &str, left_out: &[LeftOut]) {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for LeftOut { operation, reason, .. } in left_out {
        let reason = reason.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, operations)) => operations.push(operation),
            None => reasons.push((reason, vec![operation])),
        }
    }
    for (reason, operations) in reasons {
        let named = operations.iter().take(NAMED_OPERATIONS).copied().collect::<Vec<_>>().join(", ");
        let more = match operations.len().saturating_sub(NAMED_OPERATIONS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        note(&format!("relay-host: {name}: left out: {named}{more}: {reason}"));
    }
}
