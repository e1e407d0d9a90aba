//! Forms of the page: each has the token of its session.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use url::form_urlencoded;

use super::session::SessionKey;
use super::{MAX_FORM_BYTES, Message};
use crate::guard::{self, is_foreign};

/// The decision on a call.
#[derive(Deserialize)]
pub(super) struct Decision {
    pub(super) decision: String,
    /// The hash of the question that the person saw.
    pub(super) question: String,
    #[serde(default)]
    pub(super) reason: String,
}

/// Returns the request if its form is one of the session's.
///
/// # Errors
/// The answer to one that is not.
pub(super) async fn checked(request: Request, session: &SessionKey) -> Result<Request, Box<Response>> {
    let refused = |status| {
        let text = "The answer did not come from a form of this page. Go back, load the page again, and answer there.";
        Box::new(guard::page(status, &Message::new(&session.form_token, "Nothing was changed", text)))
    };
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_FORM_BYTES).await.map_err(|_| refused(StatusCode::PAYLOAD_TOO_LARGE))?;
    let token = form_urlencoded::parse(&body).find(|(name, _)| name == "form").map(|(_, value)| value.into_owned());
    if is_foreign(&parts.headers) || !token.is_some_and(|token| session.is_of(&token)) {
        return Err(refused(StatusCode::FORBIDDEN));
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}
