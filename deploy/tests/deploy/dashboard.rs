//! The dashboard and the rules: that Grafana knows every field, and that the relay has every metric and label.

use std::collections::{BTreeMap, BTreeSet};

use host_client::ErrorCode;
use regex::Regex;
use serde_json::{Value, json};

use crate::support::{facts, path, read};

pub(crate) const DASHBOARD: &str = "deploy/grafana/relay.json";

/// Returns the queries of all panels, with the values of the variables in their places.
pub(crate) fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let of = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.clone(), filled(target["expr"].as_str().unwrap())))
    };
    let queries: Vec<_> = panels.iter().flat_map(of).collect();
    assert!(queries.len() > 20, "{queries:?}");
    queries
}

fn filled(query: &str) -> String {
    query.replace("$job", "sandbox-relay").replace("$instance", ".*").replace("$__rate_interval", "1m")
}

/// Returns the values that each label of each metric may have, by the page that the program writes; `None`: it may have any.
fn metrics() -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    let page = read("docs/metrics.md");
    let row = Regex::new(r"(?m)^\| `(sandbox_relay_\w+)` \| (\w+) \| (.*?) \| .* \|$").unwrap();
    let label = Regex::new(r"^`(\w+)`: (.*)$").unwrap();
    let mut metrics = BTreeMap::new();
    for row in row.captures_iter(&page) {
        let mut labels = BTreeMap::from([("job".to_owned(), None), ("instance".to_owned(), None)]);
        if let Some(found) = label.captures(&row[3]) {
            labels.insert(found[1].to_owned(), Some(found[2].to_owned()));
        }
        let name = row[1].to_owned();
        if name == "sandbox_relay_build_info" {
            labels.extend([("build".to_owned(), None), ("version".to_owned(), None)]);
        }
        if &row[2] == "histogram" {
            metrics.insert(format!("{name}_sum"), labels.clone());
            metrics.insert(format!("{name}_count"), labels.clone());
            labels.insert("le".to_owned(), None);
            metrics.insert(format!("{name}_bucket"), labels);
        } else {
            metrics.insert(name, labels);
        }
    }
    assert!(metrics.len() > 20, "{metrics:?}");
    metrics
}

/// Lists what queries ask of relays that no relay has.
pub(crate) fn unknown(queries: &str) -> Vec<String> {
    let metrics = metrics();
    let selector = Regex::new(r"([\w:]*sandbox_relay_\w+[\w:]*)(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r#"(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)""#).unwrap();
    let mut wrong = Vec::new();
    for found in selector.captures_iter(queries) {
        let (name, matchers) = (&found[1], found.get(2).map_or("", |it| it.as_str()));
        // A recorded name is `labels:metric:operation`, for a counter without its ending.
        let mut parts = name.split(':');
        let known = match (parts.next(), parts.next()) {
            (Some(_), Some(metric)) => {
                ["_total", "_bucket", ""].iter().find_map(|ending| metrics.get(&format!("{metric}{ending}")))
            }
            _ => metrics.get(name),
        };
        let Some(labels) = known else {
            wrong.push(name.to_owned());
            continue;
        };
        for matcher in matcher.captures_iter(matchers) {
            let (label, values) = (&matcher[1], &matcher[2]);
            let is_known = |value: &str, text: &str| {
                text.contains(&format!("`{value}`"))
                    || text.contains("an error code") && value.parse::<ErrorCode>().is_ok()
            };
            match labels.get(label) {
                None => wrong.push(format!("{name}{{{label}}}")),
                Some(Some(text)) => {
                    let strangers = values.split('|').filter(|value| !is_known(value, text));
                    wrong.extend(strangers.map(|value| format!("{name}{{{label}=\"{value}\"}}")));
                }
                Some(None) => {}
            }
        }
    }
    wrong
}

#[test]
fn rules_and_dashboard_ask_only_for_what_relays_have() {
    // Without the backslashes of JSON.
    let dashboard = read(DASHBOARD).replace("\\\"", "\"");
    for (name, text) in [(DASHBOARD, dashboard)]
        .into_iter()
        .chain(["deploy/prometheus/alerts.yml", "deploy/prometheus/alerts_test.yml"].map(|name| (name, read(name))))
    {
        assert_eq!(unknown(&text), Vec::<String>::new(), "{name}");
        assert!(text.matches("sandbox_relay_").count() > 20, "{name}");
    }
}

#[test]
fn what_no_relay_has_is_found() {
    for (query, expected) in [
        ("sum(sandbox_relay_places{job=\"x\"})", None),
        ("rate(sandbox_relay_queue_seconds_bucket{le=\"1\"}[5m])", None),
        ("job:sandbox_relay_executions:rate5m{outcome=~\"ok|OVERLOADED\"}", None),
        ("sandbox_relay_place", Some("sandbox_relay_place")),
        ("sandbox_relay_queue_seconds", Some("sandbox_relay_queue_seconds")),
        ("job:sandbox_relay_runs:rate5m", Some("job:sandbox_relay_runs:rate5m")),
        ("sandbox_relay_places{subject=\"me\"}", Some("sandbox_relay_places{subject}")),
        ("sandbox_relay_executions{state!=\"waiting\"}", Some("sandbox_relay_executions{state=\"waiting\"}")),
        (
            "sandbox_relay_executions_total{outcome=\"FAILED\"}",
            Some("sandbox_relay_executions_total{outcome=\"FAILED\"}"),
        ),
    ] {
        assert_eq!(unknown(query), expected.into_iter().collect::<Vec<_>>(), "{query}");
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let all = queries().into_iter().map(|(_, query)| query).collect::<String>();
    let word = Regex::new(r"sandbox_relay_\w+").unwrap();
    let shown: BTreeSet<_> =
        word.find_iter(&all).map(|it| it.as_str().trim_end_matches("_bucket").to_owned()).collect();
    let families = metrics().into_keys().filter(|name| !name.ends_with("_bucket") && !name.ends_with("_count"));
    let hidden: Vec<_> = families
        .filter(|name| !shown.contains(name.as_str()) && !shown.contains(name.trim_end_matches("_sum")))
        .collect();
    assert_eq!(hidden, Vec::<String>::new());
}

#[test]
fn grafana_knows_every_field_of_the_dashboard() {
    let own: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let kept = facts(&["dashboard", path(DASHBOARD).to_str().unwrap()], &json!(null));
    assert_eq!(dropped(&own, &kept, "dashboard"), Vec::<String>::new());
    assert_eq!(dropped(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}], "c": 1}), ""), [".a[0].b"]);
}

/// Lists the places of `own` that are absent in `kept`, or other there.
fn dropped(own: &Value, kept: &Value, place: &str) -> Vec<String> {
    match (own, kept) {
        (Value::Object(own), Value::Object(kept)) => {
            let of = |(name, value): (&String, &Value)| {
                let place = format!("{place}.{name}");
                kept.get(name).map_or_else(|| vec![place.clone()], |kept| dropped(value, kept, &place))
            };
            own.iter().flat_map(of).collect()
        }
        (Value::Array(own), Value::Array(kept)) if own.len() == kept.len() => {
            let pairs = own.iter().zip(kept).enumerate();
            pairs.flat_map(|(index, (own, kept))| dropped(own, kept, &format!("{place}[{index}]"))).collect()
        }
        _ if own == kept => Vec::new(),
        _ => vec![place.to_owned()],
    }
}
