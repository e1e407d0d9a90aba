//! Models that answer with prose, with too much, with half, or not at all; and relays that are not there.

use std::time::Duration;

use host_client::programmatic::{
    Failed, ModelError, ModelReply, NotRepaired, Programmatic, ProgrammaticConfig, ProgrammaticError,
    ProgrammaticRequest,
};
use serde_json::json;

use super::{Scene, Scripted, nowhere, watched, within};

const PROSE: &str = "I'm sorry, I cannot do that (there is no tool); return to me later.";

#[tokio::test]
async fn prose_is_answered_with_that_and_then_with_code() {
    let (scene, model) = (Scene::new().await, Scripted::new([PROSE, "return 1"]));
    let (request, steps) = watched(ProgrammaticRequest::new("go"));
    let answer = within(scene.programmatic(&model).run(request)).await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!(1));
    // Nothing is sent to the relay.
    assert_eq!(steps.lock().unwrap()[..4], ["asked 1", "replied 1", "failed 1 -", "repairing 2"]);
    let told = &model.asked()[1].messages[2].content;
    assert!(told.contains("There is no code in your answer"), "{told}");
    assert_eq!((answer.attempts[0].code.as_deref(), &*answer.attempts[0].reply), (None, PROSE));
}

#[tokio::test]
async fn prose_twice_or_nothing_at_all_is_an_error_that_carries_it() {
    let scene = Scene::new().await;
    for reply in [PROSE, "", "  \n"] {
        let model = Scripted::new([reply, reply]);
        let failed = scene.run(&model, "go").await.unwrap_err();
        assert!(matches!(&failed.error, ProgrammaticError::NoCode { reply: carried } if carried == reply), "{failed}");
        assert_eq!((failed.not_repaired.clone(), failed.attempts.len()), (NotRepaired::Tried, 2));
        assert!(failed.to_string().contains(reply.trim()), "{failed}");
    }
}

#[tokio::test]
async fn half_a_program_is_not_run() {
    let cut = || Ok(ModelReply { is_cut: true, ..ModelReply::new("await mcp.call('counter.up'); const x = [") });
    let (scene, model) = (Scene::new().await, Scripted::replying([cut(), cut()]));
    let failed = scene.run(&model, "go").await.unwrap_err();
    assert!(matches!(failed.error, ProgrammaticError::Cut) && scene.count() == 0, "{failed}");
    assert!(model.asked()[1].messages[2].content.contains("cut off"));
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_not_run() {
    let model = Scripted::new(["x".repeat(100 << 20)]);
    let failed = Scene::new().await.run(&model, "go").await.unwrap_err();
    let ProgrammaticError::Model(error) = &failed.error else { panic!("{failed}") };
    assert!(matches!(**error, ModelError::TooLarge { most: 262_144 }), "{failed}");
    assert_eq!((failed.not_repaired, failed.attempts.len(), failed.messages.len()), (NotRepaired::NotTheCode, 0, 1));
}

#[tokio::test]
async fn a_model_that_never_answers_is_given_up() {
    let (scene, model) = (Scene::new().await, Scripted::default());
    let config = ProgrammaticConfig { model_timeout: Duration::from_millis(50), ..ProgrammaticConfig::default() };
    let (request, steps) = watched(ProgrammaticRequest::new("go"));
    let failed = within(scene.programmatic(&model).config(config).run(request)).await.unwrap_err();
    assert_eq!(failed.to_string(), "the model did not answer within 0.05 s");
    assert_eq!(*steps.lock().unwrap(), ["asked 1", "failed 1 -"]);
}

#[tokio::test]
async fn a_model_that_fails_at_its_repair_leaves_what_was_tried() {
    let overloaded = ModelError::Overloaded("busy".into());
    let model = Scripted::replying([Ok(ModelReply::new("return (")), Err(overloaded)]);
    let failed = Scene::new().await.run(&model, "go").await.unwrap_err();
    assert!(failed.to_string().contains("try again later: busy"), "{failed}");
    assert_eq!(failed.attempts.len(), 1);
}

#[tokio::test]
async fn nobody_waits_for_a_model_where_there_is_no_relay() {
    let programmatic = Programmatic::new(Scripted::default(), nowhere());
    let failed: Box<Failed> = within(programmatic.run(ProgrammaticRequest::new("go"))).await.unwrap_err();
    assert!(matches!(failed.error, ProgrammaticError::Relay(_)), "{failed}");
    assert!(failed.to_string().contains("no relay answers at ws://127.0.0.1:9/ws"), "{failed}");
}
