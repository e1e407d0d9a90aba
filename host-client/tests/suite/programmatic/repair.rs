//! Programs that fail: what is mended, and what is rather not run again.

use host_client::programmatic::{NotRepaired, ProgrammaticConfig, ProgrammaticError, ProgrammaticRequest, Repair};
use host_client::{Code, ErrorCode, LimitName};
use serde_json::json;

use super::{Scene, Scripted, watched, within};

#[tokio::test]
async fn the_error_and_its_hint_mend_the_second_program() {
    let failing = "console.log('so far');\nawait mcp.call('math.' + 'ad', {a: 1, b: 2});";
    let model = Scripted::new([failing, "return await mcp.call('math.add', {a: 1, b: 2})"]);
    let scene = Scene::new().await;
    let (request, steps) = watched(ProgrammaticRequest::new("add"));
    let answer = within(scene.programmatic(&model).run(request)).await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!(3));
    assert_eq!(
        *steps.lock().unwrap(),
        [
            "asked 1",
            "replied 1",
            "running 1",
            "failed 1 EVAL_ERROR",
            "repairing 2",
            "asked 2",
            "replied 2",
            "running 2",
            "done 2"
        ]
    );
    let told = &model.asked()[1].messages[2].content;
    for part in ["EVAL_ERROR", "math.ad failed with UNKNOWN_TOOL", "so far", "whole program"] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    assert_eq!((answer.attempts.len(), answer.messages.len()), (2, 5));
    assert_eq!(answer.usage.model.input_tokens, Some(200));
}

#[tokio::test]
async fn what_is_certain_to_fail_is_mended_before_anything_runs() {
    let failing = "await mcp.call('counter.up');\nreturn [await mcp.call('math.ad', {a: 1, b: 2})]";
    let model = Scripted::new([failing, "return await mcp.call('math.add', {a: 1, b: 2})"]);
    let scene = Scene::new().await;
    let answer = within(scene.programmatic(&model).run(ProgrammaticRequest::new("add"))).await.unwrap();
    assert_eq!(answer.outcome.value().unwrap(), json!(3));
    let told = &model.asked()[1].messages[2].content;
    for part in
        ["The program was not run. CHECK_FAILED: ", "line 2, column 15", "\"add\"", "math.add(args: {", "whole program"]
    {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    assert_eq!((scene.count(), answer.attempts.len()), (0, 2), "the counter was not called");
}

#[tokio::test]
async fn a_program_that_fails_twice_is_an_error_with_both() {
    let (scene, model) = (Scene::new().await, Scripted::new(["return nothing.here", "return (", "return 1"]));
    let failed = scene.run(&model, "go").await.unwrap_err();
    assert_eq!((failed.attempts.len(), &failed.not_repaired, model.asked().len()), (2, &NotRepaired::Tried, 2));
    let ProgrammaticError::Execution(error) = &failed.error else { panic!("{failed}") };
    assert_eq!(error.code, Code::from(ErrorCode::SyntaxError));
    assert!(failed.to_string().starts_with("SYNTAX_ERROR: "), "{failed}");
    assert!(failed.messages[2].content.contains("\nAt line 1, column "), "{:?}", failed.messages);
    assert!(failed.messages.last().unwrap().content.contains("SYNTAX_ERROR"));
    assert_eq!(failed.usage.model.output_tokens, Some(20));
}

const CHANGES: &str = "await mcp.call('counter.up'); throw new Error('after')";

#[tokio::test]
async fn what_began_to_change_things_is_not_run_again() {
    let (scene, model) = (Scene::new().await, Scripted::new([CHANGES, CHANGES]));
    let failed = scene.run(&model, "count").await.unwrap_err();
    assert_eq!(failed.not_repaired, NotRepaired::Changed(vec!["counter.up".into()]));
    assert!(failed.to_string().contains("it called counter.up"), "{failed}");
    assert_eq!((scene.count(), model.asked().len(), failed.attempts.len()), (1, 1, 1));
}

#[tokio::test]
async fn an_application_may_have_it_repaired_all_the_same_or_never() {
    let (scene, model) = (Scene::new().await, Scripted::new([CHANGES, "return 1"]));
    let with =
        |repair| scene.programmatic(&model).config(ProgrammaticConfig { repair, ..ProgrammaticConfig::default() });
    let answer = within(with(Repair::Always).run(ProgrammaticRequest::new("count"))).await.unwrap();
    let told = &answer.messages[2].content;
    assert!(told.contains("it had called tools that change things: counter.up."), "{told}");
    let model = Scripted::new(["return nothing.here"]);
    let never = ProgrammaticConfig { repair: Repair::Never, ..ProgrammaticConfig::default() };
    let failed =
        within(scene.programmatic(&model).config(never).run(ProgrammaticRequest::new("go"))).await.unwrap_err();
    assert_eq!((failed.not_repaired, model.asked().len()), (NotRepaired::NotWanted, 1));
}

#[tokio::test]
async fn a_limit_of_calls_is_for_all_attempts() {
    let twice =
        "await mcp.call('math.add', {a: 1, b: 1}); await mcp.call('math.add', {a: 1, b: 1}); return nothing.here";
    let (scene, model) = (Scene::new().await, Scripted::new([twice, twice]));
    let mut config = ProgrammaticConfig::default();
    config.limits.set(LimitName::ToolCalls, 3);
    let failed =
        within(scene.programmatic(&model).config(config).run(ProgrammaticRequest::new("go"))).await.unwrap_err();
    assert_eq!(failed.usage.execution.tool_calls, 3);
    let ProgrammaticError::Execution(error) = &failed.error else { panic!("{failed}") };
    assert_eq!(error.tool.as_ref().unwrap().1, Code::from(ErrorCode::ToolCallLimit));
}

#[tokio::test]
async fn an_endless_program_ends_at_its_limit_and_is_told_which() {
    let (scene, model) = (Scene::new().await, Scripted::new(["while (true) {}", "await new Promise(() => {})"]));
    let mut config = ProgrammaticConfig::default();
    config.limits.set(LimitName::CpuMs, 200);
    let failed =
        within(scene.programmatic(&model).config(config).run(ProgrammaticRequest::new("go"))).await.unwrap_err();
    let codes: Vec<_> = failed.attempts.iter().map(|attempt| attempt.error.as_ref().unwrap().to_string()).collect();
    assert!(codes[0].starts_with("CPU_LIMIT") && codes[1].starts_with("UNSETTLED"), "{codes:?}");
    assert!(failed.messages[2].content.contains("cpu_ms"), "{}", failed.messages[2].content);
}
