//! The pages of links: a GET shows the call, a POST with the token of the page's form decides.

use std::sync::Arc;

use askama::Template;
use aws_lc_rs::{hmac, rand};
use axum::Router;
use axum::extract::{Form, Path, State};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_client_core::RunError;
use host_client_core::runs::RunVerdict;
use http::header::{COOKIE, HeaderMap, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::question::Question;
use super::{ApprovalLinks, Token};
use crate::decision::{self, Decision};
use crate::guard::{self, Hosts, NotePage, guarded, is_foreign};
use crate::open::Decided;
use crate::shown::{Shown, Text, seconds};

/// The cookie that belongs to the form's token.
const FORM_COOKIE: &str = "approval_form";

/// The page of a question.
#[derive(Template)]
#[template(path = "question.html")]
struct QuestionPage {
    tool: Shown,
    description: Text,
    rule: Shown,
    run: Option<(String, u64)>,
    line: Option<usize>,
    arguments: Text,
    /// `true`: something is not shown whole, and the call cannot be approved here.
    is_shortened: bool,
    code: Text,
    expires: String,
    form_token: String,
}

/// The form of a question's page.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    form: String,
    #[serde(flatten)]
    decision: Decision,
}

/// Returns the router of the pages.
pub(super) fn router(links: ApprovalLinks) -> Router {
    let base = &links.0.base;
    let port = base.port().map(|port| format!(":{port}")).unwrap_or_default();
    let hosts = Hosts { named: Arc::new([format!("{}{port}", base.host_str().unwrap_or_default())]), own: None };
    Router::new()
        .route("/approve/{token}", get(show).post(decide))
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
    form: Result<Form<Answer>, axum::extract::rejection::FormRejection>,
) -> Response {
    let Some(token) = links.read(&text) else { return refused() };
    let Ok(Form(form)) = form else {
        return guard::page(StatusCode::BAD_REQUEST, &INVALID);
    };
    if is_foreign(&headers) || !links.is_own_form(&text, &headers, &form.form) {
        return guard::page(StatusCode::FORBIDDEN, &FORGED);
    }
    let verdict = match form.decision.verdict() {
        Ok(verdict) => verdict,
        Err(unclear) => {
            let note = NotePage { title: "Nothing was decided", text: &unclear.to_string() };
            return guard::page(StatusCode::BAD_REQUEST, &note);
        }
    };
    if verdict == RunVerdict::Approve {
        match links.question(&token).await {
            Ok(Some(question)) if question.is_shortened() => return guard::page(StatusCode::CONFLICT, &SHORTENED),
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

const APPROVED: NotePage<'_> =
    NotePage { title: "Approved", text: "The call is made, with exactly the arguments that were shown." };
const DENIED: NotePage<'_> = NotePage { title: "Denied", text: "The call is not made." };
const DECIDED: NotePage<'_> = NotePage {
    title: "Already decided",
    text: "Somebody else has decided before, or the call does not wait any more. Your answer changes nothing.",
};
const SHORTENED: NotePage<'_> = NotePage { title: "Not approved", text: decision::SHORTENED };
const REFUSED: NotePage<'_> = NotePage {
    title: "This link does not work",
    text: "It has expired, was used, or is not whole. Ask whoever sent it for the call's state.",
};
const FORGED: NotePage<'_> = NotePage {
    title: "Nothing was decided",
    text: "The answer did not come from the page of this link. Open the link again, allow its cookie, and answer there.",
};
const INVALID: NotePage<'_> = NotePage {
    title: "Nothing was decided",
    text: "The answer cannot be read. Open the link again, and answer there.",
};
const FAILED: NotePage<'_> = NotePage {
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
        Self {
            is_shortened: question.is_shortened(),
            tool: question.tool,
            description: question.description,
            rule: question.rule,
            run: question.run.map(|(run, call)| (run.to_string(), call)),
            line: question.line,
            arguments: question.arguments,
            code: question.code,
            expires: seconds(token.expires_s),
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
