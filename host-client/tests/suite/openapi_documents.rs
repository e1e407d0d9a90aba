//! Documents for `OpenApi`: real ones of public APIs, which mount nearly whole, and hostile ones, which cost little.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Caller, Server, endless, json as answer, megabytes, redirect, response};
use host_client::openapi::{Credential, Flaw, OpenApi, OpenApiMount, Unusable};
use host_client::{Effect, Error, Tools};
use relay_test_support::documents::document;
use serde_json::{Value, json};

/// The folder of real documents with which the library `openapiv3` tests itself; it is among our dependencies for them.
fn fixtures() -> PathBuf {
    // Only of this platform: what the others need was never fetched on a new machine.
    let platform = "x86_64-unknown-linux-gnu";
    let arguments = ["metadata", "--format-version", "1", "--offline", "--filter-platform", platform];
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = metadata["packages"].as_array().unwrap().iter().find(|it| it["name"] == "openapiv3").unwrap();
    PathBuf::from(package["manifest_path"].as_str().unwrap()).parent().unwrap().join("fixtures")
}

async fn mount(api: OpenApi) -> Result<(Tools, OpenApiMount), Error> {
    let tools = Tools::new();
    let mount = api.allow_private("127.0.0.1/32").unwrap().mount(&tools, "api").await?;
    Ok((tools, mount))
}

