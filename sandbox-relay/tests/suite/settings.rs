//! Every setting, by all ways in which it is given: flag, environment variable, file, default. They have to agree with
//! each other, with `--help` and with `docs/settings.md`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use clap::{Arg, Args as _};
use relay_proto::Limits;
use sandbox_relay::config::ServeArgs;
use serde_json::{Map, Value, json};

use crate::support::binary;

/// Environment variable that makes the test write `docs/settings.md` in place of comparing it.
const WRITE: &str = "RELAY_WRITE_GENERATED";

/// Flags of `serve` that are no settings: the file cannot hold them.
const NO_SETTINGS: [&str; 4] = ["config", "dev", "exit_with_stdin", "log_format"];

fn serve() -> clap::Command {
    ServeArgs::augment_args(clap::Command::new("serve"))
}

fn settings(command: &clap::Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !NO_SETTINGS.contains(&arg.get_id().as_str()))
}

/// Runs the program with these arguments and variables and no other.
fn run(arguments: &[String], variables: &BTreeMap<String, String>) -> String {
    let output = Command::new(binary()).args(arguments).env_clear().envs(variables).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn effective(arguments: &[String], variables: &BTreeMap<String, String>) -> Map<String, Value> {
    let arguments: Vec<_> = ["settings".to_owned()].iter().chain(arguments).cloned().collect();
    serde_json::from_str(&run(&arguments, variables)).unwrap()
}

/// Makes a value for a setting, by the type of its default; `way` tells values of different ways apart.
fn sample(name: &str, default: &Value, way: u8) -> Value {
    match (name, default) {
        ("listen", _) => json!(format!("127.0.0.1:{}", 9_000 + u16::from(way))),
        ("metrics_listen", _) => json!(format!("127.0.0.1:{}", 9_100 + u16::from(way))),
        ("worker_backend", _) => json!(if way.is_multiple_of(2) { "exec" } else { "fork" }),
        (_, Value::Bool(_)) => json!(way.is_multiple_of(2)),
        (_, Value::Number(number)) => json!(number.as_u64().unwrap() + 1 + u64::from(way)),
        (_, Value::Array(_)) => json!([format!("https://{way}.example"), "https://other.example"]),
        (_, Value::Null | Value::String(_)) => json!(format!("/{name}/{way}")),
        _ => panic!("{name} has a default of another type: {default}"),
    }
}

/// Returns a value as a flag or a variable writes it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[test]
fn every_way_to_give_a_setting_gives_it_and_flags_come_first() {
    let (command, none) = (serve(), BTreeMap::new());
    let defaults = effective(&[], &none);
    let (mut file, mut variables, mut flags) = (String::new(), BTreeMap::new(), Vec::new());
    let [mut by_file, mut by_variable, mut by_flag] = [(); 3].map(|()| defaults.clone());
    for arg in settings(&command) {
        let name = arg.get_id().as_str();
        let default = defaults.get(name).unwrap_or_else(|| panic!("{name} is printed"));
        let [in_file, in_variable, in_flag] = [0, 1, 2].map(|way| sample(name, default, way));
        // JSON of these types is TOML, too.
        file.push_str(&format!("{name} = {in_file}\n"));
        variables.insert(format!("RELAY_{}", name.to_uppercase()), text(&in_variable));
        flags.push(format!("--{}={}", name.replace('_', "-"), text(&in_flag)));
        by_file.insert(name.into(), in_file);
        by_variable.insert(name.into(), in_variable);
        by_flag.insert(name.into(), in_flag);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.toml");
    std::fs::write(&path, file).unwrap();
    let from_file = vec!["--config".to_owned(), path.display().to_string()];
    assert_eq!(effective(&from_file, &none), by_file, "the file comes before the defaults");
    assert_eq!(effective(&from_file, &variables), by_variable, "variables come before the file");
    let with_flags: Vec<_> = from_file.iter().chain(&flags).cloned().collect();
    assert_eq!(effective(&with_flags, &variables), by_flag, "flags come before variables");
    assert_eq!(effective(&[], &variables), by_variable, "no file is needed");
    assert_eq!(effective(&flags, &none), by_flag);
    variables.insert("RELAY_CONFIG".into(), path.display().to_string());
    assert_eq!(effective(&flags, &variables), by_flag);
}

#[test]
fn a_flag_without_a_value_turns_on_and_the_default_overrules_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.toml");
    std::fs::write(&path, "jit = true\nqueue = 7\n[limits]\nwall_ms = 4321\n[max_limits]\ncpu_ms = 5000\n").unwrap();
    let arguments = |more: &[&str]| {
        let file = ["--config", path.to_str().unwrap()];
        file.iter().chain(more).map(|it| (*it).to_owned()).collect::<Vec<_>>()
    };
    let found = effective(&arguments(&["--one-time-tokens"]), &BTreeMap::new());
    assert_eq!([&found["jit"], &found["one_time_tokens"], &found["queue"]], [&json!(true), &json!(true), &json!(7)]);
    assert_eq!([&found["limits"], &found["max_limits"]], [&json!({"wall_ms": 4_321}), &json!({"cpu_ms": 5_000})]);
    // An explicit default overrules the file.
    let found = effective(&arguments(&["--jit=false", "--queue", "1024"]), &BTreeMap::new());
    assert_eq!([&found["jit"], &found["queue"]], [&json!(false), &json!(1_024)]);
}

#[test]
fn help_shows_the_variable_and_the_default_of_every_setting() {
    let (command, defaults) = (serve(), effective(&[], &BTreeMap::new()));
    let help = run(&["serve".to_owned(), "--help".to_owned()], &BTreeMap::new());
    let blocks: BTreeMap<_, _> = help
        .split("\n      --")
        .skip(1)
        .map(|block| (block.split([' ', '\n']).next().unwrap().to_owned(), block.to_owned()))
        .collect();
    for arg in settings(&command) {
        let name = arg.get_id().as_str();
        let block = &blocks[&name.replace('_', "-")];
        assert!(block.contains(&format!("[env: RELAY_{}=]", name.to_uppercase())), "{block}");
        match &defaults[name] {
            Value::Null => assert!(!block.contains("[default"), "{block}"),
            Value::Array(items) => assert!(items.is_empty() && !block.contains("[default"), "{block}"),
            value => assert!(block.contains(&format!("[default: {}]", text(value))), "{value}: {block}"),
        }
    }
}

#[test]
fn the_page_of_settings_is_that_of_the_program() {
    let defaults = effective(&[], &BTreeMap::new());
    let mut page = "# Settings of `sandbox-relay serve`\n\n\
        Flags come first, then environment variables, then the TOML file that `--config` or `RELAY_CONFIG` names, then defaults.\n\
        `sandbox-relay settings`, with the same flags, prints what holds. The shared secret itself is given as `RELAY_JWT_SECRET` \
        or in a file.\n\n\
        | flag | variable | in the file | default | meaning |\n|---|---|---|---|---|\n"
        .to_owned();
    for arg in settings(&serve()) {
        let name = arg.get_id().as_str();
        let default = match &defaults[name] {
            Value::Null => String::new(),
            Value::Array(items) if items.is_empty() => String::new(),
            value => format!("`{}`", text(value)),
        };
        let (flag, variable) = (name.replace('_', "-"), name.to_uppercase());
        let help = arg.get_help().unwrap().to_string();
        page.push_str(&format!("| `--{flag}` | `RELAY_{variable}` | `{name}` | {default} | {help} |\n"));
    }
    page.push_str(
        "\nThe file alone may hold the tables `[limits]` and `[max_limits]`: what an execution has by default, and the most that a \
         token can grant.\n\n| limit | default | maximum |\n|---|---|---|\n",
    );
    let (defaults, maxima) = (Limits::defaults(), Limits::maxima());
    for name in relay_proto::LimitName::ALL {
        page.push_str(&format!("| `{name}` | {} | {} |\n", defaults.get(*name), maxima.get(*name)));
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&committed, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&committed).unwrap_or_default() == page,
        "{} is not what the program has; write it again with `{WRITE}=1 cargo test -p sandbox-relay --test suite settings`",
        committed.display(),
    );
}

#[test]
fn an_unknown_name_in_the_file_is_refused_with_the_name_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.toml");
    for (content, expected) in [
        ("lissten = \"127.0.0.1:1\"", "unknown setting \"lissten\"; did you mean \"listen\"?"),
        ("dev = true", "unknown setting \"dev\""),
        ("queue = \"many\"", "queue"),
        ("[limits]\nwall = 1", "wall_ms"),
    ] {
        std::fs::write(&path, content).unwrap();
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&path).env_clear();
        let output = command.env("RELAY_JWT_SECRET", "0123456789012345678901234567890123456789").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(expected), "{content}: {error}");
    }
}
