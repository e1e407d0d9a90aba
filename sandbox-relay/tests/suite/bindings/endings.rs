//! Output and writes to the store reach the host, whatever ended the run.

use host_client::{ErrorCode, ExecuteRequest, LimitName};

use crate::support::Fixture;

#[tokio::test]
async fn what_was_printed_arrives_whatever_ends_the_run() {
    let fixture = Fixture::start(&[]).await;
    let spin = "for (;;) {}";
    let endings = [
        (spin, LimitName::CpuMs, 200, ErrorCode::CpuLimit),
        (spin, LimitName::WallMs, 200, ErrorCode::Timeout),
        ("await mcp.call('test.wait', { ms: 600_000 })", LimitName::WallMs, 200, ErrorCode::Timeout),
        (
            "const a = []; for (;;) a.push(Array(1_000).fill(0.5))",
            LimitName::HeapBytes,
            16 << 20,
            ErrorCode::MemoryLimit,
        ),
        ("const f = () => f() + 1; f()", LimitName::WallMs, 5_000, ErrorCode::EvalError),
        ("for (;;) console.log('more')", LimitName::OutputCount, 50, ErrorCode::OutputLimit),
        ("await new Promise(() => {})", LimitName::WallMs, 5_000, ErrorCode::Unsettled),
    ];
    for (ending, limit, value, expected) in endings {
        for lines in [1, 3, 20] {
            let code = format!(
                "for (let i = 0; i < {lines}; i++) {{ console.log('before', i); store.set('k' + i, i) }}\n{ending}"
            );
            let request = ExecuteRequest::new(code.as_str()).bindings(["console", "store"]).limit(limit, value);
            let error = fixture.run_request(request).await.unwrap_err();
            assert!(error.code == expected, "{code}: {error}");
            let printed = error.output.iter().take(lines).map(|item| item.text.clone());
            assert_eq!(
                printed.collect::<Vec<_>>(),
                (0..lines).map(|i| format!("before {i}")).collect::<Vec<_>>(),
                "{code}"
            );
            let request = ExecuteRequest::new(
                "const all = store.keys().length; for (const k of store.keys()) store.delete(k); return all",
            );
            let stored = fixture.run_request(request.bindings(["store"])).await.unwrap();
            assert_eq!(stored.parse::<usize>().unwrap(), lines, "{code}");
        }
    }
}
