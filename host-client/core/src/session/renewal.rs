//! Renewal: a newer token within the session, shown by the application or by the client itself before the old one expires.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use relay_proto::wire;
use relay_proto::wire::message::Payload;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Session;
use super::grant::TokenGrant;
use super::token::Tokens;
use crate::error::Error;
use crate::random::random_share;

/// The share of a token's remaining life after which it is renewed.
const SHARE: f64 = 0.8;
/// The share of this time by which it is renewed earlier at random, so that clients that began together do not stay together.
const JITTER: f64 = 0.1;
/// The minimum time between two renewals, whatever a relay says of a token's life.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two renewals after the token has expired.
const LATE_PAUSE: Duration = Duration::from_secs(5);

impl Session {
    /// Shows the relay a newer token; returns the receiver of the answer.
    ///
    /// # Errors
    /// [`Error::Refused`]: a renewal is on its way. [`Error::Execution`] with `SESSION_LOST`: the session is over.
    pub(crate) async fn show(self: Arc<Self>, token: &str) -> Result<oneshot::Receiver<wire::Renewed>, Error> {
        let renew = Payload::Renew(wire::Renew { token: token.to_owned() });
        let outbound = self.outbound.clone();
        let weak = Arc::downgrade(&self);
        // Whoever waits for room does not keep the session.
        drop(self);
        // From here on there is no await until it is sent: a caller that drops this future leaves nothing half done.
        let room = outbound.reserve(&renew).await.map_err(|_closed| super::over())?;
        let session = weak.upgrade().ok_or_else(super::over)?;
        let on_its_way = || Error::Refused("a renewal is on its way already".into());
        let answer = session.expect_renewal().ok_or_else(on_its_way)?;
        room.send(renew);
        Ok(answer)
    }

    /// Takes the relay's answer to a renewal with a token: its grant holds from now on. Returns the time until it expires.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`], [`Error::Refused`]: the relay does not accept it; nothing has changed.
    pub(crate) fn renewed(&self, token: String, renewed: wire::Renewed) -> Result<Duration, Error> {
        match renewed.code.as_str() {
            "" => {
                self.set_grant(TokenGrant::new(&renewed.limits, &renewed.tools));
                self.tokens.accepted(token, renewed.expires_in_ms);
                Ok(Duration::from_millis(renewed.expires_in_ms))
            }
            "UNAUTHENTICATED" => Err(Error::Unauthenticated),
            _ => Err(Error::Refused(renewed.error)),
        }
    }

    /// Returns the receiver for the answer to a renewal that is about to be sent; `None`: another renewal is on its
    /// way.
    fn expect_renewal(&self) -> Option<oneshot::Receiver<wire::Renewed>> {
        let mut waiting = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_some() {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        *waiting = Some(sender);
        Some(answer)
    }

    /// Takes the sender to whoever waits for a renewal; `None`: nobody does.
    pub(super) fn take_renewal(&self) -> Option<oneshot::Sender<wire::Renewed>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Renews the session's token before it expires, again and again. Never returns.
pub(super) async fn renew(session: &Weak<Session>, tokens: &Tokens) -> Infallible {
    while let Some(expires) = tokens.expires() {
        let left = expires.saturating_duration_since(Instant::now());
        let early = SHARE * (1.0 - JITTER * random_share());
        let pause = if left.is_zero() { LATE_PAUSE } else { PAUSE };
        tokio::time::sleep(left.mul_f64(early).max(pause)).await;
        if tokens.expires() != Some(expires) {
            // A resumption or the application has shown a newer one meanwhile.
            continue;
        }
        match renew_once(session, tokens).await {
            Ok(left) => tracing::debug!(left_s = left.as_secs(), "the token was renewed"),
            Err(error) => tracing::warn!(%error, "the token could not be renewed; trying again"),
        }
    }
    std::future::pending().await
}

/// Asks for a fresh token and shows it to the relay.
///
/// # Errors
/// Those of [`Session::show`] and [`Session::renewed`], and [`Error::Token`]: the source gives no token.
async fn renew_once(session: &Weak<Session>, tokens: &Tokens) -> Result<Duration, Error> {
    let token = tokens.fresh().await?;
    let answer = session.upgrade().ok_or_else(super::over)?.show(&token).await?;
    let renewed = answer.await.map_err(|_dropped| super::over())?;
    session.upgrade().ok_or_else(super::over)?.renewed(token, renewed)
}
