//! The page of a journal and an audit log: runs, approvals that wait, records.
//!
//! - `session`: who may see it; `list`, `run`, `live`, `approvals`, `audit`, `study`: the views; `waterfall`: the times of a run's calls
//! - `form`: the check of what is sent; `changes`: tells browsers that a view has changed

mod approvals;
mod audit;
mod changes;
mod form;
mod list;
mod live;
mod run;
mod session;
mod study;
mod waterfall;

use std::path::PathBuf;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use host_client_core::RunError;
use host_client_core::durable::{Journal, JournalError};
use host_client_core::watch::Watch;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::approver::PageApprover;
use crate::guard::{self, Hosts, NotePage, guarded, is_foreign};
use crate::live::Live;
use crate::open::OpenQuestions;
use session::{Frame, SessionKey, Sessions, random_name};

/// The maximum number of browser windows that wait for changes.
const MAX_STREAMS: usize = 32;
/// What the name of a session's cookie begins with. The rest is random, so that two pages do not overwrite each other's.
const COOKIE_NAME: &str = "relay_page";

/// The page of a journal and an audit log, for one person: its runs, the calls that wait for an approval, the records.
///
/// Whoever opens it needs the one-time token of [`Page::token`] first. It shows what the journal has and does not run
/// anything: decisions go into the journal, for the process that goes on with the run.
///
/// ```no_run
/// use std::sync::Arc;
/// use host_client_journal::SqliteJournal;
/// use host_client_page::Page;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Arc::new(SqliteJournal::open("agent/journal.db").await?);
/// let page = Page::new(journal)?.audit("agent/audit.jsonl").by("Ada");
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// println!("open {}", page.local_address(listener.local_addr()?.port()));
/// axum::serve(listener, page.router()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Page(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    /// `None`: it has the runs of this process alone.
    journal: Option<Arc<dyn Journal>>,
    /// The runs of this process; `None`: it shows those of the journal alone.
    live: Option<Arc<Live>>,
    questions: Arc<OpenQuestions>,
    audit: Option<PathBuf>,
    study: Option<PathBuf>,
    by: String,
    hosts: Vec<String>,
    is_tls: bool,
    /// The name by which browsers of this machine reach the page. Browsers send cookies to every port of a host: under a
    /// name that other programs do not know, none of them gets the session's.
    own_host: Arc<str>,
    cookie_name: String,
    token: String,
    sessions: Arc<Sessions>,
    /// Held while an audit log is read, so that one is read at a time.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// The places of browsers that wait for changes.
    streams: Arc<Semaphore>,
}

/// The operating system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("there are no random numbers")]
pub struct NoRandom;

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("by", &self.0.by).finish_non_exhaustive()
    }
}

impl Page {
    /// Makes the page of a journal.
    ///
    /// # Errors
    /// [`NoRandom`].
    pub fn new(journal: Arc<dyn Journal>) -> Result<Self, NoRandom> {
        Self::of(Some(journal), None)
    }

    /// Makes the page of what a host runs from now on, whether it is durable or not. `watch` is that of
    /// [`Host::watch`](host_client_core::Host::watch). To be called in a Tokio runtime.
    ///
    /// # Errors
    /// [`NoRandom`].
    pub fn live(watch: &Watch) -> Result<Self, NoRandom> {
        Self::of(None, Some(Live::collect(watch)))
    }

    fn of(journal: Option<Arc<dyn Journal>>, live: Option<Arc<Live>>) -> Result<Self, NoRandom> {
        let (token, sessions) = Sessions::new()?;
        let own_host = format!("{}.localhost", random_name()?).into();
        let cookie_name = format!("{COOKIE_NAME}_{}", random_name()?);
        Ok(Self(Arc::new(Inner {
            journal,
            live,
            questions: Arc::default(),
            audit: None,
            study: None,
            by: "page".into(),
            hosts: Vec::new(),
            is_tls: false,
            own_host,
            cookie_name,
            token,
            sessions: Arc::new(sessions),
            reading: Arc::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        })))
    }

