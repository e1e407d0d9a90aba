//! Pipeline of a tool call on its host, with a real relay on the other end: rules, people, schemas, budgets, events.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use host_client::{
    Approval, ApprovalRequest, Budget, CallbackApprover, Client, Effect, ErrorCode, Event, ExecuteRequest, Host,
    LimitName, LocalRelay, ManifestChange, Overflow, Phase, Policy, ToolError, ToolSpec, Tools, TraceContext, Verdict,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use relay_test_support::within;

#[derive(Debug, Deserialize, JsonSchema)]
struct Pay {
    amount: u32,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}

/// `bank.balance` reads, `bank.pay` changes, `bank.odd` says nothing of itself. They note what they do.
fn bank(done: &Arc<Mutex<Vec<String>>>) -> Tools {
    let tools = Tools::new();
    let note = |text: String| {
        let done = Arc::clone(done);
        move || done.lock().unwrap().push(text.clone())
    };
    let read = note("balance".into());
    let balance = move |_: Nothing| {
        read();
        async { Ok::<_, ToolError>(100) }
    };
    tools.add("bank.balance", "What is there", Effect::ReadOnly, balance).unwrap();
    let paid = Arc::clone(done);
    let pay = move |Pay { amount }| {
        paid.lock().unwrap().push(format!("pay {amount}"));
        async move { Ok::<_, ToolError>(amount) }
    };
    tools.add("bank.pay", "Pays", Effect::Mutating, pay).unwrap();
    let odd = note("odd".into());
    tools
        .add_with(ToolSpec::new("bank.odd", "Who knows", json!({"type": "object"})), move |_, _| {
            odd();
            async { Ok("1".into()) }
        })
        .unwrap();
    tools
}

struct Bank {
    _relay: LocalRelay,
    client: Client,
    done: Arc<Mutex<Vec<String>>>,
}

impl Bank {
    async fn open(configure: impl FnOnce(Host) -> Host) -> Self {
        let relay = within(LocalRelay::start()).await.unwrap();
        let done = Arc::default();
        let host = configure(Host::new(bank(&done)));
        let client = Client::connect(relay.client_config().await.unwrap(), host).await.unwrap();
        Self { _relay: relay, client, done }
    }

    async fn value(&self, code: &str) -> Value {
        self.run(ExecuteRequest::new(code).always_in_sandbox()).await
    }

    async fn run(&self, request: ExecuteRequest) -> Value {
        within(self.client.run(request)).await.unwrap().value().unwrap()
    }

    fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock().unwrap())
    }
}

/// Code that tells how a call failed.
fn failing(call: &str) -> String {
    format!("return await {call}.then(value => ({{value}}), ({{code, message}}) => ({{code, message}}))")
}

const PAY: &str = "mcp.call('bank.pay', {amount: 5})";

fn approver(
    asked: &Arc<Mutex<Vec<ApprovalRequest>>>,
    answers: impl IntoIterator<Item = Approval>,
) -> CallbackApprover<impl Fn(ApprovalRequest) -> std::future::Ready<Approval> + Send + Sync + 'static> {
    let (asked, answers) = (Arc::clone(asked), Mutex::new(answers.into_iter().collect::<Vec<_>>().into_iter()));
    CallbackApprover::new("a test", move |request| {
        asked.lock().unwrap().push(request);
        std::future::ready(answers.lock().unwrap().next().expect("nobody has to be asked any more"))
    })
}

#[tokio::test]
async fn without_rules_and_people_only_what_reads_runs() {
    let bank = Bank::open(|host| host).await;
    assert_eq!(bank.value("return await mcp.call('bank.balance')").await, json!(100));
    for call in [PAY, "mcp.call('bank.odd')"] {
        let failure = bank.value(&failing(call)).await;
        assert_eq!(failure["code"], "APPROVAL_DENIED", "{failure}");
        let message = failure["message"].as_str().unwrap();
        assert!(message.contains("nobody to ask") && message.contains("policy"), "{message}");
    }
    assert_eq!(bank.done(), ["balance"]);
}

