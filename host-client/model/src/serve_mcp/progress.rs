//! Reports tool calls as progress notifications, to clients that request them.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::mpsc;

use host_client_core::event::{Event, EventStream};
use host_client_core::text::visible;

/// Maximum number of notifications that wait for a slow client. Further ones are dropped.
const MAX_WAITING: usize = 256;

/// Receiver of progress notifications; `None` if the client did not request them.
pub(super) struct Progress(Option<(Peer<RoleServer>, ProgressToken)>);

impl Progress {
    pub(super) fn new(context: &RequestContext<RoleServer>) -> Self {
        Self(context.meta.get_progress_token().map(|token| (context.peer.clone(), token)))
    }

    /// Reports the calls of one execution until it has ended. Events are read at once, however slow the client is.
    pub(super) async fn follow(&self, mut events: EventStream) {
        let Some((peer, token)) = &self.0 else { return };
        let (texts, mut waiting) = mpsc::channel(MAX_WAITING);
        let listen = async move {
            while let Some(event) = events.next().await {
                if matches!(event, Event::Ended { .. }) {
                    break;
                }
                if let Some(text) = text(&event) {
                    // Without room the notification is dropped.
                    let _ = texts.try_send(text);
                }
            }
        };
        let tell = async move {
            // MCP requires progress to increase with every notification.
            let mut told = 0.0;
            while let Some(text) = waiting.recv().await {
                told += 1.0;
                let progress = ProgressNotificationParam::new(token.clone(), told).with_message(text);
                if peer.notify_progress(progress).await.is_err() {
                    break;
                }
            }
        };
        tokio::join!(listen, tell);
    }
}

/// Describes an event for the user of the client; `None` for events that are not reported. Names are escaped: code may
/// call tools that do not exist.
fn text(event: &Event) -> Option<String> {
    Some(match event {
        Event::ToolCallStarted { tool, .. } => format!("{} …", visible(tool.as_str())),
        Event::ToolCallAwaitingApproval { tool, .. } => format!("{} awaits approval", visible(tool.as_str())),
        Event::ToolCallProgress { tool, done, total, message, .. } => {
            let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
            let text = format!("{}: {done}{of} {}", visible(tool.as_str()), visible(message));
            text.trim_end().to_owned()
        }
        Event::ToolCallFinished { tool, result_bytes, .. } => {
            format!("{}: {result_bytes} bytes", visible(tool.as_str()))
        }
        Event::ToolCallFailed { tool, code, .. } => format!("{} failed: {code}", visible(tool)),
        Event::ToolCallDenied { tool, code, .. } => format!("{} was not allowed: {code}", visible(tool.as_str())),
        Event::Disconnected { .. } => "the connection to the relay was lost; trying again".to_owned(),
        Event::Resumed { .. } => "the connection to the relay is back".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_tools_own_progress_is_told_in_its_words_made_visible() {
        let told = |done, total, message: &str| {
            let tool = "files.pack".to_owned().try_into().unwrap();
            text(&Event::ToolCallProgress { id: 1, tool, done, total, message: message.to_owned() }).unwrap()
        };
        assert_eq!(told(3.0, Some(8.0), "packing"), "files.pack: 3 of 8 packing");
        assert_eq!(told(0.5, None, ""), "files.pack: 0.5");
        assert!(!told(1.0, None, "a\u{1b}[2Jb").contains('\u{1b}'));
    }
}
