//! `eval`: one script on standard input, its output as JSON.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::support::{binary, within};

struct Evaluated {
    status: i32,
    output: Value,
    error: Value,
}

async fn eval(input: &str) -> Evaluated {
    let mut command = Command::new(binary());
    command.arg("eval").env_remove("RELAY_JWT_SECRET").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = within(child.wait_with_output()).await.unwrap();
    let read = |bytes: &[u8]| if bytes.is_empty() { Value::Null } else { serde_json::from_slice(bytes).unwrap() };
    Evaluated { status: output.status.code().unwrap(), output: read(&output.stdout), error: read(&output.stderr) }
}

#[tokio::test]
async fn what_is_emitted_is_printed() {
    let source = "emit(read_input().split('').reverse().join('')); emit('!'); return 'ignored'";
    let done = eval(&json!({"source": source, "input": "añb"}).to_string()).await;
    assert_eq!((done.status, done.output, done.error), (0, json!({"output": "bña!"}), Value::Null));
    let alone =
        eval(&json!({"source": "emit([typeof console, typeof read_input, read_input()].join())"}).to_string()).await;
    assert_eq!(alone.output, json!({"output": "undefined,function,"}));
}

#[tokio::test]
async fn a_failure_is_one_line_with_its_code() {
    for (input, code) in [
        (json!({"source": "throw new Error('no')"}), "EVAL_ERROR"),
        (json!({"source": "const = 1"}), "SYNTAX_ERROR"),
        (json!({"source": "for(;;){}"}), "TIMEOUT"),
        (json!({"source": "for(;;){}", "limits": {"wall_ms": 50}}), "TIMEOUT"),
        (json!({"source": "await mcp.call('a.b')"}), "EVAL_ERROR"),
        (json!({"source": "await new Promise(() => {})"}), "UNSETTLED"),
        (json!({"sauce": ""}), "INVALID_INPUT"),
        (json!([]), "INVALID_INPUT"),
    ] {
        let failed = eval(&input.to_string()).await;
        assert_eq!((failed.status, &failed.error["code"], &failed.output), (1, &json!(code), &Value::Null), "{input}");
        assert!(failed.error["message"].as_str().is_some_and(|text| !text.is_empty()), "{input}");
    }
    assert_eq!(eval("no json").await.error["code"], "INVALID_INPUT");
    assert_eq!(eval("").await.error["code"], "INVALID_INPUT");
}

#[tokio::test]
async fn too_much_output_is_cut_between_characters() {
    let input = json!({"source": "for(;;) emit('añ')", "limits": {"output_kb": 1}});
    let failed = eval(&input.to_string()).await;
    assert_eq!((failed.status, &failed.error["code"]), (1, &json!("OUTPUT_LIMIT")));
    let text = failed.output["output"].as_str().unwrap();
    assert!(text.len() <= 1024 && text.len() > 1000 && "añ".repeat(400).starts_with(text), "{}", text.len());
}

#[tokio::test]
async fn too_much_output_in_any_script_is_no_success() {
    let input = json!({"source": "emit('漢'.repeat(40_000))"});
    let failed = eval(&input.to_string()).await;
    assert_eq!((failed.status, &failed.error["code"]), (1, &json!("OUTPUT_LIMIT")));
    assert_eq!(failed.output["output"], "漢".repeat(65_536 / 3));
}