#[tokio::test]
async fn rules_decide_and_say_why() {
    let policy = Policy::new().deny(["bank.p*"], "no money leaves").allow(["bank.odd"]);
    let bank = Bank::open(|host| host.policy(policy)).await;
    let failure = bank.value(&failing(PAY)).await;
    assert_eq!(failure, json!({"code": "TOOL_DENIED", "message": "bank.pay was denied: no money leaves"}));
    assert_eq!(bank.value("return await mcp.call('bank.odd')").await, json!(1));
    // A denied call is not checked any further.
    let failure = bank.value(&failing("mcp.call('bank.pay', {amount: 'x'})")).await;
    assert_eq!(failure["code"], "TOOL_DENIED");
    assert_eq!(bank.done(), ["odd"]);
}

#[tokio::test]
async fn a_person_is_asked_about_exactly_what_would_run() {
    let asked = Arc::default();
    let answers = [Approval::Once, Approval::Deny { reason: Some("too much".into()) }];
    let bank = Bank::open(|host| host.approver(approver(&asked, answers))).await;
    assert_eq!(bank.value(&format!("return await {PAY}")).await, json!(5));
    let failure = bank.value(&failing("mcp.call('bank.pay', {amount: 9})")).await;
    assert_eq!(failure, json!({"code": "APPROVAL_DENIED", "message": "bank.pay was denied: too much"}));
    // Nobody is asked about what could not run.
    let failure = bank.value(&failing("mcp.call('bank.pay', {amount: 'x'})")).await;
    assert_eq!(failure["code"], "INVALID_ARGUMENTS", "{failure}");
    assert_eq!(bank.done(), ["pay 5"]);
    let asked = asked.lock().unwrap();
    let [first, second] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((first.tool.as_str(), &*first.arguments), ("bank.pay", &json!({"amount": 5})));
    assert_eq!(*second.arguments, json!({"amount": 9}));
    assert_eq!((&*first.rule, first.description.as_str()), ("default: ask mutating", "Pays"));
    assert!(first.code.contains("amount: 5") && first.manifest.effect == Some(Effect::Mutating));
}

#[tokio::test]
async fn an_answer_holds_as_long_as_it_says() {
    let asked = Arc::default();
    let answers = [Approval::Execution, Approval::Once, Approval::Session];
    let bank = Bank::open(|host| host.approver(approver(&asked, answers))).await;
    let thrice = format!("return (await Promise.all([{PAY}, {PAY}, {PAY}])).length");
    let once = format!("return await {PAY}");
    // One answer for the three at once, one for the next, and one for all that follow.
    for (code, value, in_all) in [(&thrice, 3, 1), (&once, 5, 2), (&once, 5, 3), (&once, 5, 3), (&thrice, 3, 3)] {
        assert_eq!(bank.value(code).await, json!(value));
        assert_eq!(asked.lock().unwrap().len(), in_all);
    }
    assert_eq!(bank.done().len(), 9);
}

#[tokio::test]
async fn clocks_stand_still_while_a_person_thinks() {
    let (asked, ran_out) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let person = (Arc::clone(&asked), Arc::clone(&ran_out));
    let slow = CallbackApprover::new("slow", move |_| {
        let (asked, ran_out) = person.clone();
        async move {
            asked.notify_one();
            ran_out.notified().await;
            Approval::Once
        }
    });
    let bank = Bank::open(|host| host.approver(slow)).await;
    let limited = |code: String| {
        let request = ExecuteRequest::new(code).always_in_sandbox().bindings(["timers"]);
        request.limit(LimitName::WallMs, 1_000).limit(LimitName::ToolCallMs, 500)
    };
    // The person answers when the time of another execution with the same limits, begun later, has run out.
    let other = async {
        asked.notified().await;
        let waiting = limited("await new Promise((go) => setTimeout(go, 60_000))".into());
        let error = bank.client.run(waiting).await.unwrap_err();
        assert_eq!(error.code().unwrap(), &ErrorCode::Timeout, "{error}");
        ran_out.notify_one();
    };
    let (outcome, ()) =
        within(async { tokio::join!(bank.client.run(limited(format!("return await {PAY}"))), other) }).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.value().unwrap(), json!(5));
    assert!(outcome.usage.approval >= Duration::from_secs(1), "{:?}", outcome.usage);
    assert!(outcome.usage.wall < Duration::from_secs(1), "{:?}", outcome.usage);
}

