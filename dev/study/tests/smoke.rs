//! A part of the study, as a test: all ways give the right answer, and the counts are what they have to be. No times.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use relay_study::agent::{Call, Conversation, Model, Reply, Toolbox};
use relay_study::command::CommandModel;
use relay_study::measure::Meter;
use relay_study::report::{Delays, Report, attempts};
use relay_study::slips::SlipRuns;
use relay_study::study::{Comparison, Study, tasks};
use relay_study::task::Task;
use relay_test_support::packages::target_folder;
use serde_json::json;

fn task(name: &str) -> Task {
    tasks().into_iter().find(|task| task.name == name).unwrap()
}

/// Turns, calls that the model wrote, calls that reached a server.
fn counts(meter: &Meter) -> [u64; 3] {
    [meter.turns, meter.model_calls, meter.server_calls]
}

/// Counts that have to be the same in every run.
fn without_times(meter: &Meter) -> Meter {
    Meter { tool_time: Duration::ZERO, model_time: Duration::ZERO, ..meter.clone() }
}

/// A model that writes the same calls in every turn, or gives an answer once it has seen results.
struct Stubborn {
    calls: Vec<Call>,
    answer: Option<&'static str>,
    /// Texts that it was shown last.
    seen: Vec<String>,
}

#[async_trait]
impl Model for Stubborn {
    async fn reply(&mut self, conversation: &Conversation) -> anyhow::Result<Reply> {
        self.seen = conversation.turns.last().map(|turn| turn.results.clone()).unwrap_or_default();
        Ok(match self.answer {
            Some(answer) if !conversation.turns.is_empty() => Reply::Answer(answer.into()),
            _ => Reply::Calls(self.calls.clone()),
        })
    }
}

