//! `ui`: the page of a journal, in a browser.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::folder::Folder;
use super::within;

#[tokio::test]
async fn the_page_opens_with_the_printed_address_and_shows_the_runs() {
    let folder = Folder::new();
    let journal = ["--journal", "runs.db"];
    let ran = folder.run_with("return 6 * 7", &[&["run", "-", "--durable"][..], &journal].concat()).await;
    let id = ran.err.lines().find_map(|line| line.strip_prefix("run ")).unwrap();
    let mut page = folder.command(&[&["ui"][..], &journal].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(page.stdout.take().unwrap()).lines();
    let printed = within(printed.next_line()).await.unwrap().unwrap();
    let (address, token) = printed.split_once("/#").unwrap();
    let host = address.strip_prefix("http://").unwrap().split(':').next().unwrap();
    assert!(host.ends_with(".localhost"), "{printed}");
    // Browsers find it by themselves.
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let http = http.resolve(host, ([127, 0, 0, 1], 0).into()).build().unwrap();
    let request = http.post(format!("{address}/")).header("content-type", "application/x-www-form-urlencoded");
    let signed = within(request.body(format!("token={token}")).send()).await.unwrap();
    let cookie = signed.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let view = within(http.get(format!("{address}/runs/{id}")).header("cookie", cookie).send()).await.unwrap();
    let view = within(view.text()).await.unwrap();
    assert!(view.contains("return 6 * 7") && view.contains("<code>42</code>"), "{view}");
    within(page.kill()).await.unwrap();

    let open = folder.run(&[&["ui", "--listen", "0.0.0.0:0"][..], &journal].concat()).await;
    assert!(open.status == Some(2) && open.err.contains("--host"), "{open:?}");
    folder.run(&["ui", "--journal", "none.db"]).await.says(2, &["there is no journal none.db"]);
}