async fn unusable(api: OpenApi) -> Unusable {
    match mount(api).await {
        Err(Error::Source { reason, .. }) => *reason.downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn api(document: &Value) -> OpenApi {
    OpenApi::from_text(document.to_string())
}

#[tokio::test]
async fn real_documents_mount_nearly_whole() {
    let fixtures = fixtures();
    let nowhere = "it refers to what is not in the document: \"\"";
    let expect = |name,
                  credential: Option<(&'static str, Credential)>,
                  count,
                  left_out: Option<(&'static str, usize)>| { (name, credential, count, left_out) };
    for (name, credential, count, left_out) in [
        expect("adobe_aem.yaml", Some(("aemAuth", basic())), 43, None),
        expect("authentiq.yaml", None, 14, None),
        expect("azure_advisor.yaml", Some(("azure_auth", bearer())), 13, None),
        expect("docker.yaml", None, 55, None),
        expect("fitbit.json", Some(("OAuth2", bearer())), 55, Some((nowhere, 3))),
        expect("polygon.json", Some(("apiKey", Credential::ApiKey("key".into()))), 10, None),
        expect("quayio.yaml", Some(("oauth2_implicit", bearer())), 95, None),
        expect("slack.json", Some(("slackAuth", bearer())), 138, None),
        expect("twilio.json", Some(("basic", basic())), 116, None),
    ] {
        let mut api = OpenApi::from_file(fixtures.join(name));
        if let Some((scheme, credential)) = credential {
            api = api.credentials(scheme, credential);
        }
        let (tools, mount) = mount(api).await.unwrap();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for operation in &mount.left_out {
            *reasons.entry(operation.reason.to_string()).or_default() += 1;
        }
        let left_out: BTreeMap<String, usize> =
            left_out.into_iter().map(|(why, count)| (why.to_owned(), count)).collect();
        assert_eq!((tools.specs().len(), reasons), (count, left_out), "{name}");
    }
}

/// With those of the test above and Stripe's, more than twenty real documents. By hand, since 390 MB are installed for it:
/// `cargo test --package host-client --test host -- --ignored documents_from_the_registry`.
#[tokio::test]
#[ignore = "it installs large packages from the registry"]
async fn documents_from_the_registry_mount_nearly_whole() {
    for (path, scheme, count, elsewhere) in FROM_REGISTRY {
        let mut api = OpenApi::from_file(document(path)).document_bytes(64 << 20).max_operations(5_000);
        if let Some((scheme, credential)) = scheme {
            api = api.credentials(*scheme, credential());
        }
        let (tools, mount) = mount(api).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        let others: Vec<_> = mount.left_out.iter().filter(|it| it.reason != Flaw::Server).collect();
        assert!(others.is_empty(), "{path}: {others:?}");
        assert_eq!((tools.specs().len(), mount.left_out.len()), (*count, *elsewhere), "{path}");
    }
}

fn bearer() -> Credential {
    Credential::Bearer("token".into())
}

fn basic() -> Credential {
    Credential::Basic { user: "user".into(), password: "word".into() }
}

/// Name of a security scheme, and the credential for it.
type Scheme = (&'static str, fn() -> Credential);

/// Documents of pinned packages: the path, the scheme that gets a credential, the number of tools, and the number of
/// operations on a server of their own, which are left out.
const FROM_REGISTRY: &[(&str, Option<Scheme>, usize, usize)] = &[
    ("@octokit/openapi/generated/api.github.com.json", None, 1_222, 1),
    ("@octokit/openapi/generated/ghec.json", None, 1_470, 1),
    ("@octokit/openapi/generated/ghes-3.17.json", None, 946, 20),
    ("@octokit/openapi/generated/ghes-3.18.json", None, 960, 20),
    ("@octokit/openapi/generated/ghes-3.19.json", None, 1_019, 20),
    ("@readme/oas-examples/3.0/json/petstore-expanded.json", None, 4, 0),
    ("@readme/oas-examples/3.0/json/readme-legacy.json", Some(("apiKey", basic)), 36, 0),
    ("@readme/oas-examples/3.0/json/star-trek.json", None, 120, 0),
    ("@readme/oas-examples/3.0/json/uspto.json", None, 3, 0),
    ("@readme/oas-examples/3.1/json/readme.json", Some(("bearer", bearer)), 54, 0),
    ("@readme/oas-examples/3.1/json/train-travel.json", Some(("OAuth2", bearer)), 7, 0),
];

/// Stripe's API: 2.2 MB of YAML, 283 operations, forms with nested fields.
#[tokio::test]
async fn a_large_public_api_works_operation_by_operation() {
    let yaml = std::fs::read_to_string(fixtures().join("stripe.yaml")).unwrap();
    let stripe = Server::start(|seen| answer(200, &json!({"path": seen.target.split('?').next()}))).await;
    let yaml = yaml.replace("https://api.stripe.com/", &stripe.url("/"));
    let docs = Server::start(move |_| response(200, &[], yaml.clone())).await;
    let api = OpenApi::from_url(docs.url("/stripe.yaml"))
        .server(stripe.url(""))
        .credentials("basicAuth", Credential::Basic { user: "sk_test_key".into(), password: String::new() });
    let (tools, mount) = mount(api).await.unwrap();
    assert_eq!(tools.specs().len(), 282);
    let left_out: Vec<_> = mount.left_out.iter().map(|it| (it.operation.as_str(), &it.reason)).collect();
    assert_eq!(left_out, [("POST /v1/files", &Flaw::Server)]);
    let spec = tools.spec("api.DeleteCustomersCustomer").unwrap();
    assert_eq!(spec.manifest.effect, Some(Effect::Mutating));
    assert!(spec.description.starts_with("<p>Permanently deletes a customer."), "{}", spec.description);
    assert!(spec.description.ends_with("(DELETE /v1/customers/{customer})"), "{}", spec.description);

    let mut caller = Caller::new(&tools).await;
    for (tool, arguments, asked, body) in [
        ("GetAccount", json!({}), "GET /v1/account", ""),
        ("GetBalance", json!({"expand": ["a", "b"]}), "GET /v1/balance?expand[0]=a&expand[1]=b", ""),
        ("GetCharges", json!({"created": {"gte": 5}, "limit": 3}), "GET /v1/charges?created[gte]=5&limit=3", ""),
        ("GetCharges", json!({"created": 5, "customer": "a&b=c"}), "GET /v1/charges?created=5&customer=a%26b%3Dc", ""),
        ("GetChargesCharge", json!({"charge": "ch_1"}), "GET /v1/charges/ch_1", ""),
        ("GetInvoicesInvoiceLines", json!({"invoice": "in 1"}), "GET /v1/invoices/in%201/lines", ""),
        ("GetRefunds", json!({"charge": "ch_1"}), "GET /v1/refunds?charge=ch_1", ""),
        ("DeleteCustomersCustomer", json!({"customer": "cus_1"}), "DELETE /v1/customers/cus_1", ""),
        (
            "PostCustomers",
            json!({"body": {"email": "a@b.example", "metadata": {"k": "v"}, "preferred_locales": ["de", "en"]}}),
            "POST /v1/customers",
            "email=a%40b.example&metadata[k]=v&preferred_locales[0]=de&preferred_locales[1]=en",
        ),
        (
            "PostCharges",
            json!({"body": {"amount": 100, "currency": "eur", "shipping": {"name": "n", "address": {"line1": "l"}}}}),
            "POST /v1/charges",
            "amount=100&currency=eur&shipping[address][line1]=l&shipping[name]=n",
        ),
        ("PostCouponsCoupon", json!({"coupon": "c", "body": {"name": "n"}}), "POST /v1/coupons/c", "name=n"),
        ("PostRefunds", json!({"body": {"charge": "ch_1"}}), "POST /v1/refunds", "charge=ch_1"),
    ] {
        let result = caller.call(&format!("api.{tool}"), arguments).await.unwrap();
        let seen = stripe.one();
        assert_eq!(format!("{} {}", seen.method, seen.target), asked);
        assert_eq!(seen.body, body, "{tool}");
        assert_eq!(result["path"], seen.target.split('?').next().unwrap());
        assert_eq!(seen.header("authorization"), Some("Basic c2tfdGVzdF9rZXk6"));
    }
    caller.refused("api.GetCharges", json!({"limit": "three"}), "INVALID_ARGUMENTS").await;
    caller.refused("api.PostFiles", json!({}), "UNKNOWN_TOOL").await;
    assert!(stripe.seen().is_empty());
}

#[tokio::test]
async fn a_document_is_fetched_from_its_own_host_within_bounds() {
    let other = Server::start(|_| answer(200, &json!({"openapi": "3.1.0", "paths": {"/a": {"get": {}}}}))).await;
    let to = other.url("/");
    let docs = Server::start(move |seen| match seen.target.as_str() {
        "/here.json" => answer(200, &json!({"openapi": "3.1.0", "paths": {"/a": {"get": {}}}})),
        "/moved.json" => redirect(302, "/here.json"),
        "/away.json" => redirect(302, &to),
        "/large.json" => response(200, &[], megabytes(50)),
        _ => response(404, &[], "secret"),
    })
    .await;
    for path in ["/here.json", "/moved.json"] {
        let (tools, _mount) = mount(OpenApi::from_url(docs.url(path))).await.unwrap();
        docs.seen();
        assert!(Caller::new(&tools).await.call("api.get_a", json!({})).await.is_err());
        assert_eq!(docs.one().target, "/a", "a document without servers is about the one it came from");
    }
    for path in ["/away.json", "/large.json", "/none.json"] {
        let reason = unusable(OpenApi::from_url(docs.url(path))).await;
        assert!(matches!(&reason, Unusable::Fetch(text) if !text.contains("secret")), "{path}: {reason}");
    }
    assert!(other.seen().is_empty());
    assert!(matches!(unusable(OpenApi::from_url("file:///etc/passwd")).await, Unusable::Address));
    let tools = Tools::new();
    let refused = OpenApi::from_url(docs.url("/here.json")).mount(&tools, "api").await.unwrap_err().to_string();
    assert!(refused.contains("private, local or reserved"), "{refused}");
    assert!(tools.servers().is_empty(), "the name is free again");
    assert!(matches!(unusable(OpenApi::from_file("/nowhere/at/all.yaml")).await, Unusable::File(_)));
    assert!(matches!(unusable(OpenApi::from_file("/dev/zero")).await, Unusable::Size(_)));
    let text = || OpenApi::from_text("x".repeat(100)).document_bytes(99);
    assert!(matches!(unusable(text()).await, Unusable::Size(99)));
    assert!(matches!(unusable(text().document_bytes(100)).await, Unusable::Version(_)));
}

#[tokio::test]
async fn only_servers_of_the_document_are_called() {
    let variables = json!({"region": {"default": "eu", "enum": ["eu", "us"]}});
    let document = json!({"openapi": "3.0.1", "paths": {}, "servers": [
        {"url": "https://{region}.example.com/v1", "variables": variables}, {"url": "http://example.org"},
    ]});
    for server in
        ["https://eu.example.com/v1", "https://us.example.com/v1/", "http://example.org", "HTTP://EXAMPLE.ORG:80/"]
    {
        mount(api(&document).server(server)).await.unwrap();
    }
    for server in
        ["https://asia.example.com/v1", "https://eu.example.com", "https://example.org", "", "http://evil.example"]
    {
        let reason = unusable(api(&document).server(server)).await;
        assert!(
            matches!(&reason, Unusable::Server { known, .. } if known.contains("https://us.example.com/v1")),
            "{reason}"
        );
    }
    for servers in [
        json!([{"url": "/v1"}]),
        json!([{"url": "ftp://a.example"}]),
        json!([{"url": "https://u:p@a.example"}]),
        json!(7),
    ] {
        let reason = unusable(api(&json!({"openapi": "3.0.1", "paths": {}, "servers": servers}))).await;
        assert!(matches!(reason, Unusable::NoServer), "{servers}: {reason}");
    }
    // Where credentials go is not for the host of a document to say.
    let scheme = json!({"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}});
    let document =
        json!({"openapi": "3.0.1", "paths": {}, "components": scheme, "servers": [{"url": "https://a.example"}]});
    let docs = Server::start(move |_| answer(200, &document)).await;
    let fetched = || OpenApi::from_url(docs.url("/")).credentials("key", Credential::Bearer("secret".into()));
    assert!(matches!(unusable(fetched()).await, Unusable::ForeignServer { .. }));
    mount(fetched().server("https://a.example")).await.unwrap();
}

#[tokio::test]
async fn the_server_its_variables_and_the_operations_can_be_chosen() {
    let server = Server::start(|seen| answer(200, &json!(seen.target))).await;
    let named = |tags: Value| json!({"tags": tags, "security": [{"key": []}]});
    let document = json!({
        "openapi": "3.0.1",
        "servers": [{"url": format!("{}/{{tenant}}/{{region}}", server.url("").trim_end_matches('/')), "variables": {
            "tenant": {"default": "demo"}, "region": {"default": "eu", "enum": ["eu", "us"]}}}],
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "k"}}},
        "paths": {
            "/orders": {"get": named(json!(["orders"])), "post": named(json!(["orders", "write"]))},
            "/users": {"get": named(json!(["users"]))}, "/none": {"get": named(json!(null))},
        },
    });
    let secret = || api(&document).credentials("key", Credential::Secret("s".into()));
    let (tools, _mount) =
        mount(secret().server_variable("tenant", "acme").server_variable("region", "us")).await.unwrap();
    assert_eq!(Caller::new(&tools).await.call("api.get_users", json!({})).await.unwrap(), "/acme/us/users?k=s");
    let (tools, _mount) = mount(secret().base_url(server.url("/other"))).await.unwrap();
    assert_eq!(Caller::new(&tools).await.call("api.get_users", json!({})).await.unwrap(), "/other/users?k=s");
    for (name, value) in [("tenent", "acme"), ("region", "asia")] {
        let reason = unusable(api(&document).server_variable(name, value)).await;
        assert!(matches!(reason, Unusable::Variable { .. }), "{reason}");
    }
    assert!(matches!(unusable(api(&document).base_url("ftp://x")).await, Unusable::BaseUrl(_)));

    for (chosen, expected, other) in [
        (secret().tags(["orders"]), vec!["api.get_orders", "api.post_orders"], "api.get_none"),
        (secret().tags(["write"]).operations(["get_u*"]), vec!["api.get_users", "api.post_orders"], "api.get_none"),
        (secret().operations(["GET /*"]).max_operations(2), vec!["api.get_none", "api.get_orders"], "api.get_users"),
    ] {
        let (tools, mount) = mount(chosen).await.unwrap();
        let names: Vec<_> = tools.specs().into_iter().map(|spec| spec.name).collect();
        assert_eq!(names, expected);
        assert!(mount.left_out.iter().all(|it| it.reason == Flaw::TooMany(2)), "{:?}", mount.left_out);
        let message = Caller::new(&tools).await.refused(other, json!({}), "UNKNOWN_TOOL").await;
        assert!(message.contains("not among the operations") || message.contains("more than 2"), "{message}");
    }
    for chosen in [secret().tags(["order"]), secret().operations(["get_u*", "list*"])] {
        let reason = unusable(chosen).await;
        assert!(matches!(reason, Unusable::Choice(_)), "{reason}");
    }
}

#[tokio::test]
async fn credentials_that_do_not_fit_their_scheme_are_refused() {
    let document = json!({"openapi": "3.0.1", "paths": {}, "servers": [{"url": "https://a.example"}], "components": {
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "Bearer"}, "basic": {"type": "http", "scheme": "basic"},
            "digest": {"type": "http", "scheme": "digest"}, "oauth": {"type": "oauth2"},
            "host": {"type": "apiKey", "in": "header", "name": "Host"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "a"},
            "split": {"type": "apiKey", "in": "header", "name": "a\r\nb"}, "away": {"$ref": "https://evil.example/"},
        },
    }});
    let (bearer, key) = (Credential::Bearer("secret".into()), Credential::ApiKey("secret".into()));
    let basic = Credential::Basic { user: "me:you".into(), password: "secret".into() };
    let split = Credential::Bearer("secret\r\nHost: a".into());
    for (scheme, credential) in [
        ("bearer", &key),
        ("bearer", &split),
        ("basic", &bearer),
        ("basic", &basic),
        ("digest", &bearer),
        ("oauth", &key),
        ("host", &key),
        ("cookie", &Credential::ApiKey("secret; b=c".into())),
        ("split", &key),
        ("away", &key),
    ] {
        let reason = unusable(api(&document).credentials(scheme, credential.clone())).await;
        let text = format!("{reason} {reason:?}");
        assert!(matches!(reason, Unusable::Credential { .. }) && !text.contains("secret"), "{scheme}: {text}");
    }
    let reason = unusable(api(&document).credentials("baerer", bearer)).await;
    assert!(matches!(&reason, Unusable::Scheme { known, .. } if known.contains("bearer")), "{reason}");
}

#[tokio::test]
async fn operations_that_cannot_be_represented_are_left_out_one_by_one() {
    let path = |parameter: Value| json!({"get": {"parameters": [parameter]}});
    let required = |place: &str, more: Value| {
        let mut parameter = json!({"name": "p", "in": place, "required": true, "schema": {}});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        path(parameter)
    };
    let body = |content: Value| json!({"post": {"requestBody": {"content": content}}});
    let schema = |schema: Value| json!({"get": {"parameters": [{"name": "p", "in": "query", "schema": schema}]}});
    let paths = json!({
        "/fine": {"get": {}},
        "/../up": {"get": {}},
        "/a/%2e%2e/b": {"get": {}},
        "/query?x=1": {"get": {}},
        "relative": {"get": {}},
        "//host/path": {"get": {}},
        "/unnamed/{p}": {"get": {}},
        "/open/{p": {"get": {}},
        "/nobody/uses": required("path", json!({})),
        "/style/{p}": required("path", json!({"style": "deepObject"})),
        "/cookie": required("cookie", json!({"name": "a;b"})),
        "/header": required("header", json!({"name": "Transfer-Encoding"})),
        "/place": required("elsewhere", json!({})),
        "/mixed": body(json!({"multipart/mixed": {}})),
        "/loop": schema(json!({"$ref": "#/components/schemas/Loop"})),
        "/away": schema(json!({"$ref": "https://evil.example/schema.json"})),
        "/file": schema(json!({"$ref": "file:///etc/passwd"})),
        "/nonsense": schema(json!({"type": "no such type"})),
        "/large": schema(json!({"enum": ["x".repeat(300_000)]})),
        "/trace": {"trace": {}},
        "/shape": {"get": 7},
        "/server": {"get": {"servers": [{"url": "https://evil.example"}]}},
        "/item": {"$ref": "#/nowhere"},
    });
    let schemas = json!({"Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}]}});
    let servers = json!([{"url": "https://a.example/base"}]);
    let document = json!({"openapi": "3.1.0", "servers": servers, "paths": paths, "components": {"schemas": schemas}});
    let (tools, mount) = mount(api(&document)).await.unwrap();
    let names: Vec<String> = tools.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["api.get_fine", "api.get_host_path"]);
    assert_eq!(mount.left_out.len(), paths.as_object().unwrap().len() - 2, "{:#?}", mount.left_out);
    assert!(mount.left_out.iter().all(|left_out| left_out.reason.to_string().len() < 400));
}

/// Checks that the cost of a hostile document is bounded, whatever is in it.
#[tokio::test]
async fn documents_that_multiply_cost_little() {
    let began = Instant::now();
    let servers = json!([{"url": "https://a.example"}]);
    // More operations than are taken, all of one name.
    let many: Value = (0..3_000).map(|n| (format!("/{n}"), json!({"get": {"operationId": "same"}}))).collect();
    let (tools, mounted) = mount(api(&json!({"openapi": "3.1.0", "servers": servers, "paths": many}))).await.unwrap();
    assert_eq!(tools.specs().len(), 2_000);
    assert!(tools.spec("api.same").is_some() && tools.spec("api.same_2000").is_some());
    assert_eq!(mounted.left_out[0].reason, Flaw::TooMany(2_000));

    // Every operation refers to the same large schema; every definition to the next two.
    let large = json!({"type": "object", "properties": {"a": {"enum": ["x".repeat(100_000)]}}});
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let two = |n: usize| json!({"properties": {"a": to(&format!("D{}", n + 1)), "b": to(&format!("D{}", n + 2))}});
    let mut schemas: serde_json::Map<String, Value> = (0..600).map(|n| (format!("D{n}"), two(n))).collect();
    schemas.insert("Large".into(), large);
    let query = |name: &str| json!({"get": {"parameters": [{"name": "p", "in": "query", "schema": to(name)}]}});
    let paths: Value = (0..900).map(|n| (format!("/{n}"), query(if n % 2 == 0 { "Large" } else { "D0" }))).collect();
    let document = json!({"openapi": "3.1.0", "servers": servers, "paths": paths, "components": {"schemas": schemas}});
    let (tools, _mounted) = mount(api(&document)).await.unwrap();
    let bytes: usize =
        tools.specs().iter().map(|spec| spec.input_schema.to_string().len() + spec.description.len()).sum();
    assert!((1 << 20..5 << 20).contains(&bytes), "{bytes}");

    // References that lead round in a circle, everywhere a reference can stand.
    let circle = json!({"$ref": "#/circle"});
    let document = json!({"openapi": "3.1.0", "servers": servers, "circle": circle, "paths": {
        "/a": circle, "/b": {"get": {"parameters": [circle]}}, "/c": {"post": {"requestBody": circle}},
        "/d": {"get": {"parameters": [{"name": "p", "in": "query", "schema": circle}]}},
    }});
    let (tools, mounted) = mount(api(&document)).await.unwrap();
    assert_eq!((tools.specs().len(), mounted.left_out.len()), (0, 4));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_fetch_that_never_ends_can_be_given_up() {
    let docs = Server::start(|_| response(200, &[], endless())).await;
    let tools = Tools::new();
    let api = OpenApi::from_url(docs.url("/")).allow_private("127.0.0.1/32").unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(300), api.mount(&tools, "api")).await;
    assert!(given_up.is_err() && tools.servers().is_empty());
}
