//! Measures the lower bound of a call: a raw tokio-tungstenite echo in a process of its own, with as many bytes as a
//! tool call.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

/// Environment variable that makes this program the echo server.
const SERVER: &str = "RELAY_BENCH_ECHO";

/// Returns whether this process is to be the echo server.
pub(crate) fn is_server() -> bool {
    std::env::var_os(SERVER).is_some()
}

/// Echoes until the parent process ends.
#[expect(clippy::print_stdout, reason = "the parent reads the address")]
pub(crate) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    while let Some(Ok(message)) = socket.next().await {
        if message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

pub(crate) struct Echo {
    child: Child,
    socket: tokio_tungstenite::WebSocketStream<TcpStream>,
}

impl Echo {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.env(SERVER, "1").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await?;
        Ok(Self { child, socket })
    }

    /// Measures one message to the server and back.
    pub(crate) async fn round_trip(&mut self, bytes: usize) -> anyhow::Result<Duration> {
        let message = Message::Binary(vec![7; bytes].into());
        let started = Instant::now();
        self.socket.send(message).await?;
        self.socket.next().await.context("the echo ended")??;
        Ok(started.elapsed())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
