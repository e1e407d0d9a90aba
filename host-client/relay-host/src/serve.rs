//! `serve-mcp`: serves code execution as an MCP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host_client::ConnectionPool;
use host_client::serve_mcp::{self, CodeServer, HttpConfig, HttpToken};
use rmcp::transport::stdio_pipes;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::setup::{Connector, Setup};

/// Maximum time for clients to read their last answers when the program ends.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// Runs the command until a signal, or the end of standard input.
pub(crate) async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let stop = stopped_by_signals()?;
    let token = args.http_token.as_deref().map(HttpToken::new).transpose().map_err(Failure::usage)?;
    if args.http.is_some_and(|address| !address.ip().is_loopback()) && token.is_none() {
        return Err(Failure::usage(
            "anybody could run code there: give --http-token (or RELAY_MCP_TOKEN), or listen on 127.0.0.1",
        ));
    }
    let connector = Connector::new(&args.relay, Progress::new())?;
    // No terminal is used: approvals are requested through MCP.
    let Some(setup) = stop.run_until_cancelled(Setup::new(&args.host, None)).await else { return Ok(()) };
    let setup = setup?;
    let connect = {
        let connector = connector.clone();
        move |host| connector.clone().connect(host)
    };
    let pool = ConnectionPool::new(args.relay_connections, Duration::from_secs(args.relay_idle));
    let server = CodeServer::new(Arc::clone(&setup.host), connect).connections(pool);
    let server = args.limit.iter().fold(server, |server, (name, value)| server.limit(*name, *value));
    let served = match args.http {
        None => {
            let (input, output) = stdio_pipes();
            server.serve_lines(input, output, stop).await.map_err(Failure::failed)
        }
        Some(address) => {
            let config = HttpConfig {
                token,
                hosts: args.http_host,
                sessions: args.http_sessions,
                session_idle: Duration::from_secs(args.http_session_idle),
                stop,
                ..HttpConfig::default()
            };
            over_http(server, address, config).await
        }
    };
    tokio::join!(connector.close(), setup.close());
    served
}

/// Returns a token that SIGINT, SIGTERM or SIGHUP cancels.
fn stopped_by_signals() -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let signal = signal(kind);
        let mut signal = signal.map_err(|error| Failure::failed(format!("signals cannot be received: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signal.recv().await;
            stop.cancel();
        });
    }
    Ok(stop)
}

/// Serves clients over HTTP.
#[expect(clippy::print_stdout, reason = "where it listens, for whoever started it")]
async fn over_http(server: CodeServer, address: SocketAddr, config: HttpConfig) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Failure::usage(format!("{address} cannot be listened on: {error}")))?;
    let failed = |error: std::io::Error| Failure::failed(format!("the HTTP server broke off: {error}"));
    println!("listening on http://{}/mcp", listener.local_addr().map_err(failed)?);
    let stop = config.stop.clone();
    let stopped = stop.clone().cancelled_owned();
    let serving = axum::serve(listener, serve_mcp::router(server, config)).with_graceful_shutdown(stopped);
    let given_up = async {
        stop.cancelled().await;
        tokio::time::sleep(ENDS_WITHIN).await;
    };
    tokio::select! {
        served = serving.into_future() => served.map_err(failed),
        // After this time, open connections are dropped.
        () = given_up => Ok(()),
    }
}
