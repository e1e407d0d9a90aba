//! The server of pages: bounded in connections, and in the time that slow peers get.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

/// The pause after an error of the listener, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of a server of pages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeLimits {
    /// The maximum number of connections; further ones wait. 64 by default.
    pub connections: usize,
    /// The time for a request's head, also for the next one of a connection; 30 seconds by default.
    pub head_within: Duration,
    /// The time for which a peer may read nothing of an answer; 30 seconds by default.
    pub write_within: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self { connections: 64, head_within: Duration::from_secs(30), write_within: Duration::from_secs(30) }
    }
}

/// Serves pages, such as [`Page::router`](crate::Page::router), until the future is dropped, which ends all connections.
pub async fn serve(listener: TcpListener, router: Router, limits: ServeLimits) -> Infallible {
    let places = Arc::new(Semaphore::new(limits.connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await;
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = connection(stream, router.clone(), limits.clone());
                connections.spawn(async move {
                    let _place = place;
                    if let Err(error) = serving.await {
                        tracing::debug!(%error, "a connection to a page broke off");
                    }
                });
            }
            Err(error) => {
                if !is_of_peer(&error) {
                    tracing::warn!(%error, "a page takes no connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, limits: ServeLimits) -> Result<(), hyper::Error> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_within));
    let service = TowerToHyperService::new(router.map_request(|request: http::Request<_>| request.map(Body::new)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .serve_connection(TokioIo::new(Box::pin(stream)), service)
        .await
}

/// Returns `true` for errors of a peer that is gone already.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
