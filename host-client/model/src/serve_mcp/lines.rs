//! MCP on two byte streams, such as standard input and output: one JSON-RPC message per line.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use futures_util::StreamExt as _;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ServerJsonRpcMessage};
use rmcp::service::{ServerInitializeError, ServiceExt as _};
use rmcp::transport::Transport;
use serde_json::error::Category;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::codec::{Decoder, FramedRead};
use tokio_util::sync::CancellationToken;

use super::CodeServer;
use super::life::{Followed, SessionLife};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Maximum number of messages that wait to be written.
const MAX_WAITING: usize = 16;
/// Maximum time for the client to read the last messages.
const READS_WITHIN: Duration = Duration::from_secs(2);

/// Failure to serve a client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not begin an MCP session.
    #[error("no MCP client spoke: {0}")]
    NoClient(Box<ServerInitializeError>),
    /// The server's task ended by a panic.
    #[error("the MCP server broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl CodeServer {
    /// Serves one client on two byte streams, such as standard input and output, until the input ends or `stop` is
    /// cancelled. Code that runs then is stopped.
    ///
    /// # Errors
    /// [`ServeError::NoClient`]: the first message began no session, or there was none.
    /// [`ServeError::Broken`]: the server panicked.
    pub async fn serve_lines(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let transport = Followed::new(Lines::new(input, output), SessionLife::new());
        match self.serve_with_ct(transport, stop.clone()).await {
            Ok(serving) => Ok(serving.waiting().await.map(drop)?),
            Err(_) if stop.is_cancelled() => Ok(()),
            Err(error) => Err(ServeError::NoClient(Box::new(error))),
        }
    }
}

/// Transport of messages in lines. A line that is no message is answered with an error of JSON-RPC.
struct Lines<R> {
    input: FramedRead<R, LineDecoder>,
    /// Queue of the writer; `None` after the end.
    output: Option<mpsc::Sender<Vec<u8>>>,
    writer: JoinHandle<()>,
}

impl<R: AsyncRead> Lines<R> {
    fn new(input: R, output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let writer = tokio::spawn(write(output, waiting));
        Self { input: FramedRead::new(input, LineDecoder::default()), output: Some(queue), writer }
    }

    /// Answers a line that is no request. A client that does not read gets no such answers.
    fn refuse(&self, Refusal { id, code, message }: Refusal) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}});
        if let Some(output) = &self.output
            && output.try_send(answer.to_string().into_bytes()).is_err()
        {
            tracing::debug!("an error of JSON-RPC was not sent: the client does not read");
        }
    }
}

/// Writes messages, one per line, until the queue is closed or the client is gone.
async fn write(mut output: impl AsyncWrite + Send + Unpin, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut message) = waiting.recv().await {
        message.push(b'\n');
        let written = async {
            output.write_all(&message).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the MCP client is gone");
            break;
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let message = serde_json::to_vec(&message)?;
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            output.ok_or_else(gone)?.send(message).await.map_err(|_| gone())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let read = match self.input.next().await? {
                Ok(Line::Text(line)) => parse(&line),
                Ok(Line::TooLong) => Err(Some(Refusal {
                    id: Value::Null,
                    code: ErrorCode::INVALID_REQUEST,
                    message: format!("the message has more than {} MiB", MAX_LINE_BYTES >> 20),
                })),
                Err(error) => {
                    tracing::warn!(%error, "the input cannot be read");
                    return None;
                }
            };
            match read {
                Ok(message) => return Some(message),
                Err(Some(refusal)) => self.refuse(refusal),
                Err(None) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output = None;
        if tokio::time::timeout(READS_WITHIN, &mut self.writer).await.is_err() {
            self.writer.abort();
        }
        Ok(())
    }
}

impl<R> Drop for Lines<R> {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// Error that answers a line.
struct Refusal {
    /// Id of the request; `null` if it is not known.
    id: Value,
    code: ErrorCode,
    message: String,
}

/// Parses a line.
///
/// # Errors
/// The answer to a line that is no message; `None` for one that JSON-RPC does not answer: a notification, a response,
/// or an empty line.
fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, Option<Refusal>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Err(None);
    }
    let refusal = |id, code, message| Err(Some(Refusal { id, code, message }));
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let value = match error.classify() {
        Category::Data => serde_json::from_slice::<Value>(line),
        _ => Err(error),
    };
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            return refusal(Value::Null, ErrorCode::PARSE_ERROR, format!("the message is not valid JSON: {error}"));
        }
    };
    let Value::Object(members) = value else {
        let text = "a message is one JSON object: there are no batches in MCP";
        return refusal(Value::Null, ErrorCode::INVALID_REQUEST, text.to_owned());
    };
    let is_request = members.contains_key("method");
    // An answer to an error could be answered with an error again, and so on.
    if !is_request && (members.contains_key("result") || members.contains_key("error")) {
        return Err(None);
    }
    let is_whole = members.get("jsonrpc").is_some_and(|version| version == "2.0")
        && members.get("method").is_some_and(Value::is_string);
    match members.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) if is_whole => {
            refusal(id.clone(), ErrorCode::INVALID_PARAMS, "the parameters do not fit the method".to_owned())
        }
        Some(id @ (Value::String(_) | Value::Number(_))) => {
            let text = "the message is no request: it needs \"jsonrpc\": \"2.0\" and a method";
            refusal(id.clone(), ErrorCode::INVALID_REQUEST, text.to_owned())
        }
        None if is_request => Err(None),
        _ => {
            let text = "the message is no request: it needs a method, and an id that is a string or an integer";
            refusal(Value::Null, ErrorCode::INVALID_REQUEST, text.to_owned())
        }
    }
}

/// Line of the input.
enum Line {
    Text(BytesMut),
    /// A line over [`MAX_LINE_BYTES`], without its text.
    TooLong,
}

/// Decoder of lines, which drops those that are too long.
#[derive(Default)]
struct LineDecoder {
    /// Number of bytes that were searched for the end of the line.
    searched: usize,
    /// `true`: the rest of a line that is too long is dropped.
    drops: bool,
}

impl Decoder for LineDecoder {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Line>, io::Error> {
        loop {
            let end = bytes[self.searched..].iter().position(|byte| *byte == b'\n').map(|end| self.searched + end);
            let is_too_long = end.unwrap_or(bytes.len()) > MAX_LINE_BYTES;
            self.searched = 0;
            match end {
                Some(end) if self.drops || is_too_long => {
                    bytes.advance(end + 1);
                    if !std::mem::take(&mut self.drops) {
                        return Ok(Some(Line::TooLong));
                    }
                }
                Some(end) => {
                    let mut line = bytes.split_to(end + 1);
                    line.truncate(end);
                    return Ok(Some(Line::Text(line)));
                }
                None if self.drops || is_too_long => {
                    bytes.clear();
                    return Ok((!std::mem::replace(&mut self.drops, true)).then_some(Line::TooLong));
                }
                None => {
                    self.searched = bytes.len();
                    return Ok(None);
                }
            }
        }
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<Line>, io::Error> {
        // A line without an end is not complete.
        self.decode(bytes)
    }
}
