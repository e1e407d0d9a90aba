//! The announcement of the tools to the relay: all of them in hello, and again whenever they have changed.

use std::convert::Infallible;
use std::sync::Weak;
use std::time::Duration;

use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, frame, wire};
use tokio::sync::watch;

use super::Session;
use crate::error::{Error, ExecutionError};
use crate::hash::Hash;
use crate::tool::ToolSpec;
use crate::tools::Tools;

/// The time for which the first changes of the tools are collected before the relay is told. Later ones are collected
/// for [`BETWEEN_CHANGES`].
const COLLECTED: Duration = Duration::from_millis(50);
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);

/// The last announcement of the tools: their version, and the reason if they could not be announced.
#[derive(Debug, Clone, Default)]
pub(super) struct Announced {
    version: u64,
    refused: Option<String>,
}

impl Announced {
    /// Creates the announcement of a version of the tools that the relay was told of.
    pub(super) fn version(version: u64) -> Self {
        Self { version, refused: None }
    }
}

impl Session {
    /// Waits until the relay was told of a version of the tools, or of a later one.
    ///
    /// # Errors
    /// - [`Error::Tools`]: they are too many or too large.
    /// - [`Error::Execution`] with `SESSION_LOST`: the session is over.
    pub(crate) async fn announced(&self, version: u64) -> Result<(), Error> {
        let mut announced = self.announced.subscribe();
        let told = async { announced.wait_for(|told| told.version >= version).await.map(|told| told.clone()) };
        tokio::select! {
            Ok(told) = told => told.refused.map_or(Ok(()), |reason| Err(Error::Tools(reason))),
            () = self.ended() => {
                let lost = ExecutionError::new(ErrorCode::SessionLost, "the session is over");
                Err(Box::new(lost).into())
            }
        }
    }
}

/// Tells the relay of all tools whenever they have changed since hello. Never returns.
pub(super) async fn announce(mut changes: watch::Receiver<u64>, session: &Weak<Session>) -> Infallible {
    // The hash of the last announcement that was sent.
    let mut known = None;
    while changes.changed().await.is_ok() {
        tokio::time::sleep(if known.is_some() { BETWEEN_CHANGES } else { COLLECTED }).await;
        // Before the tools are read: what is added meanwhile is another version.
        let version = *changes.borrow_and_update();
        let Some((tools, outbound)) = session.upgrade().map(|it| (announced(&it.host.tools), it.outbound.clone()))
        else {
            break;
        };
        let mut refused = None;
        match tools {
            // Nobody is left to hear it when this fails.
            Ok(tools) => {
                let payload = Payload::ToolsChanged(wire::ToolsChanged { tools });
                let hash = Hash::of(&frame::encode(&payload.clone().into()));
                if known.replace(hash) != Some(hash) {
                    drop(outbound.send(payload).await);
                }
            }
            Err(reason) => {
                tracing::error!(reason, "the relay is not told that there are other tools");
                refused = Some(reason);
            }
        }
        if let Some(session) = session.upgrade() {
            session.announced.send_replace(Announced { version, refused });
        }
    }
    std::future::pending().await
}

/// Returns the descriptions of the tools that code may call, for the relay.
///
/// # Errors
/// A text: they are more than one message can hold.
pub(super) fn announced(tools: &Tools) -> Result<Vec<wire::Tool>, String> {
    let of = |spec: &ToolSpec| wire::Tool {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.to_string().into(),
        output_schema: spec.output_schema.as_ref().map(ToString::to_string).unwrap_or_default().into(),
    };
    let tools: Vec<_> = tools.callable().iter().map(|registered| of(&registered.spec)).collect();
    let message = Payload::ToolsChanged(wire::ToolsChanged { tools });
    // A hello holds a little more than this message.
    if let Some(cap) = frame::cap(message.kind().0)
        && let Payload::ToolsChanged(wire::ToolsChanged { tools }) = &message
        && (frame::payload_len(&message) + 1_024 > cap.bytes || tools.len() + 16 > cap.items)
    {
        let (count, bytes) = (tools.len(), frame::payload_len(&message));
        return Err(format!(
            "{count} tools with {bytes} bytes of names, descriptions and schemas are too many; at most {} tools and {} bytes can \
             be announced: register fewer, or amend the manifest of those that code need not call",
            cap.items, cap.bytes
        ));
    }
    match message {
        Payload::ToolsChanged(wire::ToolsChanged { tools }) => Ok(tools),
        _ => Ok(Vec::new()),
    }
}
