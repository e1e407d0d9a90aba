//! Reads the messages of a server. An answer that cannot be read becomes an error for the request that it answers, so
//! that the request does not wait until its time is over.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::{Value, json};

use super::text::clip;

/// Member of an error's data that marks an answer that cannot be read.
const UNREADABLE: &str = "sandbox-relay/unreadable";
/// Number of bytes before and after the place of a fault that are quoted.
const QUOTED_BYTES: usize = 30;
/// Maximum length of a parser's message, in bytes.
const MAX_PROBLEM_BYTES: usize = 200;

/// Message of a server, as far as it can be read.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Box<ServerJsonRpcMessage>),
    /// The message cannot be read.
    Unreadable {
        of: Unreadable,
        /// The problem, as a sentence without its end.
        problem: String,
    },
    /// Text that is meant for people, an empty line, or a notification of another protocol.
    Other,
}

/// Kind of a message that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It answers this request.
    Answer(RequestId),
    /// It has a result or an error, and no id that can be found.
    AnswerWithoutId,
    /// It is a request of the server, or it is not certain that it is an answer.
    Other,
}

/// Returns an error in the place of an answer that cannot be read.
pub(super) fn stand_in(id: RequestId, problem: &str) -> ServerJsonRpcMessage {
    let data = ErrorData::new(ErrorCode::PARSE_ERROR, problem.to_owned(), Some(json!({UNREADABLE: true})));
    ServerJsonRpcMessage::error(data, Some(id))
}

/// Reads a message.
pub(super) fn read(text: &[u8]) -> Incoming {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text).trim_ascii();
    if !text.starts_with(b"{") {
        return Incoming::Other;
    }
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(text) {
        Ok(message) => return Incoming::Message(Box::new(message)),
        Err(error) => error,
    };
    let Envelope { id, is_request, is_answer } = envelope(text);
    if is_request && id.is_none() {
        return Incoming::Other;
    }
    if let (Some(id), Some(data)) = (&id, error_without_message(text)) {
        return Incoming::Message(Box::new(ServerJsonRpcMessage::error(data, Some(id.clone()))));
    }
    let problem = problem(text, &error);
    let of = match id {
        _ if is_request => Unreadable::Other,
        Some(id) => Unreadable::Answer(id),
        None if is_answer => Unreadable::AnswerWithoutId,
        None => Unreadable::Other,
    };
    Incoming::Unreadable { of, problem }
}

/// Returns `true` if the error stands for an answer that cannot be read.
pub(super) fn is_unreadable(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(UNREADABLE) == Some(&Value::Bool(true)))
}

/// Reads an error that has no message, or whose code is no number of 32 bits; `None`: it is something else.
fn error_without_message(text: &[u8]) -> Option<ErrorData> {
    let Value::Object(mut members) = serde_json::from_slice(text).ok()? else { return None };
    let mut error = members.remove("error")?;
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let message = match error.get_mut("message").map(Value::take) {
        Some(Value::String(message)) => message,
        _ => match error.get("code") {
            Some(code) => format!("an error without a message, of code {}", clip(&code.to_string(), 50)),
            None => "an error without a code and a message".to_owned(),
        },
    };
    let data = match error {
        Value::Object(mut error) => error.remove("data"),
        Value::Null => None,
        other => Some(other),
    };
    Some(ErrorData::new(ErrorCode(code.unwrap_or_default()), message, data))
}

/// Describes why a message cannot be read, with the text around the fault.
fn problem(text: &[u8], error: &serde_json::Error) -> String {
    let (what, place) = match std::str::from_utf8(text) {
        Err(error) => ("it has bytes that are not UTF-8".to_owned(), Some(error.valid_up_to())),
        Ok(_) if error.is_data() => {
            (format!("it is no message of MCP: {}", clip(&error.to_string(), MAX_PROBLEM_BYTES)), None)
        }
        Ok(_) => {
            let message = clip(&error.to_string(), MAX_PROBLEM_BYTES);
            (format!("it is no JSON: {message}"), Some(error.column().saturating_sub(1)))
        }
    };
    let Some(place) = place.map(|place| place.min(text.len())) else { return what };
    let around = &text[place.saturating_sub(QUOTED_BYTES)..(place + QUOTED_BYTES).min(text.len())];
    format!("{what}, near {:?}", String::from_utf8_lossy(around))
}

/// The id and the kind of a message that cannot be parsed, as far as they can be found.
#[derive(Debug, Default)]
struct Envelope {
    id: Option<RequestId>,
    /// `true`: it has a method, so that it is a request or a notification, no answer.
    is_request: bool,
    /// `true`: it has a result or an error.
    is_answer: bool,
}

