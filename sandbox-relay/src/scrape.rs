//! The listener of the [`metrics`](crate::metrics): it answers `GET /metrics` to whoever can reach it, and asks for no token.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::build;
use crate::metrics::Readings;
use crate::server::{ACCEPT_AGAIN_AFTER, Server, http1};

/// Maximum number of connections: those of a few scrapers.
const CONNECTIONS: usize = 16;
/// Maximum time for one connection.
const WITHIN: Duration = Duration::from_secs(10);
/// Maximum length in bytes of a request's head.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Interval at which the samples of distributions are put together, so that they do not pile up without a scraper.
const UPKEEP: Duration = Duration::from_secs(5);
/// Content type of the text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone)]
struct Scraped {
    server: Arc<Server>,
    handle: PrometheusHandle,
}

/// Serves the metrics until the process ends.
pub(crate) async fn serve(listener: TcpListener, server: Arc<Server>, handle: PrometheusHandle) {
    let routes = Router::new().route("/metrics", get(scrape)).with_state(Scraped { server, handle: handle.clone() });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut upkeep = tokio::time::interval(UPKEEP);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = upkeep.tick() => {
                handle.run_upkeep();
                continue;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for the metrics could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        // Without a place it is closed at once.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let routes = routes.clone();
        tokio::spawn(async move {
            // A client that breaks HTTP, or does not read, has been answered as far as it can be.
            let _ = tokio::time::timeout(WITHIN, answer(stream, routes)).await;
            drop(place);
        });
    }
}

async fn answer(stream: TcpStream, routes: Router) {
    let http = http1(WITHIN, MAX_HEAD_BYTES);
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await;
}

async fn scrape(State(Scraped { server, handle }): State<Scraped>) -> impl IntoResponse {
    let (engine, lifecycle) = (&server.sessions.engine, &server.lifecycle);
    let ((running, queued), coming_back) = (engine.load(), engine.coming_back());
    let readings = Readings {
        is_ready: lifecycle.is_serving() && engine.is_ready(),
        places: engine.capacity(),
        running,
        queued: queued + coming_back,
        waiting_for_people: engine.parked().saturating_sub(coming_back),
        oldest_wait: engine.oldest_wait(),
        connected: lifecycle.connected(),
        detached: lifecycle.detached(),
        ready_workers: engine.ready_workers().collect(),
        build: build::name(),
    };
    readings.set();
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], handle.render())
}
