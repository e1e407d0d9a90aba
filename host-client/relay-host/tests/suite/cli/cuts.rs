//! A connection that breaks again and again under `run`: the program comes to its end with the right value.

use std::time::Duration;

use host_client::LocalRelay;
use relay_test_support::fault::{Break, FaultProxy, Script};
use serde_json::json;

use super::folder::Folder;
use crate::servers;

#[tokio::test]
async fn a_run_over_a_real_server_survives_a_cut_every_100_ms() {
    let folder = Folder::new();
    let everything = servers::program("mcp-server-everything");
    folder.servers(json!({"everything": {"command": everything, "args": ["stdio"]}}));
    let relay = LocalRelay::start().await.unwrap();
    // Each frame takes 2 ms, so that the run is cut several times on any machine.
    let plan = |number| {
        let how = if number % 2 == 0 { Break::Reset } else { Break::Finish };
        Script::clean().delay(Duration::from_millis(2)).cut_after(Duration::from_millis(100), how)
    };
    let proxy = FaultProxy::start(relay.address(), plan).await.unwrap();
    let token = relay.token(&["--subject", "me"]).await.unwrap();
    let code = "let last = 0;
        for (let n = 1; n <= 200; n++) {
            const text = await mcp.call('everything.get-sum', {a: last, b: n});
            last = Number(text.match(/is (\\d+)/)[1]);
        }
        return last";
    let url = proxy.url();
    let ended = folder.run_with(code, &["run", "-", "--mcp", "mcp.json", "--relay", &url, "--token", &token]).await;
    assert_eq!((ended.status, &*ended.out), (Some(0), "20100\n"), "{ended:?}");
    let cuts = proxy.fates().iter().filter(|fate| fate.broken.is_some()).count();
    assert!(cuts >= 5, "{cuts} cuts");
    assert!(folder.processes().is_empty(), "{:?}", folder.processes());
}