    /// Shows the durable runs of a journal, too.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<dyn Journal>) -> Self {
        Arc::make_mut(&mut self.0).journal = Some(journal);
        self
    }

    /// Returns an approver that asks on this page. Set the name of the person before, with [`Page::by`].
    pub fn approver(&self) -> PageApprover {
        PageApprover::new(&self.0.by, Arc::clone(&self.0.questions), self.0.live.clone())
    }

    fn journal(&self) -> Option<&dyn Journal> {
        self.0.journal.as_deref()
    }

    /// Returns the address of the first view.
    fn first_view(&self) -> &'static str {
        if self.0.live.is_some() { "/live" } else { "/runs" }
    }

    /// Shows the records of this audit log; by default, none.
    #[must_use]
    pub fn audit(mut self, path: impl Into<PathBuf>) -> Self {
        Arc::make_mut(&mut self.0).audit = Some(path.into());
        self
    }

    /// Shows what programs saved in a study, of the file that `cargo xtask study --json` has written; by default, none.
    #[must_use]
    pub fn study(mut self, path: impl Into<PathBuf>) -> Self {
        Arc::make_mut(&mut self.0).study = Some(path.into());
        self
    }

    /// Sets the name of the person who decides, for journal and audit; `page` by default.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).by = name.into();
        self
    }

    /// Admits requests to a further host, with its port if it is not the usual one. The page is behind a proxy with
    /// TLS then, which has to pass the name on in `Host`.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.hosts.push(host.into());
        inner.is_tls = true;
        self
    }

    /// Returns the token that opens one session, once: what follows `#` in the address of the page.
    pub fn token(&self) -> &str {
        &self.0.token
    }

    /// Returns the address, with the token, at which a browser of this machine opens the page if it is served at this port of
    /// `127.0.0.1` or `::1`. Its host is a random name of `localhost`, and no other name of loopback is answered: cookies
    /// are for all ports of a host, so that the session's would go to other programs under `127.0.0.1`.
    pub fn local_address(&self, port: u16) -> String {
        format!("http://{}:{port}/#{}", self.0.own_host, self.0.token)
    }

    /// Returns the page, to be served at the root of an address.
    pub fn router(&self) -> Router {
        let hosts = Hosts { named: self.0.hosts.clone().into(), own: Some(Arc::clone(&self.0.own_host)) };
        let views = Router::new()
            .route("/runs", get(list::show))
            .route("/runs/{id}", get(run::show))
            .route("/runs/{id}/cancel", post(run::cancel))
            .route("/runs/{id}/calls/{call}", post(run::decide))
            .route("/live", get(live::list))
            .route("/live/{name}", get(live::show))
            .route("/approvals", get(approvals::show))
            .route("/questions/{id}", post(approvals::decide))
            .route("/changes", get(changes::tell))
            .route("/audit", get(audit::show))
            .route("/study", get(study::show))
            .route("/sign-out", post(sign_out))
            .layer(middleware::from_fn_with_state(self.clone(), signed_in));
        Router::new()
            .route("/", get(front).post(sign_in))
            .merge(views)
            .route("/assets/page.css", get(guard::style))
            .route("/assets/page.js", get(guard::script))
            .fallback(async || {
                guard::page(StatusCode::NOT_FOUND, &NotePage { title: "Not found", text: "There is no such page." })
            })
            .with_state(self.clone())
            .layer(middleware::from_fn_with_state(hosts, guarded))
    }
}

/// The page at which the token is entered.
#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    is_wrong: bool,
}

/// A page that says one thing.
#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
}

impl<'a> Message<'a> {
    fn new(frame: Frame, title: &'a str, text: &'a str) -> Self {
        Self { frame, title, text }
    }
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

fn cookies<'a>(page: &'a Page, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    pairs.filter(|(name, _)| *name == page.0.cookie_name).map(|(_, value)| value).take(4)
}

async fn front(State(page): State<Page>, headers: HeaderMap) -> Response {
    if cookies(&page, &headers).any(|cookie| page.0.sessions.find(cookie).is_some()) {
        return Redirect::to(page.first_view()).into_response();
    }
    guard::page(StatusCode::OK, &SignIn { is_wrong: false })
}

async fn sign_in(State(page): State<Page>, headers: HeaderMap, Form(form): Form<Token>) -> Response {
    let opened = if is_foreign(&headers) { None } else { page.0.sessions.open(form.token.trim()) };
    let Some(cookie) = opened else {
        return guard::page(StatusCode::UNAUTHORIZED, &SignIn { is_wrong: true });
    };
    let secure = if page.0.is_tls { "; Secure" } else { "" };
    let cookie = format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict{secure}", page.0.cookie_name);
    let mut response = Redirect::to(page.first_view()).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

async fn sign_out(State(page): State<Page>, headers: HeaderMap) -> Response {
    cookies(&page, &headers).for_each(|cookie| page.0.sessions.close(cookie));
    Redirect::to("/").into_response()
}

/// Lets requests with a session pass; those that change something must come from a form of the page.
async fn signed_in(State(page): State<Page>, mut request: Request, next: Next) -> Response {
    let session = cookies(&page, request.headers()).find_map(|cookie| page.0.sessions.find(cookie));
    let Some(session) = session else {
        return guard::page(StatusCode::UNAUTHORIZED, &SignIn { is_wrong: false });
    };
    if *request.method() != Method::GET && *request.method() != Method::HEAD {
        request = match form::checked(&page, request, &session).await {
            Ok(request) => request,
            Err(response) => return *response,
        };
    }
    request.extensions_mut().insert(session);
    next.run(request).await
}

/// Answers a request that failed.
fn failed(page: &Page, session: &SessionKey, error: &RunError) -> Response {
    let (status, title) = match error {
        RunError::Journal(JournalError::Unknown(_)) => (StatusCode::NOT_FOUND, "Not found"),
        RunError::Journal(JournalError::Instructed { .. }) | RunError::NotAsked { .. } => {
            (StatusCode::CONFLICT, "Already decided")
        }
        RunError::OtherQuestion { .. } => (StatusCode::CONFLICT, "Another question"),
        RunError::TooLate { .. } => (StatusCode::CONFLICT, "Too late"),
        RunError::Over(_) => (StatusCode::CONFLICT, "The run is over"),
        RunError::Shortened { .. } => (StatusCode::CONFLICT, "Not approved"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "That did not work"),
    };
    guard::page(status, &Message::new(session.frame(page, ""), title, &error.to_string()))
}
