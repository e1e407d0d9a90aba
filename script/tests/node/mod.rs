//! JavaScript's own answers, from node.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// `JSON.stringify` of each expression.
#[allow(dead_code, reason = "not every test program asks for it")]
pub(crate) fn evaluate(expressions: &[String]) -> Vec<String> {
    ask("JSON.stringify((0, eval)(text))", expressions)
}

/// `JSON.stringify(JSON.parse(text))` of each text, or nothing where it is no JSON.
#[allow(dead_code, reason = "not every test program asks for it")]
pub(crate) fn normalize(texts: &[String]) -> Vec<String> {
    ask("JSON.stringify(JSON.parse(text))", texts)
}

fn ask(expression: &str, texts: &[String]) -> Vec<String> {
    let program = format!(
        "const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
        const answer = (text) => {{ try {{ return {expression} }} catch {{ return '' }} }};
        process.stdout.write(JSON.stringify(texts.map(answer)));"
    );
    let mut node = Command::new("node");
    let mut node = node.args(["-e", &program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Closed when it is written.
    node.stdin.take().unwrap().write_all(&serde_json::to_vec(texts).unwrap()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}
