//! The chart: linted and rendered by Helm's own engine, its objects validated by the schemas of Kubernetes, its hardening compared
//! with `docker run` of the README, and a relay started with the environment of its container.

use std::collections::BTreeSet;

use regex::Regex;
use relay_test_support::http::get;
use serde_json::{Value, json};

use crate::dashboard::unknown;
use crate::support::{SECRET, Server, docker_run, facts, free_address, path, read, relay_binary, until};

const CHART: &str = "deploy/helm/sandbox-relay";
/// Kinds that come with the operators which read them.
const OF_OPERATORS: [&str; 2] = ["ScaledObject", "ServiceMonitor"];

fn rendered(values: &Value) -> Value {
    facts(&["render", path(CHART).to_str().unwrap()], values)
}

/// Returns the objects for these values and the name of a secret.
fn objects(mut values: Value) -> Vec<Value> {
    if values["auth"].is_null() {
        values["auth"] = json!({"existingSecret": "relay-keys"});
    }
    let answer = rendered(&values);
    answer["objects"].as_array().unwrap_or_else(|| panic!("{values}: {answer}")).clone()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

/// Returns the pod of the Deployment.
fn pod(objects: &[Value]) -> &Value {
    &of_kind(objects, "Deployment")[0]["spec"]["template"]
}

fn container(objects: &[Value]) -> &Value {
    let containers = pod(objects)["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    let report = facts(&["lint", path(CHART).to_str().unwrap()], &json!(null));
    let messages = report["messages"].as_array().unwrap();
    // 1 is a hint, such as that an icon is recommended.
    assert!(messages.iter().all(|message| message["severity"].as_u64() == Some(1)), "{report}");
    assert_eq!((&report["total_charts_linted"], &report["errors"]), (&json!(1), &json!([])));
}

#[test]
fn kubernetes_accepts_every_object_of_every_way_to_install_it() {
    let some_of_all = json!({
        "image": {"repository": "registry.example/relay", "tag": "1"}, "imagePullSecrets": [{"name": "pull"}],
        "auth": {"existingSecret": "keys", "key": "jwks.json", "kind": "jwks"},
        "settings": {"subject_executions": 16, "worker_stock": 4, "one_time_tokens": true, "allow_origin": "https://a.example"},
        "limits": {"wall_ms": 60000}, "maxLimits": {"memory_bytes": 1_073_741_824},
        "resources": {"limits": {"memory": "2Gi", "cpu": 2}},
        "tls": {"existingSecret": "certificate"}, "priorityClassName": "high",
        "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"team": "agents"}}}]},
        "podAnnotations": {"c": "d"}, "nodeSelector": {"e": "f"}, "tolerations": [{"key": "g", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}}, "podDisruptionBudget": {"maxUnavailable": "25%"},
    });
    for values in [
        json!({}),
        json!({"auth": {"jwksUrl": "https://issuer.example/keys"}}),
        json!({"auth": {"existingSecret": "keys", "kind": "publicKey"}, "networkPolicy": {"enabled": false}}),
        json!({"autoscaling": {"kind": "hpa"}}),
        json!({"autoscaling": {"kind": "keda"}, "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}}}),
        some_of_all,
    ] {
        let objects = objects(values.clone());
        let kubernetes: Vec<_> =
            objects.iter().filter(|it| !OF_OPERATORS.contains(&it["kind"].as_str().unwrap())).collect();
        assert!(kubernetes.len() >= 4, "{values}");
        assert_eq!(facts(&["kubernetes"], &json!(kubernetes)), json!([]), "{values}");
    }
    let wrong = facts(&["kubernetes"], &json!([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": 1}}]));
    assert!(wrong.as_array().unwrap().len() == 2, "the schemas are asked: {wrong}");
}

#[test]
fn pods_are_hardened_as_docker_run_hardens_a_container() {
    let objects = objects(json!({}));
    let (pod, container) = (&pod(&objects)["spec"], container(&objects));
    let security = &container["securityContext"];
    for flag in docker_run() {
        match flag.as_str() {
            "--read-only" => assert_eq!(security["readOnlyRootFilesystem"], json!(true)),
            "--cap-drop=ALL" => assert_eq!(security["capabilities"], json!({"drop": ["ALL"]})),
            "--security-opt=no-new-privileges" => assert_eq!(security["allowPrivilegeEscalation"], json!(false)),
            "--memory=1g" => assert_eq!(container["resources"]["limits"]["memory"], json!("1Gi")),
            // A limit of the kubelet.
            "--pids-limit=256" => assert!(read("deploy/helm/sandbox-relay/values.yaml").contains("podPidsLimit")),
            "--rm" | "-e=RELAY_JWT_SECRET" | "-p=127.0.0.1:8080:8080" => {}
            other => panic!("README's docker run has {other}: what is it in the chart?"),
        }
    }
    assert_eq!(security["privileged"], json!(false));
    let user =
        read("docker/Dockerfile").lines().find_map(|line| line.strip_prefix("USER ").map(str::to_owned)).unwrap();
    let own = &pod["securityContext"];
    assert_eq!(format!("{}:{}", own["runAsUser"], own["runAsGroup"]), user);
    assert_eq!((&own["runAsNonRoot"], &own["seccompProfile"]["type"]), (&json!(true), &json!("RuntimeDefault")));
    assert_eq!((&pod["automountServiceAccountToken"], &pod["enableServiceLinks"]), (&json!(false), &json!(false)));
    for of_the_node in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod[of_the_node].is_null());
    }
    for volume in pod["volumes"].as_array().unwrap() {
        assert!(volume["secret"].is_object() || volume["configMap"].is_object(), "{volume}");
    }
    assert!(container["volumeMounts"].as_array().unwrap().iter().all(|mount| mount["readOnly"] == json!(true)));
    let [policy] = &of_kind(&objects, "NetworkPolicy")[..] else { panic!() };
    assert_eq!(
        (&policy["spec"]["egress"], &policy["spec"]["policyTypes"]),
        (&json!([]), &json!(["Ingress", "Egress"]))
    );
}

#[test]
fn the_objects_fit_each_other() {
    let objects = objects(json!({"drainSeconds": 20, "serviceMonitor": {"enabled": true}, "limits": {"wall_ms": 1}}));
    let (pod, container) = (pod(&objects), container(&objects));
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    let is_in = |selector: &Value, labels: &serde_json::Map<String, Value>| {
        selector
            .as_object()
            .is_some_and(|it| !it.is_empty() && it.iter().all(|(name, value)| labels.get(name) == Some(value)))
    };
    let ports: BTreeSet<_> =
        container["ports"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect();
    for (kind, pointer) in [
        ("Deployment", "/spec/selector/matchLabels"),
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        for object in of_kind(&objects, kind) {
            assert!(is_in(object.pointer(pointer).unwrap(), labels), "{object}");
            for port in object["spec"]["ports"].as_array().into_iter().flatten() {
                assert!(ports.contains(port["targetPort"].as_str().unwrap()), "{object}");
            }
        }
    }
    // The monitor finds the one service that has the metrics, and names the job as the rules do.
    let monitor = &of_kind(&objects, "ServiceMonitor")[0]["spec"];
    let services = of_kind(&objects, "Service");
    let found: Vec<_> = services
        .iter()
        .filter(|it| is_in(&monitor["selector"]["matchLabels"], it["metadata"]["labels"].as_object().unwrap()))
        .collect();
    assert!(found.len() == 1 && found[0]["spec"]["ports"][0]["name"] == monitor["endpoints"][0]["port"], "{found:?}");
    let job = &found[0]["metadata"]["labels"][monitor["jobLabel"].as_str().unwrap()];
    assert!(read("deploy/prometheus/alerts.yml").contains(&format!("up{{job={job}}}")), "{job}");

    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], json!(20 + 15));
    assert_eq!(variable(container, "RELAY_DRAIN_MS").as_deref(), Some("20000"));
    let probes = [("readinessProbe", "/ready"), ("livenessProbe", "/health")];
    for (probe, page) in probes {
        assert_eq!(container[probe]["httpGet"], json!({"path": page, "port": "relay", "scheme": "HTTP"}));
    }
    let version = Regex::new(r#"(?m)^version = "(.*)"$"#).unwrap();
    assert!(
        container["image"]
            .as_str()
            .unwrap()
            .ends_with(&format!(":{}", &version.captures(&read("Cargo.toml")).unwrap()[1]))
    );
}

fn variable(container: &Value, name: &str) -> Option<String> {
    let all = container["env"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).map(|it| it["value"].as_str().unwrap().to_owned())
}

#[test]
fn an_autoscaler_follows_saturation_and_sets_the_number_of_relays_alone() {
    let fixed = objects(json!({"replicas": 3}));
    assert_eq!(of_kind(&fixed, "Deployment")[0]["spec"]["replicas"], json!(3));
    assert!(of_kind(&fixed, "HorizontalPodAutoscaler").is_empty() && of_kind(&fixed, "ScaledObject").is_empty());

    let hpa = objects(json!({"autoscaling": {"kind": "hpa", "targetSaturation": 0.6}}));
    assert!(of_kind(&hpa, "Deployment")[0]["spec"]["replicas"].is_null());
    let spec = &of_kind(&hpa, "HorizontalPodAutoscaler")[0]["spec"];
    let metric = &spec["metrics"][0]["pods"];
    assert_eq!(unknown(metric["metric"]["name"].as_str().unwrap()), Vec::<String>::new());
    assert_eq!((&metric["target"]["averageValue"], &spec["minReplicas"]), (&json!("0.6"), &json!(2)));
    assert!(spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"].as_u64() >= Some(300));

    let keda = objects(json!({"autoscaling": {"kind": "keda"}}));
    assert!(of_kind(&keda, "Deployment")[0]["spec"]["replicas"].is_null());
    let trigger = &of_kind(&keda, "ScaledObject")[0]["spec"]["triggers"][0];
    let query = trigger["metadata"]["query"].as_str().unwrap();
    assert_eq!(query, "sum(sandbox_relay_saturation{namespace=\"relays\", service=\"test-sandbox-relay-metrics\"})");
    assert!(of_kind(&keda, "Service").iter().any(|it| it["metadata"]["name"] == "test-sandbox-relay-metrics"));
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    let keys = json!({"existingSecret": "keys"});
    for (values, said) in [
        (json!({}), "set auth.existingSecret"),
        (json!({"auth": {"existingSecret": "a", "jwksUrl": "https://b.example"}}), "set only one"),
        (json!({"auth": {"jwksUrl": "http://b.example"}}), "/auth/jwksUrl"),
        (json!({"auth": keys, "replica": 3}), "'replica' not allowed"),
        (json!({"auth": keys, "replicas": 0}), "/replicas"),
        (json!({"auth": keys, "resources": {"limits": {"memory": null}}}), "missing property 'memory'"),
        (json!({"auth": keys, "settings": {"subject_execution": 3}}), "subject_execution"),
        (json!({"auth": keys, "settings": {"listen": "0.0.0.0:1"}}), "listen"),
        (json!({"auth": keys, "limits": {"wall": 3}}), "wall"),
        (json!({"auth": keys, "autoscaling": {"kind": "cpu"}}), "/autoscaling/kind"),
        (json!({"auth": keys, "autoscaling": {"kind": "hpa", "minReplicas": 9, "maxReplicas": 3}}), "minReplicas"),
        (
            json!({"auth": keys, "autoscaling": {"kind": "hpa", "targetSaturation": 80}}),
            "/autoscaling/targetSaturation",
        ),
        (json!({"auth": keys, "tls": {"existingSecret": "No_Name"}}), "/tls/existingSecret"),
    ] {
        let answer = rendered(&values);
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{values} is accepted"));
        assert!(error.contains(said), "{values}: {error}");
    }
}

#[test]
fn the_schema_has_the_settings_and_limits_of_the_relay() {
    let page = read("docs/settings.md");
    let schema: Value = serde_json::from_str(&read("deploy/helm/sandbox-relay/values.schema.json")).unwrap();
    let names = |pointer: &str| -> BTreeSet<String> {
        schema["properties"][pointer]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let all = |pattern: &str| -> BTreeSet<String> {
        Regex::new(pattern).unwrap().captures_iter(&page).map(|found| found[1].to_owned()).collect()
    };
    let own = ["listen", "metrics_listen", "drain_ms", "tls_cert_file", "tls_key_file"];
    let settings = all(r"(?m)^\| `--[a-z-]+` \| `\w+` \| `(\w+)`");
    let left: BTreeSet<_> =
        settings.into_iter().filter(|it| !own.contains(&it.as_str()) && !it.starts_with("jw")).collect();
    assert_eq!(names("settings"), left);
    let limits = all(r"(?m)^\| `(\w+)` \| \d+ \| \d+ \|$");
    assert_eq!((names("limits"), names("maxLimits")), (limits.clone(), limits));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_starts_with_the_environment_and_the_files_of_the_container() {
    let objects = objects(json!({
        "settings": {"subject_executions": 3, "worker_stock": 1, "one_time_tokens": true, "idle_ms": 3_600_000},
        "limits": {"wall_ms": 5000}, "maxLimits": {"memory_bytes": 536_870_912},
    }));
    let folder = tempfile::tempdir().unwrap();
    // The volumes, as their mounts say.
    for (mount, file, text) in [
        ("auth", "key", SECRET),
        ("config", "relay.toml", of_kind(&objects, "ConfigMap")[0]["data"]["relay.toml"].as_str().unwrap()),
    ] {
        let place = folder.path().join("run/relay").join(mount);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(file), text).unwrap();
    }
    let (relay, metrics) = (free_address(), free_address());
    let here = folder.path().to_str().unwrap();
    let variables: Vec<_> = container(&objects)["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let (name, value) = (it["name"].as_str().unwrap(), it["value"].as_str().unwrap());
            let value = value.replace("/run/relay", &format!("{here}/run/relay"));
            format!("{name}={}", value.replace("0.0.0.0:8080", &relay).replace("0.0.0.0:9464", &metrics))
        })
        .collect();
    let binary = relay_binary();
    let arguments = container(&objects)["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let command = ["env", "-i"].into_iter().chain(variables.iter().map(String::as_str));
    let command: Vec<_> = command.chain([binary.to_str().unwrap()]).chain(arguments).collect();
    let log = folder.path().join("log");
    let _relay = Server::start(&command, &log);
    until(async || get(&relay, "/ready").await.is_ok_and(|(status, _)| status == 200)).await;
    assert_eq!(get(&metrics, "/metrics").await.unwrap().0, 200);
}
