//! Options of the page of what a command runs.

use std::net::SocketAddr;

use clap::Args;

/// Options of the page of what a command runs.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Serve a page of what runs here at this address of loopback, such as 127.0.0.1:0, and ask for approvals there, too
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) ui: Option<SocketAddr>,
}
