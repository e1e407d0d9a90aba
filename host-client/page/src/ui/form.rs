//! The check of the page's forms: each has the token of its session.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use url::form_urlencoded;

use super::session::SessionKey;
use super::{Message, Page};
use crate::guard::{self, is_foreign};

/// Returns the request if its form is one of the session's.
///
/// # Errors
/// The answer to one that is not.
pub(super) async fn checked(page: &Page, request: Request, session: &SessionKey) -> Result<Request, Box<Response>> {
    let refused = || {
        let text = "The answer did not come from a form of this page. Go back, load the page again, and answer there.";
        Box::new(guard::page(
            StatusCode::FORBIDDEN,
            &Message::new(session.frame(page, ""), "Nothing was changed", text),
        ))
    };
    let (parts, body) = request.into_parts();
    // It was read before, and is short.
    let body = to_bytes(body, usize::MAX).await.map_err(|_| refused())?;
    let token = form_urlencoded::parse(&body).find(|(name, _)| name == "form").map(|(_, value)| value.into_owned());
    if is_foreign(&parts.headers) || !token.is_some_and(|token| session.is_of(&token)) {
        return Err(refused());
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}
