use super::*;

/// Checks when it is compiled that a relay can be shared by tasks, with every set of features.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<LocalRelay>();
};

#[test]
fn a_token_has_what_it_asks_for_else_the_default_and_no_more_than_the_maximum() {
    let builder = LocalRelay::builder()
        .limit(LimitName::WallMs, 5_000)
        .limit(LimitName::CpuMs, 4_000)
        .max_limit(LimitName::CpuMs, 3_000)
        .max_limit(LimitName::ToolCalls, 10)
        .max_limit(LimitName::OutputBytes, 1 << 20);
    let arguments = TokenRequest::new("me").limit(LimitName::ToolCalls, 99).arguments(&builder.grants);
    assert_eq!(
        arguments,
        [
            "--subject=me",
            "--limit=wall_ms=5000",
            "--limit=cpu_ms=3000",
            "--limit=tool_calls=10",
            "--limit=output_bytes=65536"
        ]
    );
    let request = TokenRequest::new("me").ttl(std::time::Duration::from_millis(1_001)).tools(["a.*", "b.c"]).jit(true);
    let arguments = request.limit(LimitName::WallMs, 7).arguments(&Grants::default());
    assert_eq!(arguments, ["--subject=me", "--ttl=2s", "--tools=a.*", "--tools=b.c", "--limit=wall_ms=7", "--jit"]);
}

#[tokio::test]
async fn who_has_no_program_is_told_how_to_get_one() {
    let error = LocalRelay::builder().binary("/nowhere/sandbox-relay").start().await.unwrap_err().to_string();
    for hint in ["/nowhere/sandbox-relay", BINARY_VARIABLE, "cargo install", "in_container"] {
        assert!(error.contains(hint), "{hint}: {error}");
    }
    let error = LocalRelay::builder().binary("/").start().await.unwrap_err().to_string();
    assert!(error.contains("/ cannot be run: ") && error.contains(BINARY_VARIABLE), "{error}");
}
