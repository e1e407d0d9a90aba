//! `serve-mcp`: code execution as an MCP server.

use std::sync::Arc;

use host_client::serve_mcp::{self, CodeServer, HttpConfig};
use rmcp::ServiceExt as _;
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::exit::Failure;
use crate::setup::{Setup, connector};

pub(crate) async fn serve(args: ServeArgs) -> Result<(), Failure> {
    if args.http.is_some_and(|address| !address.ip().is_loopback()) && args.http_token.is_none() {
        return Err(Failure::usage(
            "anybody could run code there: give --http-token (or RELAY_MCP_TOKEN), or listen on 127.0.0.1",
        ));
    }
    // Nobody is at a terminal: approvals are asked for through MCP.
    let setup = Setup::new(&args.host, None).await?;
    let server = CodeServer::new(Arc::clone(&setup.host), connector(&args.relay)?);
    let served = match args.http {
        None => over_stdio(server).await,
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            let listener =
                listener.map_err(|error| Failure::usage(format!("{address} cannot be listened on: {error}")))?;
            let config = HttpConfig { token: args.http_token, hosts: args.http_host, origins: Vec::new() };
            over_http(server, listener, config).await
        }
    };
    setup.close().await;
    served
}

async fn over_stdio(server: CodeServer) -> Result<(), Failure> {
    let serving = server.serve(rmcp::transport::stdio()).await;
    let serving = serving.map_err(|error| Failure::failed(format!("no MCP client spoke: {error}")))?;
    let stop = serving.cancellation_token();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    let ended = serving.waiting().await;
    ended.map(drop).map_err(|error| Failure::failed(format!("the MCP server broke off: {error}")))
}

#[expect(clippy::print_stdout, reason = "where it listens, for whoever started it")]
async fn over_http(server: CodeServer, listener: TcpListener, config: HttpConfig) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the HTTP server broke off: {error}"));
    println!("listening on http://{}/mcp", listener.local_addr().map_err(failed)?);
    let stop = async {
        // Without signals it goes on until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let serving = axum::serve(listener, serve_mcp::router(server, config)).into_future();
    tokio::select! {
        served = serving => served.map_err(failed),
        () = stop => Ok(()),
    }
}