#[test]
fn there_are_twenty_tasks_and_each_name_stands_for_one() {
    let mut names: Vec<_> = tasks().iter().map(|task| task.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[test]
fn tokens_are_those_of_the_real_tokenizer() {
    assert_eq!(relay_study::measure::tokens("hello world"), 2);
    assert_eq!(relay_study::measure::tokens(""), 0);
}

/// One test for all that needs the servers: they take a while to start.
#[tokio::test(flavor = "multi_thread")]
async fn all_ways_give_the_same_answers_at_the_counted_price() {
    let study = Study::start(&target_folder().unwrap().join("tmp")).await.unwrap();
    // So that nobody has to ask how they are called.
    let told = &study.by_program().definitions()[0].description;
    assert!(told.contains("\nAll 43 tools:\nfiles.create_directory(args: { path: string })"), "{told}");
    let mut comparisons = Vec::new();
    for (name, one_by_one, together, programs) in [
        ("touched", [42, 41, 41], [3, 41, 41], [3, 2, 43]),
        ("definition", [13, 12, 12], [13, 12, 12], [2, 1, 12]),
        ("version", [2, 1, 1], [2, 1, 1], [2, 1, 1]),
        ("ticket", [3, 2, 2], [3, 2, 2], [3, 2, 2]),
        ("payments", [4, 3, 3], [3, 3, 3], [3, 2, 4]),
        ("remember", [4, 3, 3], [4, 3, 3], [3, 2, 4]),
    ] {
        let done = study.compare(&task(name)).await.unwrap();
        assert_eq!(counts(&done.one_by_one), one_by_one, "{name}");
        assert_eq!(counts(&done.together), together, "{name}");
        assert_eq!(counts(&done.programs), programs, "{name}");
        // The same texts pass, however many calls a turn has; what is read again differs.
        assert_eq!(done.one_by_one.content_tokens, done.together.content_tokens, "{name}");
        assert!(done.one_by_one.reread_tokens >= done.together.reread_tokens, "{name}");
        comparisons.push(done);
    }
    let slips = study.slips(&["version", "touched"].map(task)).await.unwrap();
    sums_add_up(&comparisons, slips);
    let again = study.compare(&task("touched")).await.unwrap();
    let first = &comparisons[0];
    assert_eq!(without_times(&again.together), without_times(&first.together), "two runs differ");
    assert_eq!(without_times(&again.programs), without_times(&first.programs), "two runs differ");
    bulk_is_cheaper_by_programs_and_one_call_is_not(&comparisons);
    a_model_of_any_kind_can_take_part(&study).await;
    a_model_can_be_a_program(&study).await;
    study.close().await;
}

fn bulk_is_cheaper_by_programs_and_one_call_is_not(comparisons: &[Comparison]) {
    let [touched, definition, version, ticket, ..] = comparisons else { panic!("too few") };
    let bare = Meter::billed_without_definitions;
    for bulk in [touched, definition] {
        assert!(bare(&bulk.together) > 5 * bare(&bulk.programs), "{}", bulk.task);
    }
    assert!(bare(&version.together) < bare(&version.programs));
    for small in [version, ticket] {
        assert!(small.together.output_tokens < small.programs.output_tokens, "{}", small.task);
    }
    assert!(touched.together.definition_tokens > touched.programs.definition_tokens);
    assert!(touched.needed_definition_tokens < touched.together.definition_tokens);
}

fn sums_add_up(comparisons: &[Comparison], slips: Vec<SlipRuns>) {
    let (turn, token) = (Duration::from_secs(1), Duration::ZERO);
    let report = Report { comparisons: comparisons.to_vec(), delays: Delays { turn, token }, slips };
    let json = report.to_json();
    assert_eq!(json["sums"][0]["measure"], "turns of the model");
    assert_eq!(json["sums"][0]["one_by_one"], 68);
    assert_eq!(json["sums"][0]["together"], 28);
    assert_eq!(json["sums"][0]["programs"], 16);
    assert_eq!(json["tasks"].as_array().unwrap().len(), comparisons.len());
    let [tool, argument, left_out] = report.slips[..] else { panic!("{:?}", report.slips) };
    for slip in [tool, argument] {
        assert!(slip.runs >= 2 && slip.failed == slip.runs && slip.refused > 0, "{slip:?}");
    }
    assert!(left_out.runs >= 2 && left_out.refused <= left_out.failed, "{left_out:?}");
    let text = report.to_text();
    assert!(text.contains("The check saves "), "{text}");
    for done in comparisons {
        assert!(text.contains(&format!("| {} ", done.task)), "{text}");
    }
}

/// The mistake in an attempt to do the task `version` tool by tool.
async fn mistake(study: &Study, model: &mut dyn Model) -> String {
    let attempt = study.attempt(&task("version"), model, study.by_tools()).await.unwrap();
    attempt.mistake.expect("a mistake").to_string()
}

async fn a_model_of_any_kind_can_take_part(study: &Study) {
    let version = task("version");
    let read = Call::new("files.read_text_file", json!({"path": "/data/app/package.json"}));
    let stubborn = |calls: &[&Call], answer| Stubborn {
        calls: calls.iter().map(|call| (*call).clone()).collect(),
        answer,
        seen: Vec::new(),
    };
    let mut right = stubborn(&[&read], Some("\"4.7.2\""));
    let attempt = study.attempt(&version, &mut right, study.by_tools()).await.unwrap();
    assert!(attempt.mistake.is_none());
    assert_eq!(counts(&attempt.meter), [2, 1, 1]);
    assert!(right.seen[0].contains("\"version\": \"4.7.2\""), "{:?}", right.seen);

    let wrong = mistake(study, &mut stubborn(&[&read], Some("\"1.0\""))).await;
    assert_eq!(wrong, "the answer is \"1.0\", and \"4.7.2\" is right");
    let prose = mistake(study, &mut stubborn(&[&read], Some("It is 4.7.2."))).await;
    assert_eq!(prose, "the answer is no JSON: It is 4.7.2.");
    assert_eq!(mistake(study, &mut stubborn(&[&read], None)).await, "no answer after 64 turns");
    assert_eq!(mistake(study, &mut stubborn(&[], None)).await, "0 calls in one turn");

    // What fails is told to the model, and does not end the conversation.
    let unknown = Call::new("files.read_file_text", json!({}));
    let absent = Call::new("files.read_text_file", json!({"path": "/data/nothing"}));
    let mut clumsy = stubborn(&[&unknown, &absent], Some("\"4.7.2\""));
    study.attempt(&version, &mut clumsy, study.by_tools()).await.unwrap();
    assert!(clumsy.seen[0].contains("UNKNOWN_TOOL") && clumsy.seen[0].contains("read_text_file"), "{:?}", clumsy.seen);
    assert!(clumsy.seen[1].contains("'/data/nothing'"), "the real folder is not shown: {:?}", clumsy.seen);
    let code = "console.log('read'); await mcp.call('sqlite.list_tables'); return nonsense";
    let nonsense = Call::new("execute_code", json!({"code": code}));
    let mut clumsy = stubborn(&[&nonsense], Some("\"4.7.2\""));
    let attempt = study.attempt(&version, &mut clumsy, study.by_program()).await.unwrap();
    assert!(clumsy.seen[0].contains("nonsense is not defined"), "{:?}", clumsy.seen);
    assert!(clumsy.seen[0].contains("Output:\nread"), "{:?}", clumsy.seen);
    assert_eq!(counts(&attempt.meter), [2, 1, 1], "a call of a program that fails is a call");
}

async fn a_model_can_be_a_program(study: &Study) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model.py");
    let mut model = CommandModel { program };
    let ways: [(&str, &dyn Toolbox); 2] = [("tool by tool", study.by_tools()), ("by programs", study.by_program())];
    let mut done = Vec::new();
    for (way, toolbox) in ways {
        let attempt = study.attempt(&task("version"), &mut model, toolbox).await.unwrap();
        assert!(attempt.mistake.is_none(), "{attempt:?}");
        assert_eq!(counts(&attempt.meter), [2, 1, 1]);
        assert!(!attempt.meter.model_time.is_zero());
        done.push(("version", way, attempt));
    }
    let table = attempts(&done);
    assert!(table.contains("| version | tool by tool | yes   | 2     | 1     | 1 "), "{table}");

    let attempt = study.attempt(&task("orders"), &mut model, study.by_tools()).await.unwrap();
    let failed = attempt.mistake.unwrap().to_string();
    assert!(failed.starts_with("the model: ") && failed.ends_with("model.py failed (exit status: 1)"), "{failed}");
    for (program, expected) in [
        ("/bin/true", "the model: /bin/true put out what is no turn: EOF while parsing a value at line 1 column 0"),
        ("/bin/cat", "the model: /bin/cat put out what is no turn: "),
        ("/nowhere/model", "the model: /nowhere/model cannot be run: No such file or directory (os error 2)"),
        ("/usr/bin/yes", "the model: /usr/bin/yes put out more than 1048576 bytes"),
    ] {
        let failed = mistake(study, &mut CommandModel { program: program.into() }).await;
        assert!(failed.starts_with(expected), "{failed}");
    }
}
