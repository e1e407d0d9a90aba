use host_client::*;
#[tokio::main]
async fn main() {
    let relay = LocalRelay::start_with("/tmp/tgt/release/sandbox-relay".into(), &[], &[]).await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), Tools::new()).await.unwrap();
    let mut v = vec![];
    for _ in 0..1500 {
        let t = std::time::Instant::now();
        let o = client.run(ExecuteRequest::new("return 1")).await.unwrap();
        v.push((t.elapsed().as_micros(), o.usage.queue.as_micros(), o.usage.wall.as_micros(), o.usage.cpu.as_micros()));
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    for k in [0,1,2,3] { let mut x: Vec<_> = v.iter().map(|t| [t.0,t.1,t.2,t.3][k]).collect(); x.sort(); println!("{} p50 {} p99 {}", ["total","queue","wall","cpu"][k], x[750], x[1480]); }
}
