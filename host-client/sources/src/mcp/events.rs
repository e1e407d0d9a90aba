//! HTTP client of MCP servers: answers in event streams that cannot be read become errors of their requests. The library
//! would pass them over.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};
use sse_stream::{Error as SseError, Sse};

use super::message::{Incoming, Unreadable, read, stand_in};

/// Maximum size of one event, in bytes. (The library bounds other bodies itself.)
const MAX_EVENT_BYTES: usize = 64 << 20;

type Events = BoxStream<'static, Result<Sse, SseError>>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// HTTP client that reads each event before the library does.
#[derive(Clone)]
pub(super) struct ReadingClient {
    http: reqwest::Client,
    server: Arc<str>,
}

impl ReadingClient {
    pub(super) fn new(server: &str, http: reqwest::Client) -> Self {
        Self { http, server: server.into() }
    }

    /// Replaces answers that cannot be read. `request`: the request that the stream answers; `None`: it answers none by
    /// itself.
    fn readable(&self, events: Events, request: Option<RequestId>) -> Events {
        let server = Arc::clone(&self.server);
        events
            .map(move |event| {
                let mut event = event?;
                if let Some(data) = &event.data
                    && let Incoming::Unreadable { of, problem } = read(data.as_bytes())
                {
                    tracing::warn!(server = &*server, problem, "a message of an MCP server cannot be read");
                    let answers = match of {
                        Unreadable::Answer(id) => Some(id),
                        Unreadable::AnswerWithoutId => request.clone(),
                        Unreadable::Other => None,
                    };
                    let message = answers.map(|id| stand_in(id, &problem));
                    // A message consists of texts and JSON, so that serialization cannot fail.
                    event.data = message.and_then(|message| serde_json::to_string(&message).ok()).or(event.data);
                }
                Ok(event)
            })
            .boxed()
    }
}

// The trait's methods with a maximum call those without one, which set the maximum here.
impl StreamableHttpClient for ReadingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let answer = self.http.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            MAX_EVENT_BYTES,
        );
        Ok(match answer.await? {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(self.readable(events, request), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.http.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, HttpError> {
        let events = self.http.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_EVENT_BYTES,
        );
        Ok(self.readable(events.await?, None))
    }
}