#[tokio::test]
async fn no_answer_is_a_no_and_a_broken_approver_is_one_too() {
    let never = CallbackApprover::new("asleep", |_| std::future::pending());
    let bank = Bank::open(|host| host.approver(never)).await;
    let request = ExecuteRequest::new(failing(PAY)).always_in_sandbox().limit(LimitName::ApprovalMs, 300);
    assert_eq!(bank.run(request).await["code"], "APPROVAL_TIMEOUT");
    assert_eq!(bank.done(), Vec::<String>::new());

    let broken = CallbackApprover::new("broken", |request: ApprovalRequest| async move {
        if request.call > 0 {
            panic!("inside")
        }
        Approval::Once
    });
    let bank = Bank::open(|host| host.approver(broken)).await;
    assert_eq!(bank.value(&failing(PAY)).await["code"], "APPROVAL_DENIED");
    assert_eq!(bank.done(), Vec::<String>::new());
    // The session goes on.
    assert_eq!(bank.value("return await mcp.call('bank.balance')").await, json!(100));
}

#[tokio::test]
async fn code_cannot_wear_people_out() {
    let asked = Arc::default();
    let bank = Bank::open(|host| host.approver(approver(&asked, [1, 2, 3].map(|_| Approval::deny())))).await;
    let code = format!("let n = 0; while (n < 50) await {PAY}.catch(() => n++); return n");
    assert_eq!(bank.value(&code).await, json!(50));
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_result_that_its_schema_forbids_never_reaches_the_code() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let tools = Tools::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    for (name, answer) in [("t.good", r#"{"n":1}"#), ("t.bad", r#"{"n":"x"}"#), ("t.junk", "{]"), ("t.none", "")] {
        let spec = ToolSpec::new(name, "", json!({})).effect(Effect::ReadOnly).output_schema(schema.clone());
        tools.add_with(spec, move |_, _| async move { Ok(answer.into()) }).unwrap();
    }
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    let code = "const out = {}; for (const t of ['good', 'bad', 'junk', 'none'])
        out[t] = await mcp.call('t.' + t).then(JSON.stringify, e => e.code + ' ' + e.message); return out";
    let out = within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap().value().unwrap();
    assert_eq!(out["good"], r#"{"n":1}"#);
    for name in ["bad", "junk", "none"] {
        assert!(out[name].as_str().unwrap().starts_with("INVALID_RESULT t."), "{out}");
    }
    assert!(out["bad"].as_str().unwrap().contains("at /n"), "{out}");
}

#[tokio::test]
async fn budgets_and_phases_hold_for_each_execution() {
    let policy = Policy::new().allow(["bank.*"]).in_write_phase(["bank.pay"]).budget(Budget {
        calls: Some(3),
        bytes_returned: Some(200),
        ..Budget::default()
    });
    let bank = Bank::open(|host| host.policy(policy)).await;
    let code = "let n = 0; try { for (;;) { await mcp.call('bank.balance'); n++ } } catch (e) { return [n, e.code] }";
    for _ in 0..2 {
        assert_eq!(bank.value(code).await, json!([3, "TOOL_CALL_LIMIT"]));
    }
    let error = within(bank.client.run(ExecuteRequest::new("return 'x'.repeat(300)"))).await.unwrap_err();
    assert_eq!(error.code().unwrap(), &ErrorCode::ResultLimit);
    bank.done();
    for (phase, code) in [(Phase::Discover, "TOOL_DENIED"), (Phase::Write, "TOOL_DENIED")] {
        let odd = bank.run(ExecuteRequest::new(failing("mcp.call('bank.odd')")).always_in_sandbox().phase(phase)).await;
        assert_eq!(odd["code"], code, "{odd}");
    }
    let pay = |phase| bank.run(ExecuteRequest::new(failing(PAY)).always_in_sandbox().phase(phase));
    assert_eq!(pay(Phase::Discover).await["code"], "TOOL_DENIED");
    assert_eq!(pay(Phase::Write).await, json!({"value": 5}));
    assert_eq!(bank.done(), ["pay 5"]);
}

#[tokio::test]
async fn events_tell_the_story_in_its_order() {
    let asked = Arc::default();
    let policy = Policy::new().deny(["bank.odd"], "no");
    let answers = [Approval::Once, Approval::deny()];
    let bank = Bank::open(|host| host.policy(policy).approver(approver(&asked, answers))).await;
    let code = format!(
        "console.log('hello'); await mcp.call('bank.balance'); await {PAY}; await {PAY}.catch(() => 0);
         await mcp.call('bank.odd').catch(() => 0); await mcp.call('bank.balance', 7).catch(() => 0); return 'done'"
    );
    let mut execution = bank.client.execute(ExecuteRequest::new(&code).always_in_sandbox()).await.unwrap();
    let mut events = execution.events().unwrap();
    within(execution).await.unwrap();
    let mut story = Vec::new();
    while let Some(event) = within(events.next()).await {
        story.push(match event {
            Event::CodeReceived { bytes } => format!("code {}", bytes == code.len()),
            Event::RouteChosen(path) => format!("path {path:?}"),
            Event::Started => "started".into(),
            Event::ToolCallRequested { id, tool, .. } => format!("{id} {tool}"),
            Event::ToolCallDenied { id, code, rule, .. } => format!("{id} denied {code} {rule}"),
            Event::ToolCallAwaitingApproval { id, rule, .. } => format!("{id} asks {rule}"),
            Event::ToolCallApproved { id, by, scope, .. } => format!("{id} approved by {} {scope}", by.unwrap()),
            Event::ToolCallStarted { id, .. } => format!("{id} runs"),
            Event::ToolCallFinished { id, result_bytes, .. } => format!("{id} finished {result_bytes}"),
            Event::ToolCallFailed { id, code, .. } => format!("{id} failed {code}"),
            Event::Output(item) => format!("output {}", item.text),
            Event::Result { bytes } => format!("result {bytes}"),
            Event::Ended { code, usage } => format!("ended {code:?} {}", usage.tool_calls),
            other => panic!("{other:?}"),
        });
    }
    let expected = [
        "code true",
        "path Relay",
        "started",
        "output hello",
        "1 bank.balance",
        "1 runs",
        "1 finished 3",
        "2 bank.pay",
        "2 asks default: ask mutating",
        "2 approved by a test once",
        "2 runs",
        "2 finished 1",
        "3 bank.pay",
        "3 asks default: ask mutating",
        "3 denied APPROVAL_DENIED default: ask mutating",
        "4 bank.odd",
        "4 denied TOOL_DENIED rule 1: deny bank.odd",
        "5 bank.balance",
        "5 failed INVALID_ARGUMENTS",
        "result 6",
        "ended None 5",
    ];
    assert_eq!(story, expected);
}

#[tokio::test]
async fn tools_can_change_while_a_client_is_connected() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let tools = Tools::new();
    let client = Client::connect(relay.client_config().await.unwrap(), tools.clone()).await.unwrap();
    let run = async |code: &str| {
        within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap().value().unwrap()
    };
    assert_eq!(run(&failing("mcp.call('late.one')")).await["code"], "UNKNOWN_SERVER");
    let one = |_: Nothing| async { Ok::<_, ToolError>(1) };
    tools.add("late.one", "Comes later", Effect::ReadOnly, one).unwrap();
    // The relay is told soon, not at once.
    within(async { while run(&failing("mcp.call('late.one')")).await != json!({"value": 1}) {} }).await;
    let hidden = ManifestChange { callable_from_code: Some(false), ..ManifestChange::default() };
    tools.amend(["late.*"], hidden).unwrap();
    let failure = run(&failing("mcp.call('late.one')")).await;
    assert!(["UNKNOWN_SERVER", "UNKNOWN_TOOL"].contains(&failure["code"].as_str().unwrap()), "{failure}");
}

#[tokio::test]
async fn manifests_limit_time_size_and_number() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let tools = Tools::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut spec = ToolSpec::new("t.few", "Two at a time", json!({})).effect(Effect::ReadOnly);
    spec.manifest.concurrency = Some(2);
    // Each call waits for another one that runs beside it.
    let counted = (Arc::clone(&running), Arc::clone(&most), Arc::new(tokio::sync::Barrier::new(2)));
    tools
        .add_with(spec, move |_, _| {
            let (running, most, pair) = counted.clone();
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                pair.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok("1".into())
            }
        })
        .unwrap();
    let mut spec = ToolSpec::new("t.long", "Says much", json!({})).effect(Effect::ReadOnly);
    (spec.manifest.result_bytes, spec.manifest.overflow) = (1_000, Overflow::Cut);
    let text = serde_json::to_vec(&"ü".repeat(5_000)).unwrap();
    tools.add_with(spec, move |_, _| std::future::ready(Ok(text.clone().into()))).unwrap();
    let slow = ToolSpec::new("t.slow", "", json!({})).effect(Effect::ReadOnly).timeout(Duration::from_millis(50));
    tools.add_with(slow, |_, _| std::future::pending()).unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    let run = async |code: &str| {
        within(client.run(ExecuteRequest::new(code).always_in_sandbox())).await.unwrap().value().unwrap()
    };
    let code = "return (await Promise.all(Array.from({length: 10}, () => mcp.call('t.few')))).length";
    assert_eq!(run(code).await, json!(10));
    assert_eq!(most.load(Ordering::SeqCst), 2);
    let long = run("return await mcp.call('t.long')").await;
    let (kept, note) = long.as_str().unwrap().split_once("\n[cut: ").unwrap();
    assert!(kept.len() > 500 && note.contains("of 10000 bytes are left out; the tool's limit is 1000"), "{note}");
    let failure = run(&failing("mcp.call('t.slow')")).await;
    assert_eq!(failure["message"], "t.slow did not answer within 50 ms");
}

