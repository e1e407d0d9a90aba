//! `serve-mcp`: serves code execution as an MCP server.

mod users;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host_client::serve_mcp::{self, CodeServer, HttpConfig, HttpToken};
use host_client::{ConnectionPool, LazyClient, Runs};
use rmcp::transport::stdio_pipes;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::approvals::Approvals;
use crate::args::ServeArgs;
use crate::durable::{begin_options, leave};
use crate::exit::Failure;
use crate::journal;
use crate::progress::Progress;
use crate::setup::{Asking, Connector, Setup};
use crate::ui;

/// Maximum time for clients to read their last answers when the program ends.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// Runs the command until a signal, or the end of standard input.
pub(crate) async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let stop = stopped_by_signals()?;
    let token = args.http_token.as_deref().map(HttpToken::new).transpose().map_err(Failure::usage)?;
    let users = args.http_users.as_deref().map(users::read).transpose()?.unwrap_or_default();
    if args.http.is_some_and(|address| !address.ip().is_loopback()) && token.is_none() && users.is_empty() {
        return Err(Failure::usage(
            "anybody could run code there: give --http-token (or RELAY_MCP_TOKEN) or --http-users, or listen on 127.0.0.1",
        ));
    }
    let connector = Connector::new(&args.relay, Progress::new())?;
    let journal = match args.runs.durable {
        true => Some(journal::open(&args.runs.journal).await?),
        false => None,
    };
    let approvals = Approvals::open(&args.approvals, journal.as_ref()).await?;
    let journal = journal.map(|journal| journal.journal);
    let page = ui::open(&args.live, journal.clone(), args.host.audit.as_deref()).await?;
    // No terminal is used: approvals are requested through MCP, or by links.
    let asking = Asking { approvals: approvals.as_ref(), journal, page: page.as_ref() };
    let starting = Setup::asking(&args.host, None, asking);
    let Some(setup) = stop.run_until_cancelled(starting).await else { return Ok(()) };
    let setup = setup?;
    let connect = {
        let connector = connector.clone();
        move |host| connector.clone().connect(host)
    };
    let pool = ConnectionPool::new(args.relay_connections, Duration::from_secs(args.relay_idle));
    let runs = match args.runs.durable {
        true => {
            let client = LazyClient::new(Arc::clone(&setup.host), connect.clone()).pooled(pool.clone());
            Some(Runs::new(client, begin_options(&args.runs))?)
        }
        false => None,
    };
    let server = CodeServer::new(Arc::clone(&setup.host), connect).connections(pool);
    let server = server.answers_within(Duration::from_secs(args.answer_within));
    let server = if approvals.is_some() { server.asks_no_clients() } else { server };
    let server = match &runs {
        Some(runs) => server.durable(runs.of(owner(args.http))),
        None => server,
    };
    let owners = users.iter().map(|user| user.name.to_string()).chain([owner(args.http)]).collect();
    let taking_over = runs.clone().map(|runs| tokio::spawn(waiting::take_over(runs, owners, setup.servers())));
    let server = args.limit.iter().fold(server, |server, (name, value)| server.limit(*name, *value));
    let served = match args.http {
        None => {
            let (input, output) = stdio_pipes();
            server.serve_lines(input, output, stop).await.map_err(Failure::failed)
        }
        Some(address) => {
            let config = HttpConfig {
                token,
                users,
                hosts: args.http_host,
                sessions: args.http_sessions,
                session_idle: Duration::from_secs(args.http_session_idle),
                stop,
                ..HttpConfig::default()
            };
            over_http(server, address, config).await
        }
    };
    if let Some(taking_over) = taking_over {
        taking_over.abort();
    }
    if let Some(approvals) = &approvals {
        approvals.delivered().await;
    }
    if let Some(runs) = runs {
        leave(runs).await;
    }
    tokio::join!(connector.close(), setup.close());
    served
}

/// Returns the owner of the runs: over standard input and output the user of the system, over HTTP all whose requests are no user's.
fn owner(http: Option<SocketAddr>) -> String {
    match http {
        Some(_) => "http".to_owned(),
        None => format!("user:{}", rustix::process::getuid().as_raw()),
    }
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
