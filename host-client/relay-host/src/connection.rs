//! Messages about the connection to the relay: it was lost, and the session goes on or is over.

use std::time::Instant;

use host_client::{Client, ConnectionState};

use crate::output::{inline, plain};
use crate::progress::Progress;

/// Reports from now on what becomes of the client's connection, until the client is dropped.
pub(crate) fn report(client: &Client, progress: &Progress) {
    let (mut changes, window, progress) = (client.state_changes(), client.resume_window(), progress.clone());
    tokio::spawn(async move {
        let mut lost_at = None;
        while let Some(state) = changes.next().await {
            let text = match state {
                ConnectionState::Reconnecting { reason, .. } => {
                    lost_at.get_or_insert_with(Instant::now);
                    format!("{}; trying again for {} s …", inline(&reason), window.as_secs())
                }
                ConnectionState::Connected => {
                    let after = lost_at.take().map(|at: Instant| at.elapsed()).unwrap_or_default();
                    format!("the session goes on after {:.1} s", after.as_secs_f64())
                }
                // Without a loss before, the error of the command says it.
                ConnectionState::Lost { reason, .. } if lost_at.is_some() => {
                    format!("the session is over: {}", inline(&reason))
                }
                _ => continue,
            };
            let text = plain(&format!("relay-host: {text}\n")).into_owned();
            tokio::task::block_in_place(|| progress.print(text.as_bytes()));
        }
    });
}
