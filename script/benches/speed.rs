//! How long it takes to prepare a program, and to see that code is one call. Run with `cargo bench -p relay-script`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it prints, and fails by panicking")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use relay_script::{json, prepare, shortcut};

/// A part of a program as models write them, about 1 kB.
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

fn main() {
    let typescript: String = (0..9).map(|n| PART.replace("_N", &format!("_{n}"))).collect::<String>()
        + "\nreturn await collect_0(\"rust-lang\");\n";
    let javascript = prepare(&typescript).unwrap().module;
    let call = r#"const result = await exa.search({query: "rust async runtimes", limit: 10}); return result;"#;
    let object: Vec<String> = (0..100)
        .map(|n| format!("{{\"id\":{n},\"name\":\"item {n}\",\"tags\":[\"a\",\"b\"],\"score\":0.{n}}}"))
        .collect();
    let canonical = format!("[{}]", object.join(","));
    measure(&format!("prepare, TypeScript of {} bytes", typescript.len()), || black_box(prepare(&typescript)).is_ok());
    measure(&format!("prepare, JavaScript of {} bytes", javascript.len()), || black_box(prepare(&javascript)).is_ok());
    measure("shortcut, one call", || black_box(shortcut(call)).is_some());
    measure(&format!("shortcut, none: {} bytes", typescript.len()), || black_box(shortcut(&typescript)).is_none());
    measure(&format!("normalize, {} bytes", canonical.len()), || {
        black_box(json::normalize(canonical.as_bytes())).is_some()
    });
}

/// Prints the median of many runs.
fn measure(name: &str, run: impl Fn() -> bool) {
    const RUNS: usize = 2_000;
    assert!(run());
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            black_box(run());
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{name:40} {:>10.1} µs", times[RUNS / 2].as_secs_f64() * 1e6);
}
