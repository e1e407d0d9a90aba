//! Writes the messages, acknowledgements and pings of one connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use relay_proto::session::SILENT_HEARTBEATS;
use tokio_tungstenite::tungstenite::Message;

use super::Socket;
use super::close::End;
use crate::heard::LastHeard;
use crate::metrics;
use crate::outbound::OutboundQueue;

/// Number of bytes after which a round of writing ends.
const BATCH_BYTES: usize = 1 << 20;

pub(super) type Sink = SplitSink<Socket, Message>;

/// Writes `first`, then queued messages, those that came together in one round, acknowledgements and pings.
pub(super) async fn write(
    sink: &mut Sink,
    queue: &mut OutboundQueue,
    heard: &LastHeard,
    heartbeat: Duration,
    mut first: Option<Bytes>,
) -> End {
    let patience = heartbeat * SILENT_HEARTBEATS;
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let delivery = queue.delivery();
    let acknowledgement = delivery.acknowledgement();
    tokio::pin!(acknowledgement);
    loop {
        let message = match first.take() {
            Some(frame) => Message::Binary(frame),
            None => tokio::select! {
                biased;
                frame = queue.next() => match frame {
                    Some(frame) => Message::Binary(frame),
                    None => return End::Lost,
                },
                _ = beat.tick() => {
                    if heard.silence() > patience {
                        return End::Lost;
                    }
                    Message::Ping(Bytes::new())
                }
                frame = acknowledgement.as_mut() => {
                    acknowledgement.set(delivery.acknowledgement());
                    Message::Binary(frame)
                }
            },
        };
        let written = async {
            metrics::sent(message.len());
            sink.feed(message).await?;
            // A bounded round: each has to end within the patience.
            let mut bytes = 0;
            while bytes < BATCH_BYTES
                && let Some(frame) = queue.try_next()
            {
                bytes += frame.len();
                metrics::sent(frame.len());
                sink.feed(Message::Binary(frame)).await?;
            }
            sink.flush().await
        };
        match tokio::time::timeout(patience, written).await {
            Ok(Ok(())) => {}
            // The socket has failed, or the peer reads nothing for too long.
            Ok(Err(_)) | Err(_) => return End::Lost,
        }
    }
}
