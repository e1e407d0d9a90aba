//! Options for approval links.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::seconds;

/// Options for the pages of approval links.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// Serve the pages of approval links at this address. One that is not loopback needs --approval-url https://…, of a
    /// proxy with TLS
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) approval_listen: Option<SocketAddr>,
    /// The URL under which people reach these pages [default: http:// and the address of --approval-listen]
    #[arg(long, env = "RELAY_APPROVAL_URL", value_name = "URL")]
    pub(crate) approval_url: Option<String>,
    /// A file with the secret that signs approval links, of at least 32 bytes [default: a file beside the journal, which is
    /// made if it is absent, or a secret that ends with this program]
    #[arg(long, env = "RELAY_APPROVAL_SECRET_FILE", value_name = "FILE")]
    pub(crate) approval_secret_file: Option<PathBuf>,
}

/// Options for asking people by links.
#[derive(Debug, Args)]
pub(crate) struct ApprovalArgs {
    /// Ask about calls by posting a link to this address, and not at the terminal or the MCP client
    #[arg(long, env = "RELAY_APPROVAL_WEBHOOK", value_name = "URL", requires = "approval_webhook_secret")]
    pub(crate) approval_webhook: Option<String>,
    /// The secret that signs what is posted: whsec_ and base64, or a text of at least 24 bytes
    #[arg(long, env = "RELAY_APPROVAL_WEBHOOK_SECRET", hide_env_values = true, value_name = "SECRET")]
    pub(crate) approval_webhook_secret: Option<String>,
    /// A private network in which the webhook's address may lie, such as 10.1.0.0/16
    #[arg(long, value_name = "NETWORK")]
    pub(crate) approval_webhook_network: Vec<String>,
    /// Time for which an approval link works, in seconds
    #[arg(long, default_value_t = 86_400, value_name = "SECONDS", value_parser = seconds())]
    pub(crate) approval_link_expiry: u64,
    #[command(flatten)]
    pub(crate) links: LinkArgs,
}

impl ApprovalArgs {
    /// Returns the time for which a link works.
    pub(crate) fn link_expiry(&self) -> Duration {
        Duration::from_secs(self.approval_link_expiry)
    }
}
