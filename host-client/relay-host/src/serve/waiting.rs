//! Goes on with runs that waited when their process ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use host_client::durable::RunHead;
use host_client::{McpServers, RunId, RunStatus, Runs};

use crate::runs::{every, is_held};

/// Maximum time for MCP servers to start before runs go on that may need their tools.
const SERVERS_WITHIN: Duration = Duration::from_secs(60);
/// Interval between two looks for such runs: a process that was killed holds its runs for this long.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Maximum time before a run that could not go on is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// The runs that could not go on: each is tried again after a pause that doubles with every failure.
#[derive(Default)]
struct Failed(HashMap<RunId, (Instant, Duration)>);

impl Failed {
    fn add(&mut self, run: RunId, now: Instant) {
        let pause = self.0.get(&run).map_or(2 * LOOK_EVERY, |(_, pause)| (*pause * 2).min(MAX_PAUSE));
        self.0.insert(run, (now + pause, pause));
    }

    fn pauses(&self, run: &RunId, now: Instant) -> bool {
        self.0.get(run).is_some_and(|(until, _)| now < *until)
    }
}

/// Goes on with the runs of these owners that wait and that no process holds, now and later. Others are left until they are asked
/// for: nobody may have got the handle of code that was running.
pub(super) async fn take_over(runs: Runs, owners: HashSet<String>, servers: Arc<McpServers>) {
    servers.ready(SERVERS_WITHIN).await;
    let (mut failed, mut of_others) = (Failed::default(), HashSet::new());
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let heads = match every(runs.journal(), true).await {
            Ok(heads) => heads,
            Err(failure) => {
                tracing::warn!(error = failure.text, "the journal cannot be read");
                continue;
            }
        };
        // Those that have ended or were removed are forgotten.
        let ids: HashSet<_> = heads.iter().map(|head| head.id.clone()).collect();
        failed.0.retain(|run, _| ids.contains(run));
        of_others.retain(|run| ids.contains(run));
        let waits =
            |head: &RunHead| head.status == RunStatus::Waiting && !is_held(head) && runs.get(&head.id).is_none();
        for head in heads.into_iter().filter(waits) {
            if failed.pauses(&head.id, Instant::now()) || of_others.contains(&head.id) {
                continue;
            }
            let gone_on = match runs.owner_of(&head.id).await {
                Ok(owner) if owner.as_ref().is_none_or(|owner| !owners.contains(owner)) => {
                    of_others.insert(head.id);
                    continue;
                }
                Ok(_) => runs.resume(&head.id).await.map(drop),
                Err(error) => Err(error.into()),
            };
            match gone_on {
                Ok(()) => {
                    failed.0.remove(&head.id);
                }
                Err(error) => {
                    tracing::debug!(run = head.id.as_str(), %error, "a run that waits does not go on here");
                    failed.add(head.id, Instant::now());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_again_is_tried_after_growing_pauses() {
        let (mut failed, run, mut now) = (Failed::default(), RunId::random(), Instant::now());
        for pause in [60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
            failed.add(run.clone(), now);
            assert!(failed.pauses(&run, now + Duration::from_secs(pause - 1)));
            now += Duration::from_secs(pause);
            assert!(!failed.pauses(&run, now));
        }
    }
}
