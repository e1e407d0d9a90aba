//! Transport of messages as lines, to a program or a service of this process.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::message::{Incoming, Unreadable, read, stand_in};

/// Maximum number of requests without an answer that are remembered.
const MAX_UNANSWERED: usize = 1_024;

/// One message per line in both directions. `R` bounds the length of a line.
pub(super) struct Lines<R, W> {
    server: String,
    reader: BufReader<R>,
    /// The line that is being read, as far as it came.
    line: Vec<u8>,
    unanswered: Unanswered,
    /// `None` after the end.
    writer: Arc<Mutex<Option<W>>>,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub(super) fn new(server: &str, reader: R, writer: W) -> Self {
        let writer = Arc::new(Mutex::new(Some(writer)));
        Self {
            server: server.to_owned(),
            reader: BufReader::new(reader),
            line: Vec::new(),
            unanswered: Unanswered::default(),
            writer,
        }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            self.unanswered.sent(request.id.clone());
        }
        let writer = Arc::clone(&self.writer);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            // If this future is dropped, the part of the line that came stays for the next call.
            match self.reader.read_until(b'\n', &mut self.line).await {
                Ok(_) if self.line.ends_with(b"\n") => {}
                Ok(_) => return None,
                Err(error) => {
                    tracing::debug!(server = self.server, %error, "the output of an MCP server cannot be read");
                    return None;
                }
            }
            let incoming = read(&self.line);
            // The room for a long line is not kept.
            self.line = Vec::new();
            match incoming {
                Incoming::Message(message) => return Some(self.unanswered.answered(*message)),
                Incoming::Unreadable { of, problem } => {
                    let (server, unanswered) = (&self.server, self.unanswered.ids.len());
                    let answers = match of {
                        Unreadable::Answer(id) => Some(id),
                        Unreadable::AnswerWithoutId => self.unanswered.only(),
                        Unreadable::Other => None,
                    };
                    let Some(id) = answers else {
                        tracing::warn!(
                            server,
                            problem,
                            unanswered,
                            "a message of an MCP server cannot be read, nor which request it answers: the calls wait on"
                        );
                        continue;
                    };
                    tracing::warn!(server, problem, "a message of an MCP server cannot be read");
                    return Some(self.unanswered.answered(stand_in(id, &problem)));
                }
                Incoming::Other => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Dropping the writer closes the input of the server.
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

/// Requests that the server has not answered. One that was cancelled stays here until its answer comes, which may still
/// be on its way.
#[derive(Debug, Default)]
struct Unanswered {
    ids: HashSet<RequestId>,
    /// `true`: there was one too many to remember.
    has_more: bool,
}

impl Unanswered {
    fn sent(&mut self, id: RequestId) {
        if self.ids.len() < MAX_UNANSWERED {
            self.ids.insert(id);
        } else {
            self.has_more = true;
        }
    }

    /// Returns the request without an answer, if there is exactly one: an answer without an id is the answer to it.
    fn only(&self) -> Option<RequestId> {
        let mut ids = self.ids.iter();
        match (ids.next(), ids.next(), self.has_more) {
            (Some(id), None, false) => Some(id.clone()),
            _ => None,
        }
    }

    /// Notes an answer. An error without an id, by which a server says that it could not read a request, gets the id of
    /// the only request that it can mean.
    fn answered(&mut self, mut message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        if let JsonRpcMessage::Error(error) = &mut message
            && error.id.is_none()
        {
            error.id = self.only();
        }
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = id {
            self.ids.remove(id);
        }
        message
    }
}
