//! Options of the page.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::JournalArgs;

/// Options of `ui`.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Serve the page at this address. One that is not loopback needs --host, the name of a proxy with TLS
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// The host name, with its port if it is not 443, under which a proxy with TLS serves the page [default: loopback alone]
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Show the records of this audit log
    #[arg(long, env = "RELAY_AUDIT_FILE", value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Show what programs saved, of this file that `cargo xtask study --json` has written
    #[arg(long, value_name = "FILE")]
    pub(crate) study: Option<PathBuf>,
    /// The name of who decides, for the journal and the audit [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}
