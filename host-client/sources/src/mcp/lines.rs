//! Transport of messages as lines, to a program or a service of this process.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::message::{Incoming, read};

/// One message per line in both directions. `R` bounds the length of a line.
pub(super) struct Lines<R, W> {
    server: String,
    reader: BufReader<R>,
    /// The line that is being read, as far as it came.
    line: Vec<u8>,
    /// `None` after the end.
    writer: Arc<Mutex<Option<W>>>,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub(super) fn new(server: &str, reader: R, writer: W) -> Self {
        let writer = Arc::new(Mutex::new(Some(writer)));
        Self { server: server.to_owned(), reader: BufReader::new(reader), line: Vec::new(), writer }
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
                Incoming::Message(message) => return Some(*message),
                Incoming::Unreadable { stand_in, problem } => {
                    tracing::warn!(server = self.server, problem, "a message of an MCP server cannot be read");
                    if let Some(stand_in) = stand_in {
                        return Some(*stand_in);
                    }
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
