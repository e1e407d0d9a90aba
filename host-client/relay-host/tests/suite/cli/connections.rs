//! Lost connections: the run goes on, and the terminal says so.

use host_client::LocalRelay;
use relay_test_support::fault::{Break, FaultProxy, Place, Script, Way};

use super::folder::{Ended, Folder};

/// Reads a file 200 times, one call after the other.
const CODE: &str = "
    let bytes = 0;
    for (let i = 0; i < 200; i++) bytes += (await mcp.call('workspace.read', {path: 'note.txt'})).text.length;
    return bytes";

/// Runs the code over connections that are reset before the 30th message to the host. Returns the proxy and the end.
async fn run_through_cuts(more: &[&str]) -> (FaultProxy, Ended) {
    let relay = LocalRelay::start().await.unwrap();
    let token = relay.token(&["--subject", "me"]).await.unwrap();
    let cut = |_| Script::clean().cut(Way::ToHost, 30, Place::Before, Break::Reset);
    let proxy = FaultProxy::start(relay.address(), cut).await.unwrap();
    let folder = Folder::new();
    std::fs::create_dir(folder.path("root")).unwrap();
    folder.file("root/note.txt", "remember the milk");
    let url = proxy.url();
    let named = ["run", "-", "--workspace", "root", "--relay", &url, "--token", &token];
    let ended = folder.run_with(CODE, &[&named, more].concat()).await;
    (proxy, ended)
}

#[tokio::test]
async fn a_run_whose_connections_are_cut_goes_on_and_says_so() {
    let (proxy, ended) = run_through_cuts(&[]).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "3400\n"), "{ended:?}");
    assert!(ended.err.contains("the connection to the relay was lost"), "{ended:?}");
    assert!(ended.err.contains("; trying again for 60 s …"), "{ended:?}");
    assert!(ended.err.contains("the session goes on after 0."), "{ended:?}");
    assert!(proxy.fates().len() > 6, "{:?}", proxy.fates());
}

#[tokio::test]
async fn without_a_window_the_first_cut_ends_the_run() {
    let (proxy, ended) = run_through_cuts(&["--resume-window", "0"]).await;
    assert_ne!(ended.status, Some(0), "{ended:?}");
    assert!(ended.err.contains("SESSION_LOST") && !ended.err.contains("trying again"), "{ended:?}");
    assert_eq!(proxy.fates().len(), 1);
}
