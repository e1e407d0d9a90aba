//! Compares tables with the code and the programs: codes, limits, settings, flags, caps, figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use host_client::{Client, LocalRelay, Policy, Tools};
use relay_proto::code::warning;
use relay_proto::{ErrorCode, LimitName, frame};

use crate::pages::{Page, page, root};
use crate::programs::{flags, program};

/// Limits the length of the README, in lines.
const README_LINES: usize = 220;

/// Returns the first cells of all rows of the tables that have these columns.
fn first_cells<'a>(page: &'a Page, header: &[&str]) -> Vec<&'a str> {
    let tables = page.tables.iter().filter(|table| table.has_columns(header));
    tables.flat_map(|table| table.rows.iter().map(|row| row[0].as_str())).collect()
}

#[test]
fn the_readme_is_short_and_lists_its_sections() {
    let readme = page("README.md");
    let lines = readme.text.lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines; {README_LINES} are its most: move things to docs/");
    let listed: Vec<_> = readme.links.iter().filter_map(|link| link.target.strip_prefix('#')).collect();
    assert_eq!(readme.anchors[1..], listed);
}

#[test]
fn every_error_code_and_every_warning_has_its_line() {
    let page = page("docs/troubleshooting.md");
    let found = first_cells(&page, &["code", "what it means", "what to do"]);
    let codes: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    let warnings = [
        warning::UNHANDLED_REJECTION,
        warning::TOOL_CALLS_CANCELLED,
        warning::LIMIT_CLAMPED,
        warning::STORE_FULL,
        warning::VALUE_CHANGED,
        warning::HINT,
    ];
    assert_eq!(found, [codes.as_slice(), &warnings].concat(), "in the order of relay_proto::ErrorCode::ALL");
    for table in page.tables.iter().filter(|table| table.header[0] == "code") {
        for row in &table.rows {
            assert!(row.len() == 3 && row.iter().all(|cell| cell.len() > 3), "{row:?} does not say enough");
        }
    }
}

/// Reads `64 MiB`, `120,000` or `10 MiB + 4 KiB` as a number.
fn number(text: &str) -> u64 {
    let one = |text: &str| {
        let (digits, unit) = text.split_once(' ').unwrap_or((text, ""));
        let unit = match unit {
            "" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            other => panic!("{text:?} has the unit {other:?}"),
        };
        digits.replace(',', "").parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is no number")) * unit
    };
    text.split(" + ").map(one).sum()
}

#[test]
fn every_limit_has_its_default_and_maximum() {
    let readme = page("README.md");
    let table = readme.table(&["name", "bounds", "default", "maximum"]);
    let found: Vec<_> = table.rows.iter().map(|row| (row[0].as_str(), number(&row[2]), number(&row[3]))).collect();
    let limits = LimitName::ALL.iter().map(|limit| (limit.as_str(), limit.default_value(), limit.maximum()));
    assert_eq!(found, limits.collect::<Vec<_>>());
}

#[test]
fn every_cap_of_the_wire_is_the_one_that_holds() {
    let proto = fs::read_to_string(root().join("proto/relay.proto")).unwrap();
    let payloads = proto.split("oneof payload {").nth(1).unwrap().split('}').next().unwrap();
    // `ToolCall tool_call = 1;      // relay to host`
    let fields: BTreeMap<&str, u32> = payloads
        .lines()
        .filter_map(|line| line.split(';').next()?.trim().split_once(" = "))
        .map(|(names, field)| (names.split(' ').next_back().unwrap(), field.parse().unwrap()))
        .collect();
    let page = page("docs/wire.md");
    let mut described = BTreeSet::new();
    for row in &page.table(&["message", "bytes"]).rows {
        for name in row[0].split(", ") {
            let cap = frame::cap(fields[name]).unwrap();
            assert_eq!(number(&row[1]), cap.bytes as u64, "{name}");
            described.insert(name);
        }
    }
    assert_eq!(described, fields.into_keys().collect(), "every message has a cap");
}

#[test]
fn every_figure_of_the_readme_is_one_of_all_figures() {
    let (readme, figures) = (page("README.md"), page("docs/figures.md"));
    let short = readme.table(&["", ""]);
    assert_eq!(short.rows.len(), 5, "five lines");
    for row in &short.rows {
        assert!(figures.tables[0].rows.contains(row), "{row:?} is none of docs/figures.md");
    }
}

