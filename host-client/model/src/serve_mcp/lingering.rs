//! Runs without a handle, between two requests of their client: each ends with its session, or when nobody comes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

use super::life::SessionLife;
use crate::agent::handles::Begun;
use host_client_core::runs;
use host_client_core::{RunId, Runs};

/// Time for which the client can still ask for the outcome of a run that has ended.
const KEPT: Duration = Duration::from_secs(60);

/// The runs whose clients are to come back, each with the token that ends the watch over it. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Lingering(Arc<Mutex<HashMap<RunId, CancellationToken>>>);

impl Lingering {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        // Changed only under this lock, by code that does not panic half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the runs, those included that ended just now.
    pub(super) fn number(&self) -> usize {
        self.lock().len()
    }

    /// Leaves a run to the request that has come for it.
    pub(super) fn end(&self, run: &RunId) {
        if let Some(watch) = self.lock().remove(run) {
            watch.cancel();
        }
    }

    /// Lets a run go on until its client comes back, for up to `within`. It ends with its session, and is forgotten a while after
    /// its end.
    pub(super) fn begin(&self, begun: Begun, runs: &Runs, within: Duration, context: &RequestContext<RoleServer>) {
        let (this, run, runs) = (self.clone(), begun.release(), runs.clone());
        let life = context.extensions.get::<SessionLife>().cloned();
        let watch = CancellationToken::new();
        if let Some(before) = self.lock().insert(run.id().clone(), watch.clone()) {
            before.cancel();
        }
        tokio::spawn(async move {
            let over = async {
                let session_over = async {
                    match &life {
                        Some(life) => life.over().cancelled().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    _ = run.outcome() => {}
                    () = session_over => run.cancel(),
                    () = tokio::time::sleep(within) => run.cancel(),
                }
                let _ = run.outcome().await;
                tokio::time::sleep(KEPT).await;
            };
            if watch.run_until_cancelled(over).await.is_none() {
                return;
            }
            {
                let mut all = this.lock();
                // A request may have come for it just now.
                if watch.is_cancelled() {
                    return;
                }
                all.remove(run.id());
            }
            let _ = runs::forget(runs.journal(), run.id()).await;
        });
    }
}