/// A layer that counts, and refuses every third call.
#[derive(Clone)]
struct Counting<S> {
    inner: S,
    calls: Arc<AtomicUsize>,
}

impl<S> tower::Service<host_client::executor::ToolRequest> for Counting<S>
where
    S: tower::Service<host_client::executor::ToolRequest, Response = bytes::Bytes, Error = tower::BoxError>,
    S::Future: Send + 'static,
{
    type Response = bytes::Bytes;
    type Error = tower::BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<bytes::Bytes, tower::BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), tower::BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: host_client::executor::ToolRequest) -> Self::Future {
        assert_eq!(request.manifest().effect, Some(Effect::ReadOnly));
        if self.calls.fetch_add(1, Ordering::SeqCst) % 3 == 2 {
            return Box::pin(std::future::ready(Err("too many".into())));
        }
        Box::pin(self.inner.call(request))
    }
}

#[tokio::test]
async fn layers_stand_around_the_tools_and_nowhere_else() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let layer = tower::layer::layer_fn(move |inner| Counting { inner, calls: Arc::clone(&counted) });
    let bank = Bank::open(|host| host.layer(&layer)).await;
    let balance = "mcp.call('bank.balance')";
    let code = format!("await {balance}; await {balance}; {}", failing(balance));
    assert_eq!(bank.value(&code).await, json!({"code": "TOOL_FAILED", "message": "too many"}));
    bank.value(&failing("mcp.call('bank.balance', 5)")).await;
    bank.value(&failing(PAY)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3, "what does not run meets no layer");
    // A tool's own error keeps its code on its way through.
    let host = Host::new({
        let tools = Tools::new();
        let unknown = |_: Nothing| async { Err::<(), _>(ToolError::outcome_unknown("it broke off")) };
        tools.add("t.t", "", Effect::ReadOnly, unknown).unwrap();
        tools
    })
    .layer(&layer);
    let error = host.call("t.t", &json!({})).await.unwrap_err();
    assert_eq!((error.code().unwrap().as_str(), error.to_string().contains("it broke off")), ("OUTCOME_UNKNOWN", true));
}