/// The relay's own tests compare the settings with their page; this test compares the other flags.
#[test]
fn every_flag_of_the_relay_is_described() {
    let (page, settings) = (page("docs/running-the-relay.md"), page("docs/settings.md"));
    let table = page.table(&["flag", "environment"]);
    let of_settings = settings.table(&["flag", "variable"]);
    let mut described: BTreeSet<&str> = table.rows.iter().chain(&of_settings.rows).map(|row| row[0].as_str()).collect();
    assert!(described.remove("none"), "the secret has no flag");
    let flags: BTreeSet<String> =
        flags("sandbox-relay", &["serve"]).into_iter().map(|flag| format!("--{}", flag.name)).collect();
    assert_eq!(described, flags.iter().map(String::as_str).collect());
    assert!(["[limits]", "[max_limits]"].iter().all(|name| page.text.contains(name)));
}

/// Finds the names in an error such as ``unknown field: found `x`, expected one of `a`, `b` ``.
fn expected_names(error: &str) -> BTreeSet<String> {
    let expected = error.split_once("expected ").unwrap_or_else(|| panic!("{error}")).1;
    let is_name = |text: &&str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    let names: BTreeSet<String> = expected.split('`').filter(is_name).map(str::to_owned).collect();
    assert!(!names.is_empty(), "{error}");
    names
}

#[test]
fn every_key_of_a_policy_is_described() {
    let page = page("docs/policies-and-approvals.md");
    let whole = page.blocks.iter().find(|block| block.language() == "toml").unwrap();
    for table in ["", "[default]", "[[rule]]", "[phase]", "[phase.write]", "[budget]", "[budget.tools.\"a.*\"]"] {
        let error = Policy::parse(&format!("{table}\nno_such_key = 1\n"), "policy.toml").unwrap_err().to_string();
        for name in expected_names(&error) {
            let key = format!("{name} = ");
            let heading = ["[", "[[", "."].map(|start| format!("{start}{name}"));
            let is_there = whole.text.contains(&key) || heading.iter().any(|heading| whole.text.contains(heading));
            assert!(is_there, "{table} {name} is not in the example");
            assert!(page.text.contains(&format!("`{name}`")) || whole.text.contains(&heading[0]), "{table} {name}");
        }
    }
    let error = Policy::parse("[manifest.\"a.*\"]\nno_such_key = 1\n", "policy.toml").unwrap_err().to_string();
    let described = first_cells(&page, &["key of [manifest.\"pattern\"]"]).into_iter().map(str::to_owned).collect();
    assert_eq!(expected_names(&error), described);
    let error = Policy::parse("[[rule]]\nno_such_key = 1\n", "policy.toml").unwrap_err().to_string();
    let described = first_cells(&page, &["key of [[rule]]"]).into_iter().map(str::to_owned).collect();
    assert_eq!(expected_names(&error), described);
}

#[test]
fn every_flag_of_relay_host_is_described_and_no_other() {
    let (commands, mcp) = (page("docs/command-line.md"), page("docs/mcp-and-openapi.md"));
    let mut known = BTreeSet::new();
    for command in [
        &["run"][..],
        &["runs", "list"],
        &["runs", "approve"],
        &["runs", "deny"],
        &["runs", "resume"],
        &["runs", "links"],
        &["call"],
        &["repl"],
        &["tools"],
        &["serve-mcp"],
        &["audit", "show"],
        &["audit", "verify"],
    ] {
        for flag in flags("relay-host", command) {
            let name = format!("`--{}", flag.name);
            let own = if command == ["serve-mcp"] { &mcp.text } else { &commands.text };
            assert!(own.contains(&name) || commands.text.contains(&name), "{command:?} --{}", flag.name);
            if let Some(variable) = &flag.variable {
                assert!(commands.text.contains(variable) || mcp.text.contains(variable), "{variable}");
            }
            known.insert(flag.name);
        }
    }
    for page in [&commands, &mcp] {
        for cell in first_cells(page, &["flag"]).iter().flat_map(|cell| cell.split(" or ")) {
            let Some(name) = cell.strip_prefix("--") else { continue };
            let name = name.split([' ', '=']).next().unwrap();
            assert!(known.contains(name), "{}: there is no flag --{name}", page.name);
        }
    }
}

