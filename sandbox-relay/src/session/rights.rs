//! Rights of a session's token, and how those of another token take their place: in a renewal, and on a new connection.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use relay_proto::time::millis;
use relay_proto::wire::message::Payload;
use relay_proto::{ErrorCode, wire};
use tokio::time::Instant;

use super::state::SessionGrant;
use super::{Epoch, Session, excerpt};
use crate::auth::{Identity, Unauthenticated};

/// Rights of a token, and the instant at which they end.
pub(crate) struct TokenRights {
    grant: Arc<SessionGrant>,
    expires: Instant,
}

impl Session {
    /// Returns the rights of its newest token.
    pub(crate) fn rights(&self) -> TokenRights {
        TokenRights { grant: self.state.grant(), expires: *self.state.expires.borrow() }
    }

    /// Waits until the newest token has expired.
    pub(crate) fn expired(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut expires = self.state.expires.subscribe();
        async move {
            loop {
                let at = *expires.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    changed = expires.changed() => if changed.is_err() { return std::future::pending().await },
                }
            }
        }
    }

    /// Takes the result of verifying the newer token of a renewal, and has its answer ready. A token that is refused changes
    /// nothing.
    pub(crate) fn renew(&mut self, verified: Result<Identity, Unauthenticated>) {
        self.renewal = None;
        self.answers.push_back(self.renewed(verified));
    }

    fn renewed(&self, verified: Result<Identity, Unauthenticated>) -> Payload {
        let refuse = |code: ErrorCode, error: &str| {
            Payload::Renewed(wire::Renewed { error: error.into(), code: code.as_str().into(), ..Default::default() })
        };
        let session = &self.state;
        let identity = match verified {
            Ok(identity) => identity,
            Err(reason) => {
                tracing::info!(
                    session = session.number.0,
                    reason = excerpt(&reason.to_string()),
                    "a renewal was refused"
                );
                return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
            }
        };
        if identity.subject != session.subject {
            return refuse(ErrorCode::PermissionDenied, "the token is of another subject");
        }
        if let Err(reason) = session.context.verifier.use_up(&identity) {
            tracing::info!(session = session.number.0, %reason, "a renewal was refused");
            return refuse(ErrorCode::Unauthenticated, "the token is not accepted");
        }
        let grant = SessionGrant::new(&session.context, identity.grant);
        let (limits, tools, warnings) = (grant.limits.to_wire(), grant.tools.to_wire(), grant.warnings());
        *session.grant.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(grant);
        session.expires.send_replace(Instant::now() + identity.expires_in);
        let expires_in_ms = millis(identity.expires_in);
        Payload::Renewed(wire::Renewed { expires_in_ms, limits, tools, warnings, ..Default::default() })
    }

    /// Goes on over a new connection, which a token with these rights has opened. Returns the first message for it.
    pub(crate) fn resumed(&self, rights: TokenRights, epoch: &Epoch) -> wire::Resumed {
        let session = &self.state;
        let expires_in = rights.expires.saturating_duration_since(Instant::now());
        let resumed = wire::Resumed {
            epoch: epoch.number,
            received: session.outbound.delivery().received(),
            secret: Bytes::copy_from_slice(&epoch.secret),
            expires_in_ms: millis(expires_in),
            executions: session.lock().executions.keys().map(ToString::to_string).collect(),
            limits: rights.grant.limits.to_wire(),
            tools: rights.grant.tools.to_wire(),
            warnings: rights.grant.warnings(),
        };
        *session.grant.write().unwrap_or_else(PoisonError::into_inner) = rights.grant;
        session.expires.send_replace(rights.expires);
        self.stop_clocks(false);
        resumed
    }
}