#[tokio::test]
async fn a_call_without_code_passes_the_same_steps() {
    let done = Arc::default();
    let asked = Arc::default();
    let policy = Policy::new().deny(["bank.odd"], "no").by_effect(None, Verdict::Allow);
    let host = Host::new(bank(&done)).policy(policy).approver(approver(&asked, [Approval::Session]));
    assert_eq!(&host.call("bank.balance", &json!({})).await.unwrap()[..], b"100");
    for amount in [1, 2] {
        assert_eq!(host.call("bank.pay", &json!({"amount": amount})).await.unwrap(), amount.to_string());
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    for (tool, arguments, code) in [
        ("bank.odd", json!({}), ErrorCode::ToolDenied),
        ("bank.pay", json!({"amuont": 1}), ErrorCode::InvalidArguments),
        ("bank.balanse", json!({}), ErrorCode::UnknownTool),
        ("bnak.balance", json!({}), ErrorCode::UnknownServer),
        ("balance", json!({}), ErrorCode::InvalidToolName),
    ] {
        let error = host.call(tool, &arguments).await.unwrap_err();
        assert_eq!(error.code().unwrap(), &code, "{error}");
    }
    let error = host.call("bank.balanse", &json!({})).await.unwrap_err().to_string();
    assert!(error.contains("did you mean \"balance\"?"), "{error}");
    assert_eq!(*done.lock().unwrap(), ["balance", "pay 1", "pay 2"]);
}

#[tokio::test]
async fn a_trace_goes_through_to_the_tool() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let tools = Tools::new();
    let spec = ToolSpec::new("t.trace", "", json!({})).effect(Effect::ReadOnly);
    let trace = |_, context: host_client::CallContext| async move { Ok(format!("\"{}\"", context.trace).into()) };
    tools.add_with(spec, trace).unwrap();
    let client = Client::connect(relay.client_config().await.unwrap(), tools).await.unwrap();
    let parent: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let request = ExecuteRequest::new("return [await mcp.call('t.trace'), await mcp.call('t.trace')]")
        .always_in_sandbox()
        .trace(parent);
    let traces = within(client.run(request)).await.unwrap().parse::<[String; 2]>().unwrap();
    let [one, other] = traces.map(|trace| trace.parse::<TraceContext>().unwrap());
    assert!(one != other && one != parent && one.trace_id() == parent.trace_id() && other.trace_id() == one.trace_id());
}

