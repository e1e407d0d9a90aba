//! The pages of links: a GET shows the call, a POST with the token of the page's form decides.

use std::sync::Arc;

use askama::Template;
use aws_lc_rs::{hmac, rand};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Form, Path, State};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_client_core::RunError;
use host_client_core::runs::RunVerdict;
use host_client_core::text::clipped;
use http::header::{COOKIE, HeaderMap, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::open::Decided;
use super::question::Question;
use super::{ApprovalLinks, Token};
use crate::guard::{self, Hosts, guarded, is_foreign};
use crate::shown::{Line, Shown, lines};

/// The maximum length of a form, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
/// The maximum length of a reason, in bytes.
const MAX_REASON_BYTES: usize = 1 << 10;
/// The cookie that belongs to the form's token.
const FORM_COOKIE: &str = "approval_form";

/// The page of a question.
#[derive(Template)]
#[template(path = "question.html")]
struct QuestionPage {
    tool: Shown,
    description: Vec<Line>,
    rule: Shown,
    run: Option<(String, u64)>,
    line: Option<usize>,
    arguments_bytes: usize,
    arguments: Vec<Line>,
    is_shortened: bool,
    code: Vec<Line>,
    expires: String,
    form_token: String,
}

/// A page that says one thing.
#[derive(Template)]
#[template(path = "note.html")]
struct NotePage {
    title: &'static str,
    text: &'static str,
}

/// The form of a question's page.
#[derive(Deserialize)]
struct Decision {
    #[serde(default)]
    form: String,
    decision: String,
    #[serde(default)]
    reason: String,
}

/// Returns the router of the pages.
pub(super) fn router(links: ApprovalLinks) -> Router {
    let base = &links.0.base;
    let port = base.port().map(|port| format!(":{port}")).unwrap_or_default();
    let hosts = Hosts { named: Arc::new([format!("{}{port}", base.host_str().unwrap_or_default())]), own: None };
    Router::new()
        .route("/approve/{token}", get(show).post(decide).layer(DefaultBodyLimit::max(MAX_FORM_BYTES)))
        .route("/approve/assets/page.css", get(guard::style))
        .fallback(async || refused())
        .with_state(links)
        .layer(middleware::from_fn_with_state(hosts, guarded))
}

/// Shows the call. Nothing is decided by it, however often it is asked for.
async fn show(State(links): State<ApprovalLinks>, Path(text): Path<String>) -> Response {
    let Some(token) = links.read(&text) else { return refused() };
    let question = match links.question(&token).await {
        Ok(Some(question)) => question,
        Ok(None) => return refused(),
        Err(error) => return failed(&error),
    };
    let mut cookie = [0; 16];
    if rand::fill(&mut cookie).is_err() {
        return guard::page(StatusCode::SERVICE_UNAVAILABLE, &FAILED);
    }
    let cookie = URL_SAFE_NO_PAD.encode(cookie);
    let page = QuestionPage::new(question, &token, links.form_token(&text, &cookie));
    let mut response = guard::page(StatusCode::OK, &page);
    let secure = if links.0.base.scheme() == "https" { "; Secure" } else { "" };
    let path = format!("{}approve/{text}", links.0.base.path());
    let cookie = format!("{FORM_COOKIE}={cookie}; Path={path}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Decides.
async fn decide(
    State(links): State<ApprovalLinks>,
    Path(text): Path<String>,
    headers: HeaderMap,
    form: Result<Form<Decision>, axum::extract::rejection::FormRejection>,
) -> Response {
    let Some(token) = links.read(&text) else { return refused() };
    let Ok(Form(form)) = form else {
        return guard::page(StatusCode::BAD_REQUEST, &INVALID);
    };
    if is_foreign(&headers) || !links.is_own_form(&text, &headers, &form.form) {
        return guard::page(StatusCode::FORBIDDEN, &FORGED);
    }
    let reason = form.reason.trim();
    let verdict = match form.decision.as_str() {
        "approve" if !reason.is_empty() => return guard::page(StatusCode::BAD_REQUEST, &REASONED),
        "approve" => RunVerdict::Approve,
        "deny" => RunVerdict::Deny { reason: (!reason.is_empty()).then(|| clipped(reason, MAX_REASON_BYTES)) },
        _ => return guard::page(StatusCode::BAD_REQUEST, &INVALID),
    };
    if verdict == RunVerdict::Approve {
        match links.question(&token).await {
            Ok(Some(question)) if question.is_shortened => return guard::page(StatusCode::CONFLICT, &SHORTENED),
            Ok(_) => {}
            Err(error) => return failed(&error),
        }
    }
    let is_approval = verdict == RunVerdict::Approve;
    match links.decide(&token, verdict).await {
        Ok(Decided::Now) if is_approval => guard::page(StatusCode::OK, &APPROVED),
        Ok(Decided::Now) => guard::page(StatusCode::OK, &DENIED),
        Ok(Decided::Before) => guard::page(StatusCode::CONFLICT, &DECIDED),
        Ok(Decided::Over) => refused(),
        Err(error) => failed(&error),
    }
}

const APPROVED: NotePage =
    NotePage { title: "Approved", text: "The call is made, with exactly the arguments that were shown." };
const DENIED: NotePage = NotePage { title: "Denied", text: "The call is not made." };
const DECIDED: NotePage = NotePage {
    title: "Already decided",
    text: "Somebody else has decided before, or the call does not wait any more. Your answer changes nothing.",
};
const SHORTENED: NotePage = NotePage {
    title: "Not approved",
    text: "The arguments are too long to be shown whole, and cannot be approved here. The call still waits.",
};
const REFUSED: NotePage = NotePage {
    title: "This link does not work",
    text: "It has expired, was used, or is not whole. Ask whoever sent it for the call's state.",
};
const FORGED: NotePage = NotePage {
    title: "Nothing was decided",
    text: "The answer did not come from the page of this link. Open the link again, allow its cookie, and answer there.",
};
const REASONED: NotePage = NotePage {
    title: "Nothing was decided",
    text: "A reason is for a denial. To approve the call, go back and empty the field; to deny it, press Deny.",
};
const INVALID: NotePage = NotePage {
    title: "Nothing was decided",
    text: "The answer cannot be read. Open the link again, and answer there.",
};
const FAILED: NotePage = NotePage {
    title: "Nothing was decided",
    text: "The call cannot be looked up at the moment. Try again later; the link still works.",
};

/// Answers a link that does not work, the same whatever the reason is.
fn refused() -> Response {
    guard::page(StatusCode::NOT_FOUND, &REFUSED)
}

fn failed(error: &RunError) -> Response {
    tracing::warn!(%error, "the question of an approval link cannot be looked up");
    guard::page(StatusCode::SERVICE_UNAVAILABLE, &FAILED).into_response()
}

impl QuestionPage {
    fn new(question: Question, token: &Token, form_token: String) -> Self {
        let expires = std::time::UNIX_EPOCH + std::time::Duration::from_secs(token.expires_s);
        Self {
            tool: Shown::line(&question.tool),
            description: lines(&question.description, None),
            rule: Shown::line(&question.rule),
            run: question.run.map(|(run, call)| (run.to_string(), call)),
            line: question.line,
            arguments_bytes: question.arguments.len(),
            arguments: lines(&question.arguments, None),
            is_shortened: question.is_shortened,
            code: lines(&question.code, question.line),
            expires: humantime::format_rfc3339_seconds(expires).to_string(),
            form_token,
        }
    }
}

impl ApprovalLinks {
    /// Returns the token of the form of a link's page, for the browser that has a cookie.
    fn form_token(&self, link: &str, cookie: &str) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0.form_key, format!("{cookie} {link}").as_bytes()))
    }

    /// Returns `true` if the form is that of the link's page, and comes from the browser that was shown it.
    fn is_own_form(&self, link: &str, headers: &HeaderMap, form_token: &str) -> bool {
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let Ok(signature) = URL_SAFE_NO_PAD.decode(form_token) else { return false };
        cookies.filter(|(name, _)| *name == FORM_COOKIE).take(8).any(|(_, cookie)| {
            hmac::verify(&self.0.form_key, format!("{cookie} {link}").as_bytes(), &signature).is_ok()
        })
    }
}
