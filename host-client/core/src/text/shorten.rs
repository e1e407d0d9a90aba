//! Large JSON in little room: for records and for people.

use serde_json::{Map, Value};

/// The least share of the room that a member of a shortened list or object gets, in bytes.
const LEAST_SHARE: usize = 64;
/// What of it goes into the member's name and what stands around it.
const AROUND: usize = 24;

/// The value in about so many bytes. Each member gets the same share, so that a large one cannot push a small one out.
pub fn shortened(value: &Value, room: usize) -> Value {
    match value {
        Value::String(text) if text.len() > room => Value::String(shortened_text(text, room)),
        Value::Array(items) => {
            let (shown, share) = shares(items.len(), room);
            let mut kept: Vec<Value> = items.iter().take(shown).map(|item| shortened(item, share)).collect();
            if shown < items.len() {
                kept.push(format!("[{} more items]", items.len() - shown).into());
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let (shown, share) = shares(members.len(), room);
            let mut kept: Map<String, Value> = members
                .iter()
                .take(shown)
                .map(|(name, member)| (shortened_text(name, share), shortened(member, share)))
                .collect();
            if shown < members.len() {
                kept.insert("…".into(), format!("[{} more members]", members.len() - shown).into());
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// How many of so many members there is room for, and how much for each. It gets less at each level, however few there
/// are.
fn shares(members: usize, room: usize) -> (usize, usize) {
    let shown = members.min(room / LEAST_SHARE);
    (shown, (room / shown.max(1)).saturating_sub(AROUND))
}

/// The beginning of a text that is longer, and how long it is.
pub fn shortened_text(text: &str, room: usize) -> String {
    let clipped = clipped(text, room);
    if text.len() <= room { clipped } else { format!("{clipped} [{} bytes]", text.len()) }
}

/// The beginning of a text that is longer.
pub fn clipped(text: &str, room: usize) -> String {
    let start = &text[..text.floor_char_boundary(room)];
    if start.len() < text.len() { format!("{start}…") } else { start.to_owned() }
}
