//! TypeScript itself as the judge of stripped types: installed from npm on demand, into the target folder.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use relay_script::prepare;
use serde_json::{Value, json};

/// Files of the installed compiler: its pins, and the program that runs it.
const PINS: [&str; 3] = ["package.json", "package-lock.json", "judge.mjs"];

/// Makes statements of a text, whatever it holds: of two, none can be the whole program.
const LEAD: &str = "0;0;\n";

/// Messages with which we refuse code that TypeScript prints. The first three have tests of their own; for the others
/// TypeScript reports an error, too, but prints all the same.
const OPEN: [&str; 5] =
    ["available", "angle brackets", "export its program", "ambient contexts", "Line terminator not permitted"];

/// A text to compare.
#[derive(Debug)]
pub(crate) struct Case {
    source: String,
    stripped: Result<String, String>,
    run: bool,
}

/// The texts that we have to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// All.
    All,
    /// Those that TypeScript takes; for the others it is open.
    WhatTypeScriptTakes,
    /// Those that TypeScript takes and that hold nothing that is refused.
    WhatBothTake,
}

impl Case {
    pub(crate) fn statements(text: impl Into<String>) -> Self {
        Self::module(format!("{LEAD}{}", text.into()))
    }

    pub(crate) fn module(source: String) -> Self {
        let stripped = stripped(&source);
        Self { source, stripped, run: false }
    }

    /// Compares what the texts return instead of their trees.
    pub(crate) fn run(text: String) -> Self {
        Self { run: true, ..Self::statements(text) }
    }
}

/// The author's text in what is prepared, its types blanked.
pub(crate) fn stripped(source: &str) -> Result<String, String> {
    const EXPORT: &str = "\n;export default 0;";
    // A module with exports needs one to run. Its first characters may belong to the statement before it.
    if let Ok(prepared) = prepare(&format!("{source}{EXPORT}")) {
        return Ok(prepared.module[..prepared.module.len() - EXPORT.len()].to_owned());
    }
    let module = prepare(source).map_err(|error| error.to_string())?.module;
    let inner = module.strip_prefix("export default async () => {\n").and_then(|inner| inner.strip_suffix("\n}"));
    Ok(inner.unwrap_or(&module).to_owned())
}

/// Asks TypeScript about all cases at once.
///
/// # Panics
/// It finds a difference.
pub(crate) fn compare(cases: Vec<Case>, taken: Taken) {
    for case in &cases {
        if let (Ok(stripped), false) = (&case.stripped, case.run) {
            let lines = |text: &str| -> Vec<usize> { text.lines().map(|line| line.encode_utf16().count()).collect() };
            if !case.source.contains("enum") && !case.source.contains("```") {
                assert_eq!(lines(&case.source), lines(stripped), "{}\n---\n{stripped}", case.source);
            }
        }
    }
    let input: Vec<Value> = cases
        .iter()
        .map(|case| json!({ "source": case.source, "stripped": case.stripped.as_ref().ok(), "run": case.run }))
        .collect();
    let mut judge = Command::new("node");
    judge.arg("judge.mjs").current_dir(installed()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut judge = judge.spawn().unwrap();
    // Closed when it is written.
    judge.stdin.take().unwrap().write_all(&serde_json::to_vec(&input).unwrap()).unwrap();
    let output = judge.wait_with_output().unwrap();
    assert!(output.status.success());
    let differences: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let mut failures = Vec::new();
    for difference in &differences {
        let case = &cases[usize::try_from(difference["index"].as_u64().unwrap()).unwrap()];
        let why = difference["why"].as_str().unwrap();
        match (&case.stripped, taken) {
            (Ok(_), Taken::WhatTypeScriptTakes | Taken::WhatBothTake) if why.starts_with("TypeScript refuses") => {}
            (Err(error), Taken::WhatTypeScriptTakes | Taken::WhatBothTake)
                if OPEN.iter().any(|reason| error.contains(reason)) => {}
            (stripped, _) => {
                failures.push(format!("{why}\n--- the source: {:?}\n{}", stripped.as_ref().err(), case.source))
            }
        }
    }
    let few: Vec<String> = failures.iter().take(12).map(|failure| failure.chars().take(1_200).collect()).collect();
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), few.join("\n=====\n"));
}

/// The sources of a library that is written in TypeScript.
pub(crate) fn corpus() -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![installed().join("node_modules/zod/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ts") {
                files.push(without_imports(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    files
}

/// Without what is refused before anything else is looked at. In these files each begins a line and ends in a
/// semicolon.
fn without_imports(text: &str) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        let begins = ["import ", "export * ", "export {", "export type {"].iter().any(|word| line.starts_with(word));
        inside |= begins;
        if !inside {
            kept.push_str(line);
        }
        inside &= !line.trim_end().ends_with(';');
    }
    kept
}

fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/typescript");
        // Each set of pins has its folder, so that working copies with different ones can share a target folder.
        let mut pins = DefaultHasher::new();
        PINS.iter().for_each(|name| fs::read(source.join(name)).unwrap().hash(&mut pins));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("typescript-{:016x}", pins.finish()));
        fs::create_dir_all(&folder).unwrap();
        // Several test programs may want it at the same time.
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        let done = folder.join("done");
        if !done.exists() {
            for name in PINS {
                fs::copy(source.join(name), folder.join(name)).unwrap();
            }
            let mut install = Command::new("npm");
            install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
            let output = install.output().unwrap_or_else(|error| panic!("npm has to be on the PATH: {error}"));
            assert!(output.status.success(), "is the registry reachable?\n{}", String::from_utf8_lossy(&output.stderr));
            File::create(done).unwrap();
        }
        folder
    })
}
