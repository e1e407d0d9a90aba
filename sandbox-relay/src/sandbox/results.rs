//! Keeps some results of tool calls, for hints about errors of the code that uses them.

use std::cell::RefCell;

use serde_json::Value;

/// Maximum number of places of calls whose results are kept.
const MAX_PLACES: usize = 32;
/// Maximum number of results that are kept of one place.
const MAX_RESULTS: usize = 4;
/// Maximum length in bytes of the JSON of all kept results. Texts count nothing: their bytes are not kept.
const MAX_BYTES: usize = 256 << 10;

thread_local! {
    static RESULTS: RefCell<Results> = const { RefCell::new(Results { places: Vec::new(), bytes: 0, is_full: false }) };
}

/// Results of one execution's tool calls.
struct Results {
    places: Vec<Place>,
    /// Number of bytes of the kept JSON.
    bytes: usize,
    /// `true`: a call came from one place too many.
    is_full: bool,
}

/// Calls of one tool on one line.
struct Place {
    tool: String,
    line: u32,
    kept: Vec<Kept>,
    /// `true`: not all results of this place are kept.
    is_full: bool,
}

/// Result of a call.
enum Kept {
    Text,
    Json(Vec<u8>),
}

/// Makes room for the state in this thread. A fork inherits it and need not look for it any more.
pub(super) fn prepare_thread() {
    RESULTS.set(Results { places: Vec::new(), bytes: 0, is_full: false });
}

/// Keeps the result of a call that the code makes on a line, if there is room.
pub(super) fn keep(tool: &str, line: u32, json: &[u8]) {
    RESULTS.with_borrow_mut(|results| {
        let index = results.places.iter().position(|place| place.line == line && place.tool == tool);
        if index.is_none() {
            if results.places.len() == MAX_PLACES {
                results.is_full = true;
                return;
            }
            results.places.push(Place { tool: tool.to_owned(), line, kept: Vec::new(), is_full: false });
        }
        let index = index.unwrap_or(results.places.len() - 1);
        let Some(place) = results.places.get_mut(index) else { return };
        let is_text = json.trim_ascii_start().starts_with(b"\"");
        let bytes = if is_text { 0 } else { json.len() };
        if place.is_full || place.kept.len() == MAX_RESULTS || results.bytes + bytes > MAX_BYTES {
            place.is_full = true;
            return;
        }
        results.bytes += bytes;
        place.kept.push(if is_text { Kept::Text } else { Kept::Json(json.to_vec()) });
    });
}

/// Returns the tool of the calls on these lines whose name `is_it`, and all their results. The content of texts is
/// left out. `None`: there are none, or not all results were kept, or several tools fit.
pub(super) fn of_calls(lines: (u32, u32), is_it: impl Fn(&str) -> bool) -> Option<(String, Vec<Value>)> {
    RESULTS.with_borrow(|results| {
        if results.is_full {
            return None;
        }
        let is_here = |place: &&Place| (lines.0..=lines.1).contains(&place.line) && is_it(&place.tool);
        let places: Vec<&Place> = results.places.iter().filter(is_here).collect();
        let tool = &places.first()?.tool;
        if places.iter().any(|place| place.is_full || place.tool != *tool) {
            return None;
        }
        let read = |kept: &Kept| match kept {
            Kept::Text => Some(Value::String(String::new())),
            Kept::Json(json) if json.is_empty() => Some(Value::Null),
            Kept::Json(json) => serde_json::from_slice(json).ok(),
        };
        let values: Option<Vec<Value>> = places.iter().flat_map(|place| &place.kept).map(read).collect();
        values.map(|values| (tool.clone(), values))
    })
}
