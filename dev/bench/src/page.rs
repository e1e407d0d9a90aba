//! Measures what the page costs: a call while a browser shows its run, and the list of many runs.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use host_client::page::LocalPage;
use host_client::{Client, ExecuteRequest, Host, LimitName, LocalRelay};
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::{Response, StatusCode};
use tokio::task::JoinSet;

use crate::measure::tools;
use crate::report::{Table, Times, micros};

/// Code that makes as many calls as its input says, one after the other.
const CALLS: &str = "const n = Number(read_input()); for (let i = 0; i < n; i++) await mcp.call('bench.echo', {n: i})";
/// Number of calls of one execution: so many that the browser loads its view several times meanwhile.
const COUNT: u32 = 5_000;

/// A browser that has opened a page.
#[derive(Clone)]
pub(crate) struct Browser {
    http: reqwest::Client,
    origin: String,
    cookie: String,
}

impl Browser {
    /// Opens a page with its address.
    pub(crate) async fn open(address: &str) -> anyhow::Result<Self> {
        let (origin, token) = address.split_once("/#").context("the address has no token")?;
        let host = origin.trim_start_matches("http://").split(':').next().context("the address has no host")?;
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .resolve(host, (Ipv4Addr::LOCALHOST, 0).into())
            .build()?;
        let sign_in = http.post(format!("{origin}/")).header("origin", origin);
        let sign_in =
            sign_in.header("content-type", "application/x-www-form-urlencoded").body(format!("token={token}"));
        let answer = sign_in.send().await?;
        let cookie = answer.headers().get(SET_COOKIE).context("the page does not open")?.to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { http, origin: origin.to_owned(), cookie })
    }

    async fn get(&self, path: &str) -> anyhow::Result<Response> {
        let answer = self.http.get(format!("{}{path}", self.origin)).header(COOKIE, &self.cookie).send().await?;
        ensure!(answer.status() == StatusCode::OK, "{path} answers {}", answer.status());
        Ok(answer)
    }

    /// Loads a view.
    pub(crate) async fn view(&self, path: &str) -> anyhow::Result<String> {
        Ok(self.get(path).await?.text().await?)
    }

    /// Shows the newest run, and loads its view again whenever the page tells of a change, as the page's script does. Adds to
    /// `loaded` with each.
    async fn shows_newest(self, loaded: &AtomicU32) -> anyhow::Result<()> {
        let mut changes = self.get("/changes").await?;
        while changes.chunk().await?.is_some() {
            let list = self.view("/live").await?;
            let newest = list.split("href=\"/live/").nth(1).and_then(|rest| rest.split('"').next());
            if let Some(newest) = newest {
                self.view(&format!("/live/{newest}")).await?;
                loaded.fetch_add(1, Ordering::Relaxed);
            }
        }
        anyhow::bail!("the page has ended")
    }
}

/// Measures calls of a host with an open page and of one without, in turns.
pub(crate) async fn calls(binary: &Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    let relay = LocalRelay::builder().binary(binary).limit(LimitName::ToolCalls, COUNT.into()).start().await?;
    let page = LocalPage::open((Ipv4Addr::LOCALHOST, 0).into(), |page| page).await?;
    let plain = Client::connect(relay.client_config().await?, tools()?).await?;
    let watched = page.watch(Host::new(tools()?));
    let watched = Client::connect(relay.client_config().await?, watched).await?;
    let mut window = JoinSet::new();
    window.spawn(Browser::open(page.address()).await?.shows_newest(&LOADED));
    let time = async |client: &Client| -> anyhow::Result<Duration> {
        let started = Instant::now();
        client.run(ExecuteRequest::new(CALLS).io(COUNT.to_string())).await?;
        Ok(started.elapsed() / COUNT)
    };
    let (mut with, mut without, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2 + 40 / scale {
        let first = if round % 2 == 0 { &watched } else { &plain };
        let second = if round % 2 == 0 { &plain } else { &watched };
        let (one, other) = (time(first).await?, time(second).await?);
        let (seen, unseen) = if round % 2 == 0 { (one, other) } else { (other, one) };
        // The first rounds warm up.
        if round >= 2 {
            with.push(seen);
            without.push(unseen);
            ratios.push(seen.as_secs_f64() / unseen.as_secs_f64());
        }
    }
    if let Some(ended) = window.try_join_next() {
        ended??;
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios.get(ratios.len() / 2).context("nothing was measured")?;
    let both = format!("{:.0} / {:.0} µs", micros(Times::new(with).median()), micros(Times::new(without).median()));
    table.note("a sequential call while a browser shows its run / without a page", both);
    table.at_most("the same, median of the ratios", *ratio, 1.02, "×");
    table.note("times that the browser loaded the view", LOADED.load(Ordering::Relaxed).to_string());
    Ok(())
}
