//! Shortening of large JSON values and texts, for records and for people.

use serde_json::{Map, Value};

/// The smallest share of a member of a shortened list or object, in bytes. Members that would get less are left out.
const MIN_SHARE_BYTES: usize = 64;
/// The part of a share that is reserved for a member's name and punctuation, in bytes.
const OVERHEAD_BYTES: usize = 24;

/// Returns the value shortened to about `room` bytes of JSON. All members of a list or object get the same share, so
/// that a large one does not displace small ones. Texts end with `… [n bytes]`, lists and objects with the number of
/// members that were left out.
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

/// Returns the number of members that are shown, and the share of each in bytes. The share is smaller than `room` even
/// for a single member, so that nesting ends.
fn shares(members: usize, room: usize) -> (usize, usize) {
    let shown = members.min(room / MIN_SHARE_BYTES);
    (shown, (room / shown.max(1)).saturating_sub(OVERHEAD_BYTES))
}

/// Returns a text of at most `room` bytes unchanged, and of a longer one the start, `…` and its length: `abc… [900
/// bytes]`.
pub fn shortened_text(text: &str, room: usize) -> String {
    let clipped = clipped(text, room);
    if text.len() <= room { clipped } else { format!("{clipped} [{} bytes]", text.len()) }
}

/// Returns a text of at most `room` bytes unchanged, and of a longer one the first `room` bytes or a little less, and
/// `…`.
pub fn clipped(text: &str, room: usize) -> String {
    let start = &text[..text.floor_char_boundary(room)];
    if start.len() < text.len() { format!("{start}…") } else { start.to_owned() }
}
