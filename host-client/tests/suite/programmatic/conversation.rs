//! Tests of the conversation: the prompt for the model, its answers, and the result for the application.

use std::sync::{Arc, Mutex};

use host_client::programmatic::{Message, ModelUsage, Programmatic, ProgrammaticRequest, Role, Step};
use host_client::{Client, Event, LazyClient, LocalRelay, Tools};
use serde_json::json;

use super::{Scene, Scripted, watched, within};

const PROGRAM: &str = "\
Here it is:
```js
const [a, b] = await Promise.all([mcp.call('math.add', {a: 1, b: 2}), mcp.call('math.add', {a: 3, b: 4})]);
return {sum: a + b};
```";

#[tokio::test]
async fn a_request_becomes_a_program_and_the_program_a_result() {
    let (scene, model) = (Scene::new().await, Scripted::new([PROGRAM]));
    let (request, steps) = watched(ProgrammaticRequest::new("Add 1 to 4"));
    let answer = within(scene.programmatic(&model).run(request)).await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!({"sum": 10}));
    assert_eq!(answer.code, PROGRAM);
    assert_eq!(answer.usage.model, ModelUsage { input_tokens: Some(100), output_tokens: Some(10) });
    assert_eq!(answer.usage.execution.tool_calls, 2);
    assert_eq!((answer.attempts.len(), answer.attempts[0].changes.len()), (1, 0));
    assert_eq!(*steps.lock().unwrap(), ["asked 1", "replied 1", "running 1", "done 1"]);
    let asked = model.asked();
    assert_eq!(asked[0].messages, [Message::user("Add 1 to 4")]);
    for taught in [
        "mcp.call(\"server.tool\"",
        "Promise.all",
        "`return`",
        "`code`",
        "`message`",
        "require",
        "import",
        "fetch",
        "fs",
        "process",
        "console",
        "TypeScript",
        "await exa.search({query: ",
        "`my_server.get_it`",
        "mcp.search(",
        "mcp.describe(",
        "__getToolInterface(",
        "setTimeout",
        "math.add(args: { a: number; b: number }): Promise<number> // Adds two numbers",
    ] {
        assert!(asked[0].system.contains(taught), "{taught} is not in: {}", asked[0].system);
    }
}

#[tokio::test]
async fn only_what_the_relay_offers_is_taught_and_asked_for() {
    let (scene, model) = (Scene::new().await, Scripted::new(["return typeof console", "return typeof setTimeout"]));
    let offered = |name: &str| scene.client.offered().iter().any(|it| it == name);
    let answer = scene.run(&model, "Is there a console?").await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!("object"));
    let answer = scene.run(&model, "Are there timers?").await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!(if offered("timers") { "function" } else { "undefined" }));
    let system = &model.asked()[0].system;
    assert_eq!(system.contains("setTimeout"), offered("timers"), "{system}");
    assert_eq!(system.contains("exa.search"), offered("servers"), "{system}");
    assert_eq!(system.contains("mcp.search"), offered("introspection"), "{system}");
}

#[tokio::test]
async fn the_system_prompt_and_the_conversation_are_kept_and_go_on() {
    let (scene, model) = (Scene::new().await, Scripted::new(["return 1", "return 2"]));
    let history = [Message::user("Hello"), Message::assistant("Hello!")];
    let request = ProgrammaticRequest::new("one").system("You are Ada.").history(history.clone());
    let first = within(scene.programmatic(&model).run(request)).await.unwrap();
    assert_eq!(
        first.messages,
        [Message::user("one"), Message::assistant("return 1"), Message::user("The program returned:\n1")]
    );
    let request = ProgrammaticRequest::new("two").history(history.clone()).history(first.messages.clone());
    within(scene.programmatic(&model).run(request)).await.unwrap();
    let asked = model.asked();
    assert!(asked[0].system.starts_with("You are Ada.\n\nYou fulfil the user's request"), "{}", asked[0].system);
    assert_eq!(asked[0].messages, [&history[..], &[Message::user("one")]].concat());
    assert_eq!(asked[1].messages, [&history[..], &first.messages, &[Message::user("two")]].concat());
    assert_eq!(asked[1].messages.last().unwrap().role, Role::User);
}

#[tokio::test]
async fn what_the_program_does_is_told_as_it_happens() {
    let (scene, model) =
        (Scene::new().await, Scripted::new(["console.log('hi'); return await mcp.call('math.add', {a: 1, b: 1})"]));
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let request = ProgrammaticRequest::new("go").watch(move |step| {
        if let Step::Execution { attempt: 1, event } = step {
            seen.lock().unwrap().push(event);
        }
    });
    within(scene.programmatic(&model).run(request)).await.unwrap();
    let events = events.lock().unwrap();
    let has = |fits: fn(&Event) -> bool| events.iter().any(fits);
    assert!(has(|event| matches!(event, Event::ToolCallFinished { tool, .. } if tool.as_str() == "math.add")));
    assert!(has(|event| matches!(event, Event::Output(item) if item.text == "hi")));
    assert!(matches!(events.last(), Some(Event::Ended { code: None, .. })));
}

#[tokio::test]
async fn the_model_is_asked_while_the_relay_is_connected_to() {
    let relay = LocalRelay::start().await.unwrap();
    let config = relay.client_config().await.unwrap();
    let model = Scripted::new(["return 1"]);
    // It connects only after the model was asked: one after the other would wait forever.
    let waiting = model.clone();
    let client = LazyClient::new(Tools::new(), move |host| {
        let (waiting, config) = (waiting.clone(), config.clone());
        async move {
            while waiting.asked().is_empty() {
                tokio::task::yield_now().await;
            }
            Client::connect(config, host).await
        }
    });
    let programmatic = Programmatic::new(model, client);
    let answer = within(programmatic.run(ProgrammaticRequest::new("one"))).await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!(1));
}

#[tokio::test]
async fn the_answer_is_whole_and_the_conversation_has_what_fits() {
    let program = "return Array.from({length: 2000}, (_, id) => ({id, body: 'all is well '.repeat(10)}))";
    let (scene, model) = (Scene::new().await, Scripted::new([program]));
    let answer = scene.run(&model, "All of it").await.unwrap();
    assert_eq!(answer.outcome.value().unwrap().as_array().unwrap().len(), 2_000);
    let told = &answer.messages.last().unwrap().content;
    assert!(told.starts_with("The program returned:\n[Summary: an array of 2000 items, "), "{told}");
    // There is no tool to read on with.
    assert!(told.len() < 7_000 && !told.contains("read_output"), "{told}");
}