#[test]
fn every_flag_of_ui_is_described() {
    let page = page("docs/page.md");
    let described: BTreeSet<_> = first_cells(&page, &["flag of ui"])
        .into_iter()
        .map(|cell| cell.split(' ').next().unwrap().to_owned())
        .collect();
    let flags: BTreeSet<_> = flags("relay-host", &["ui"]).into_iter().map(|flag| format!("--{}", flag.name)).collect();
    assert_eq!(described, flags);
}

#[test]
fn every_claim_of_a_token_is_described() {
    let source = fs::read_to_string(root().join("sandbox-relay/src/auth.rs")).unwrap();
    let (_, claims) = source.split_once("struct Claims {").unwrap();
    let (claims, _) = claims.split_once('}').unwrap();
    let fields = claims.lines().filter_map(|line| Some(line.trim().split_once(": ")?.0));
    let mut read: BTreeSet<_> = fields.filter(|field| field.chars().all(|it| it.is_ascii_lowercase())).collect();
    assert!(read.len() > 6, "{read:?}");
    // The library checks `nbf` only if told to.
    assert!(source.contains("validate_nbf: true"));
    read.insert("nbf");
    let page = page("docs/tokens-and-tls.md");
    assert_eq!(first_cells(&page, &["claim", "required", "meaning"]).into_iter().collect::<BTreeSet<_>>(), read);
}

#[test]
fn every_flag_of_token_is_described() {
    let page = page("docs/tokens-and-tls.md");
    let own = first_cells(&page, &["flag of token"]);
    let own: BTreeSet<_> = own.iter().map(|cell| cell.split(' ').next().unwrap()).collect();
    let of_serve: BTreeSet<_> = flags("sandbox-relay", &["serve"]).into_iter().map(|flag| flag.name).collect();
    let flags = flags("sandbox-relay", &["token"]);
    // The flags of keys are those of `serve`. Both commands have `--jit`, with different meanings.
    let expected = flags.iter().filter(|flag| !of_serve.contains(&flag.name) || flag.name == "jit");
    let expected: Vec<_> = expected.map(|flag| format!("--{}", flag.name)).collect();
    assert_eq!(own, expected.iter().map(String::as_str).collect());
}

#[test]
fn every_feature_of_the_library_is_described() {
    let manifest = fs::read_to_string(root().join("host-client/Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let features = manifest["features"].as_table().unwrap();
    let defaults = features["default"].as_array().unwrap();
    let page = page("docs/rust.md");
    let described: BTreeMap<&str, &str> =
        page.table(&["feature", "default"]).rows.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    // The other features are for the tests of this repository and for the program.
    let own = ["default", "cli", "fuzzing", "bench"];
    for feature in features.keys().filter(|name| !own.contains(&name.as_str())) {
        let default = if defaults.iter().any(|it| it.as_str() == Some(feature)) { "on" } else { "off" };
        assert_eq!(described.get(feature.as_str()), Some(&default), "{feature}");
    }
}

/// Messages that other programs print.
const FOREIGN: [&str; 1] = ["linker cc not found"];

#[test]
fn every_message_that_is_explained_is_one_that_is_written() {
    let mut sources = String::new();
    for folder in ["host-client", "proto/src", "sandbox-relay/src"] {
        read_sources(&root().join(folder), &mut sources);
    }
    let page = page("docs/troubleshooting.md");
    // Rows that begin with a message, between backticks.
    let messages = page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(text, _)| text);
    let messages: Vec<_> = messages.filter(|text| text.contains(' ') && !text.contains("sandbox-relay ")).collect();
    assert!(messages.len() > 10, "{messages:?}");
    for message in messages.iter().filter(|message| !FOREIGN.contains(message)) {
        for part in message.split('…').map(str::trim).filter(|part| part.len() > 1) {
            assert!(sources.contains(part), "{message:?}: nothing says {part:?}");
        }
    }
}

/// Reads all Rust files below a folder. Joins texts that continue in the next line.
fn read_sources(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut parts = text.split("\\\n");
            sources.push_str(parts.next().unwrap());
            parts.for_each(|part| sources.push_str(part.trim_start()));
        }
    }
}

#[tokio::test]
async fn every_binding_that_a_relay_offers_is_described() {
    let relay = LocalRelay::start_with(program("sandbox-relay"), &[], &[]).await.unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), Tools::new()).await.unwrap();
    let page = page("docs/code.md");
    let described: BTreeSet<_> = first_cells(&page, &["binding"]).into_iter().collect();
    assert_eq!(described, client.offered().iter().map(String::as_str).collect());
}
