//! The compose file: read by the compose specification, and compared with `docker run` of the README and with what it mounts.

use regex::Regex;
use serde_json::{Value, json};

use crate::support::{docker_run, facts, path, read};

const FOLDER: &str = "deploy/compose";

fn compose() -> Value {
    facts(&["compose", path("deploy/compose/compose.yaml").to_str().unwrap()], &json!(null))
}

#[test]
fn relays_are_hardened_as_docker_run_hardens_them() {
    let compose = compose();
    let flags = docker_run();
    for relay in ["relay-1", "relay-2"] {
        let relay = &compose["services"][relay];
        assert_eq!(relay["read_only"], json!(flags.iter().any(|flag| flag == "--read-only")));
        for (setting, flag) in [("cap_drop", "--cap-drop="), ("security_opt", "--security-opt=")] {
            let wanted: Vec<_> = flags.iter().filter_map(|it| it.strip_prefix(flag)).collect();
            assert_eq!(relay[setting], json!(wanted), "{setting}");
        }
        let value = |flag: &str| flags.iter().find_map(|it| it.strip_prefix(flag)).unwrap();
        assert_eq!(relay["mem_limit"], json!(value("--memory=")));
        assert_eq!(relay["pids_limit"].as_f64(), value("--pids-limit=").parse().ok());
        assert!(relay["ports"].is_null() && relay["volumes"].is_null() && relay["privileged"].is_null());
        assert_eq!(relay["networks"], json!(["relays"]), "a relay has no way out");
    }
    assert_eq!(compose["networks"]["relays"]["internal"], json!(true));
}

#[test]
fn every_service_is_limited_and_published_on_loopback_alone() {
    for (name, service) in compose()["services"].as_object().unwrap() {
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges"]), "{name}");
        assert!(!service["mem_limit"].is_null() && !service["pids_limit"].is_null(), "{name}");
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn everything_that_the_services_name_is_there() {
    let compose = compose();
    let settings = read("docs/settings.md") + &read("docs/running-the-relay.md");
    for (name, service) in compose["services"].as_object().unwrap() {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            let is_there = match source.starts_with('.') {
                true => path(FOLDER).join(source).is_file(),
                false => compose["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{name}: {volume}");
        }
        for (variable, value) in service["environment"].as_object().into_iter().flatten() {
            assert!(value.is_string(), "{variable}: YAML may read it otherwise than the shell");
            let is_known = !variable.starts_with("RELAY_") || settings.contains(&format!("`{variable}`"));
            assert!(is_known, "{name}: {variable} is no setting");
        }
    }
    // Each file is mounted, and each relay is known to HAProxy and to Prometheus.
    let text = read("deploy/compose/compose.yaml");
    for file in path(FOLDER).read_dir().unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        assert!(file == "compose.yaml" || text.contains(&format!("./{file}:")), "{file}");
    }
    let services = compose["services"].as_object().unwrap();
    let relays: Vec<_> = services.keys().filter(|name| name.starts_with("relay-")).cloned().collect();
    for (file, port) in [("haproxy.cfg", 8080), ("prometheus.yml", 9464)] {
        let address = Regex::new(&format!(r"(relay-\d+):{port}")).unwrap();
        let text = read(&format!("{FOLDER}/{file}"));
        let named: Vec<_> = address.captures_iter(&text).map(|found| found[1].to_owned()).collect();
        assert_eq!(named, relays, "{file}");
    }
}

#[test]
fn a_relay_has_longer_than_its_drain_before_it_is_killed() {
    let relay = &compose()["services"]["relay-1"];
    let drain: u64 = relay["environment"]["RELAY_DRAIN_MS"].as_str().unwrap().parse().unwrap();
    assert_eq!(relay["stop_grace_period"], json!(format!("{}s", drain / 1000 + 15)));
}

#[test]
fn grafana_finds_the_server_and_the_dashboard() {
    let source: Value = serde_saphyr::from_str(&read("deploy/compose/grafana-datasource.yml")).unwrap();
    assert_eq!(source["datasources"][0]["url"], json!("http://prometheus:9090"));
    let provider: Value = serde_saphyr::from_str(&read("deploy/compose/grafana-dashboards.yml")).unwrap();
    let folder = provider["providers"][0]["options"]["path"].as_str().unwrap();
    assert!(read("deploy/compose/compose.yaml").contains(&format!("../grafana/relay.json:{folder}/relay.json:ro")));
}