#[tokio::test]
async fn what_a_session_was_given_is_not_another_sessions_nor_another_tools() {
    let relay = within(LocalRelay::start()).await.unwrap();
    let (done, asked) = (Arc::default(), Arc::default());
    let answers = [Approval::Session, Approval::Once, Approval::Once];
    let host = Arc::new(Host::new(bank(&done)).approver(approver(&asked, answers)));
    let connect = async || Client::connect(relay.client_config().await.unwrap(), Arc::clone(&host)).await.unwrap();
    let (one, other) = (connect().await, connect().await);
    let pay = async |client: &Client| {
        within(client.run(ExecuteRequest::new(format!("return await {PAY}")).always_in_sandbox()))
            .await
            .unwrap()
            .value()
            .unwrap()
    };
    for (client, in_all) in [(&one, 1), (&one, 1), (&other, 2), (&one, 2)] {
        assert_eq!(pay(client).await, json!(5));
        assert_eq!(asked.lock().unwrap().len(), in_all);
    }
    // The tool becomes another one under its name: it is asked about again.
    let change = ManifestChange { effect: Some(Effect::Privileged), ..ManifestChange::default() };
    host.tools().amend(["bank.pay"], change).unwrap();
    assert_eq!(pay(&one).await, json!(5));
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn questions_are_asked_one_after_the_other_and_each_has_its_time() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let slow = CallbackApprover::new("slow", move |request: ApprovalRequest| {
        noted.lock().unwrap().push(request.deadline.saturating_duration_since(tokio::time::Instant::now()));
        async move {
            // With 600 of its 1,000 ms left, so that all five together take longer than one may.
            tokio::time::sleep_until(request.deadline - Duration::from_millis(600)).await;
            Approval::Once
        }
    });
    let bank = Bank::open(|host| host.approver(slow)).await;
    let code = format!("return (await Promise.all(Array.from({{length: 5}}, () => {PAY}))).length");
    let request = ExecuteRequest::new(code)
        .always_in_sandbox()
        .limit(LimitName::ApprovalMs, 1_000)
        .limit(LimitName::ToolCallMs, 500);
    assert_eq!(bank.run(request).await, json!(5));
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 5 && seen.iter().all(|left| *left > Duration::from_millis(900)), "{seen:?}");
}

#[tokio::test]
async fn what_an_application_writes_of_its_rules_never_reaches_the_code() {
    let policy =
        Policy::parse("[[rule]]\ntools = [\"bank.pay\"]\ndecision = \"ask\"", "/home/alice/secret.toml").unwrap();
    let bank = Bank::open(|host| host.policy(policy)).await;
    let failure = bank.value(&failing(PAY)).await.to_string();
    assert!(failure.contains("APPROVAL_DENIED") && !failure.contains("alice"), "{failure}");
}
