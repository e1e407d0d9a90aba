//! Session with a relay: tools, rules and a connection, which are prepared concurrently.

use std::sync::Arc;

use host_client::page::LocalPage;
use host_client::{Client, ClientConfig, LocalRelay};

use crate::approvals::Approvals;
use crate::args::{ApprovalArgs, HostArgs, LiveArgs, RelayArgs};
use crate::connection;
use crate::exit::Failure;
use crate::output::{inline, note};
use crate::progress::Progress;
use crate::setup::{Asking, Setup, config};
use crate::ui;

/// Session with a relay. [`Session::close`] ends what was started for it.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) setup: Setup,
    /// Approvals by links; `None`: people are asked at the terminal.
    _approvals: Option<Approvals>,
    /// Page of what runs here; `None`: none was asked for.
    _page: Option<LocalPage>,
    /// Relay of this session's own, which ends with it; `None` if `--relay` names one.
    _own: Option<LocalRelay>,
}

impl Session {
    /// Mounts the tools, and connects to the relay.
    pub(crate) async fn open(
        host: &HostArgs,
        relay: &RelayArgs,
        approvals: &ApprovalArgs,
        live: &LiveArgs,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        let approvals = Approvals::open(approvals, None).await?;
        let page = ui::open(live, None, host.audit.as_deref()).await?;
        let asking = Asking { approvals: approvals.as_ref(), journal: None, page: page.as_ref() };
        let (setup, (config, own)) = tokio::try_join!(Setup::asking(host, Some(progress), asking), find(relay))?;
        let client = Client::connect(config, Arc::clone(&setup.host)).await?;
        connection::report(&client, progress);
        for warning in client.warnings() {
            note(&format!("warning: {}", inline(&warning.message)));
        }
        Ok(Self { client, setup, _approvals: approvals, _page: page, _own: own })
    }

    /// Ends the session, then the tools, then the session's own relay.
    pub(crate) async fn close(self) {
        let Self { client, setup, _approvals, _page, _own: own } = self;
        drop(client);
        setup.close().await;
        drop(own);
    }
}

/// Returns the configuration of the relay that the arguments name, or starts one.
async fn find(args: &RelayArgs) -> Result<(ClientConfig, Option<LocalRelay>), Failure> {
    match config(args)? {
        Some(config) => Ok((config, None)),
        None => {
            let relay = LocalRelay::start().await?;
            let config = relay.client_config().await?;
            Ok((ClientConfig { resume: config.resume.min(args.resume_window()), ..config }, Some(relay)))
        }
    }
}