/// Finds the id and the method of a message, whatever its other members hold: only strings and brackets are looked at.
fn envelope(text: &[u8]) -> Envelope {
    let mut envelope = Envelope::default();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(text, at);
                let after =
                    end + text.get(end..).unwrap_or_default().iter().take_while(|it| it.is_ascii_whitespace()).count();
                if depth == 1 && text.get(after) == Some(&b':') {
                    match text.get(at..end) {
                        Some(b"\"method\"") => envelope.is_request = true,
                        Some(b"\"id\"") => envelope.id = id(text, after + 1),
                        Some(b"\"result\"" | b"\"error\"") => envelope.is_answer = true,
                        _ => {}
                    }
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    envelope
}

/// Returns the place after the string that begins at `start`.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// Reads the id that begins at `start`.
fn id(text: &[u8], start: usize) -> Option<RequestId> {
    let rest = text.get(start..)?.trim_ascii_start();
    let end = match rest.first()? {
        b'"' => string_end(rest, 0),
        _ => rest.iter().position(|byte| matches!(byte, b',' | b'}'))?,
    };
    serde_json::from_slice(rest.get(..end)?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn unreadable(text: &[u8]) -> (Unreadable, String) {
        match read(text) {
            Incoming::Unreadable { of, problem } => (of, problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_error_in_the_place_of_an_answer_is_known_as_one() {
        let ServerJsonRpcMessage::Error(error) = stand_in(RequestId::Number(7), "it is odd") else { panic!() };
        assert!(is_unreadable(&error.error) && error.error.message == "it is odd");
        assert_eq!(error.id, Some(RequestId::Number(7)));
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_of_its_request() {
        let deep = format!(r#"{{"result": {}1{}, "id": 7}}"#, "[".repeat(200), "]".repeat(200));
        for (text, expected) in [
            (
                &br#"{"jsonrpc": "2.0", "id": 7, "result": {"n": NaN}}"#[..],
                "it is no JSON: expected value at line 1 column 45, near",
            ),
            (br#"{"id": 7, "result": {"n": 1e400}}"#, "number out of range"),
            (br#"{"id": 7, "result": {"id": 3, "s": "\ud83d"}}"#, "no JSON"),
            (b"{\"result\": \"\xff\", \"id\" : 7}", "not UTF-8, near"),
            (deep.as_bytes(), "recursion limit"),
            (br#"{"id": 7, "result": {"#, "EOF"),
            (br#"{"jsonrpc": "1.0", "id": 7, "result": {}}"#, "no message of MCP"),
        ] {
            let (of, problem) = unreadable(text);
            assert_eq!(of, Unreadable::Answer(RequestId::Number(7)));
            assert!(problem.contains(expected), "{problem}");
            assert!(problem.len() < 600, "{problem}");
        }
        let (of, _) = unreadable(br#"{"id": "a\"b", "result": NaN}"#);
        assert_eq!(of, Unreadable::Answer(RequestId::String("a\"b".into())));
    }

    #[test]
    fn what_answers_nothing_is_passed_over() {
        for text in [&b"hello"[..], b"", b"[1]", br#"{"method": "window/log", "params": NaN}"#] {
            assert!(matches!(read(text), Incoming::Other), "{}", String::from_utf8_lossy(text));
        }
        for text in [&br#"{"id": 1, "method": "ping", "params": NaN}"#[..], b"{\"id", b"{\"\\", b"{started}"] {
            assert_eq!(unreadable(text).0, Unreadable::Other);
        }
        for text in [&br#"{"result": NaN}"#[..], br#"{"id": , "error": {}}"#, br#"{"error": {"id": 7}, "id": [}"#] {
            assert_eq!(unreadable(text).0, Unreadable::AnswerWithoutId);
        }
        let message = br#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#;
        assert!(matches!(read(message), Incoming::Message(_)));
    }

    #[test]
    fn errors_without_a_message_stay_errors() {
        for (error, expected) in [
            (r#"{"code": -5}"#, "an error without a message, of code -5"),
            (r#"{"code": "E_BAD", "message": "no disk"}"#, "no disk"),
            ("{}", "an error without a code and a message"),
            (r#""oops""#, "an error without a code and a message"),
        ] {
            let text = format!(r#"{{"jsonrpc": "2.0", "id": 1, "error": {error}}}"#);
            let Incoming::Message(message) = read(text.as_bytes()) else { panic!("{error}") };
            let ServerJsonRpcMessage::Error(found) = *message else { panic!("{error}") };
            assert_eq!(found.error.message, expected);
            assert!(!is_unreadable(&found.error));
        }
    }
}
