//! Measures what it costs to look at code (blank its types, find its form), and to make a single call on the host.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host_client::{Client, ExecuteRequest, ToolSpec};
use relay_script::{json, prepare, shortcut};
use relay_test_support::catalogue;

use crate::report::{Table, Times, micros};

/// Part of a program as models write them, about 1 kB.
const PART: &str = r#"
interface Repository_N { id: number; name: string; owner: { login: string; type?: "User" | "Organization" }; topics: string[] }
type Summary_N = Pick<Repository_N, "id" | "name"> & { score: number; labels: Record<string, number> };

async function collect_N(owner: string, limit: number = 10): Promise<Summary_N[]> {
  const found: Summary_N[] = [];
  const pages = await Promise.all(
    [1, 2, 3].map((page: number): Promise<unknown> => mcp.call("github.list_repos", { owner, page, per_page: limit })),
  );
  for (const repository of pages.flat() as Repository_N[]) {
    const labels: Record<string, number> = {};
    for (const topic of repository.topics ?? []) labels[topic] = (labels[topic] ?? 0) + 1;
    if (repository.owner!.type !== "Organization") continue;
    found.push({ id: repository.id, name: repository.name, score: Object.keys(labels).length / 2, labels } satisfies Summary_N);
  }
  return found.sort((a: Summary_N, b: Summary_N) => b.score - a.score).slice(0, limit);
}
"#;

/// Measures how long it takes to recognize code. No relay takes part.
pub(crate) fn code(scale: usize, table: &mut Table) -> anyhow::Result<()> {
    let parts: String = (0..10).map(|n| PART.replace("_N", &format!("_{n}"))).collect();
    let typescript = parts + "\nreturn await collect_0(\"rust-lang\");\n";
    let javascript = prepare(&typescript).map_err(|error| anyhow::anyhow!("{error:?}"))?.module;
    let call = r#"const result = await exa.search({query: "rust async runtimes", limit: 10}); return result;"#;
    let item = |n| format!("{{\"id\":{n},\"name\":\"item {n}\",\"tags\":[\"a\",\"b\"],\"score\":0.{n}}}");
    let result = format!("[{}]", (0..100).map(item).collect::<Vec<_>>().join(","));
    let stripped = median(scale, || prepare(&typescript).is_ok());
    table.at_most(&format!("TypeScript of {} bytes made a module", typescript.len()), micros(stripped), 1_000.0, "µs");
    let note = |table: &mut Table, name: &str, time: Duration| table.note(name, format!("{:.1} µs", micros(time)));
    note(table, &format!("JavaScript of {} bytes", javascript.len()), median(scale, || prepare(&javascript).is_ok()));
    note(table, "code seen to be one call", median(scale, || shortcut(call).is_some()));
    note(table, "code seen to be more", median(scale, || shortcut(&typescript).is_none()));
    let normalized = median(scale, || json::normalize(result.as_bytes()).is_some());
    note(table, &format!("a result of {} bytes as V8 would write it", result.len()), normalized);
    Ok(())
}

/// Returns the median time of many runs.
fn median(scale: usize, run: impl Fn() -> bool) -> Duration {
    let time = || {
        let started = Instant::now();
        black_box(run());
        started.elapsed()
    };
    Times::new((0..2_000 / scale).map(|_| time()).collect()).median()
}

/// Measures one call of a tool that does nothing, on the host and in the sandbox, in turns.
pub(crate) async fn short_paths(client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    const CODE: &str = "return await mcp.call(\"bench.echo\", { n: 7 });";
    const JSON: &str = r#"{"tool": "bench.echo", "arguments": {"n": 7}}"#;
    let (mut code, mut json, mut sandbox) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1_000 / scale {
        for (request, times) in [
            (ExecuteRequest::new(CODE), &mut code),
            (ExecuteRequest::new(JSON), &mut json),
            (ExecuteRequest::new(CODE).always_in_sandbox(), &mut sandbox),
        ] {
            let started = Instant::now();
            let outcome = client.run(request).await?;
            times.push(started.elapsed());
            anyhow::ensure!(&outcome.json[..] == b"7", "{outcome:?}");
        }
    }
    let [code, json, sandbox] = [code, json, sandbox].map(|times| Times::new(times).median());
    table.at_most("code that is one call, made on the host, p50", micros(code), 50.0, "µs");
    table.at_most("a call as JSON, p50", micros(json), 50.0, "µs");
    let ratio = sandbox.as_secs_f64() / code.as_secs_f64();
    table.note("the same code in the sandbox", format!("{ratio:.0} × ({:.0} µs)", micros(sandbox)));
    Ok(())
}

/// Measures how long it takes to check a program of 50 lines before it runs, with 50 tools.
fn checked(client: &Client, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    const LINE: &str =
        "const v_N = (await mcp.call(\"files.read_text_file\", { path: \"a\" })).split(\"\\n\").filter(it => it);\n";
    for listed in catalogue::tools().into_iter().take(50) {
        let spec = ToolSpec::new(listed.name, listed.description, listed.input_schema);
        client.host().tools().add_with(spec, |_, _| std::future::pending())?;
    }
    let request = ExecuteRequest::new((0..50).map(|n| LINE.replace("_N", &format!("_{n}"))).collect::<String>());
    anyhow::ensure!(client.check(&request)?.is_empty(), "the program is right: {:?}", client.check(&request));
    let wrong = ExecuteRequest::new(request.code.replacen("path", "pth", 1));
    anyhow::ensure!(client.check(&wrong)?.len() == 1, "one mistake is in it: {:?}", client.check(&wrong));
    let time = median(scale, || client.check(&request).is_ok());
    table.at_most("a program of 50 lines checked against 50 tools", micros(time), 300.0, "µs");
    Ok(())
}

/// Measures the figures of this module, with a relay for comparison.
pub(crate) async fn all(binary: &std::path::Path, scale: usize, table: &mut Table) -> anyhow::Result<()> {
    code(scale, table)?;
    let (_relay, client) = crate::measure::relay(binary, &[]).await.context("the relay does not start")?;
    short_paths(&client, scale, table).await?;
    checked(&client, scale, table)
}
