//! Entry points of the fuzz targets to the code that reads bytes of strangers. Built with the feature `fuzzing` alone.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use bytes::Bytes;
use relay_proto::{Limits, frame};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::admission::{Admission, AdmissionConfig, SessionNumber};
use crate::auth::{AuthConfig, Grant, KeySource, Verifier};
use crate::config::LimitSettings;
use crate::engine::{Engine, Pools};
use crate::fairness::Fairness;
use crate::meter::Meter;
use crate::outbound::{KeptBudgets, outbound};
use crate::sandbox::pool::Pool;
use crate::server::DETACHED_BYTES;
use crate::session::{Session, SessionConfig, SessionContext};
use crate::subject::Subjects;

/// Checks that the meter counts a peer's bytes alike however they are cut.
pub fn meter(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else { return };
    let now = Instant::now();
    let (mut whole, mut pieces) = (Meter::new(now), Meter::new(now));
    let expected = whole.take(bytes, now);
    let found = bytes.chunks(usize::from(*cut).max(1)).try_for_each(|chunk| pieces.take(chunk, now));
    assert_eq!(expected, found, "cut into pieces of {cut}");
    if expected.is_ok() {
        assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }
}

/// Prepares source text that is too short for its nesting to use up the stack.
pub fn source(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && text.len() <= 2_048
    {
        match relay_script::prepare(text) {
            // A member of an enum has at least two bytes, and becomes two properties with its name and its number.
            Ok(prepared) => assert!(prepared.module.len() <= 32 * text.len() + 256),
            Err(error) => assert!(!error.message.is_empty()),
        }
    }
}

async fn verifier() -> Verifier {
    let secret = Zeroizing::new(b"a secret of the fuzz targets, long enough".to_vec());
    let (audience, issuer) = ("sandbox-relay".into(), "sandbox-relay".into());
    let config = AuthConfig { key: KeySource::Secret(secret), audience, issuer, one_time: true };
    Verifier::new(&config).await.unwrap_or_else(|error| unreachable!("{error}"))
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap_or_else(|error| unreachable!("{error}"))
}

/// Checks that no `Authorization` header of random bytes is accepted.
pub fn token(data: &[u8]) {
    thread_local! {
        static READY: (tokio::runtime::Runtime, Verifier) = {
            let runtime = runtime();
            let verifier = runtime.block_on(verifier());
            (runtime, verifier)
        };
    }
    let text = String::from_utf8_lossy(data);
    READY.with(|(runtime, verifier)| {
        for header in [text.to_string(), format!("Bearer {text}")] {
            assert!(runtime.block_on(verifier.verify(Some(&header))).is_err(), "{header:?}");
        }
    });
}

/// Runs a session against the messages of a peer and the words of a hostile worker. Each piece of `data` follows its
/// length in two bytes; the first is the worker's.
pub fn session(data: &[u8]) {
    let mut pieces = pieces(data);
    let from_worker = pieces.next().unwrap_or_default();
    let runtime = runtime();
    runtime.block_on(async {
        let Ok((theirs, mut ours)) = UnixStream::pair() else { return };
        // Bytes that do not fit into the socket are left out.
        let _ = ours.set_nonblocking(true);
        let _ = ours.write(from_worker);
        let _ = ours.shutdown(std::net::Shutdown::Write);
        let Ok(context) = context(vec![theirs]).await else { return };
        let Some(subject) = Subjects::new(4).enter(&"fuzz".into(), false) else { return };
        let detached = Arc::new(Semaphore::new(DETACHED_BYTES));
        let (outbound, mut queue) = outbound(KeptBudgets { of_subject: Arc::clone(&subject.budgets.kept), detached });
        let identity = crate::auth::Identity::for_fuzzing("fuzz", Grant::default());
        let mut session = Session::new(context.clone(), SessionNumber(1), identity, subject, outbound);
        for piece in pieces {
            let Ok(message) = frame::decode(Bytes::copy_from_slice(piece)) else { break };
            if let Err(violation) = session.take(message, piece.len()) {
                assert!(!violation.to_string().is_empty());
                break;
            }
            if let Some(token) = session.renewal() {
                let verified = context.verifier.verify_token(token).await;
                session.renew(verified);
            }
            while session.take_answer().is_some() {}
            for _ in 0..8 {
                tokio::task::yield_now().await;
                while let Some(frame) = queue.try_next() {
                    // The relay has to accept what it sends.
                    assert!(frame::decode(frame).is_ok());
                }
            }
        }
        drop(session);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    });
    runtime.shutdown_background();
}

/// Splits bytes into pieces, each behind its length in two bytes.
fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some(piece)
    })
}

/// Makes what a session needs, with workers that are the other ends of these sockets.
async fn context(workers: Vec<UnixStream>) -> std::io::Result<SessionContext> {
    let admission = Admission::new(AdmissionConfig {
        running: 4,
        running_per_subject: 4,
        running_per_session: 4,
        waiting: 4,
        waiting_per_subject: 4,
        parked_bytes: 1 << 20,
    });
    let pools = Pools { interpreter: Pool::of_sockets(workers)?, compiler: None };
    let limits = LimitSettings { defaults: Limits::defaults(), maxima: Limits::maxima() };
    Ok(SessionContext {
        config: SessionConfig { limits, executions: 4, resume_window: std::time::Duration::from_secs(60) },
        engine: Arc::new(Engine::new(admission, pools, Fairness::start(1)?)),
        verifier: Arc::new(verifier().await),
    })
}
