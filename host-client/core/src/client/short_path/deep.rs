//! Finds the place where a JSON text nests too deeply, and names it as the sandbox does.

use relay_script::json::MAX_DEPTH;

/// The maximum length of a key in a path, in characters; longer ones are cut.
const MAX_KEY_CHARS: usize = 64;

/// A list or an object that is open.
enum Level {
    /// A list, with the index of its current item.
    List(usize),
    /// An object, with its last key, in its quotes.
    Object(String),
}

/// Returns the path of the first value that lies deeper than [`MAX_DEPTH`] levels; `None`: the text is not so deep, or
/// is not JSON.
pub(super) fn too_deep(json: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(json).ok()?;
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'[' | b'{' => {
                if levels.len() == MAX_DEPTH {
                    return Some(path(&levels));
                }
                levels.push(if *byte == b'[' { Level::List(0) } else { Level::Object(String::new()) });
            }
            b']' | b'}' => {
                levels.pop()?;
            }
            b',' => {
                if let Some(Level::List(next)) = levels.last_mut() {
                    *next += 1;
                }
            }
            b'"' => {
                let end = end_of_string(text, at + 1)?;
                let is_key = text.get(end..)?.trim_start().starts_with(':');
                if let (true, Some(Level::Object(key))) = (is_key, levels.last_mut()) {
                    text.get(at..end)?.clone_into(key);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index behind the closing quote of the string whose text begins at `at`; `None`: there is no such quote.
fn end_of_string(text: &str, mut at: usize) -> Option<usize> {
    loop {
        match text.as_bytes().get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn path(levels: &[Level]) -> String {
    let mut path = String::from("$");
    for level in levels {
        match level {
            Level::List(item) => path += &format!("[{item}]"),
            Level::Object(quoted) => {
                let key: String = serde_json::from_str(quoted).unwrap_or_default();
                path.push('.');
                path.extend(key.chars().take(MAX_KEY_CHARS));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::too_deep;

    #[test]
    fn the_first_place_that_is_too_deep_is_named() {
        let deep = format!("{}1{}", "[".repeat(99), "]".repeat(99));
        assert_eq!(too_deep(deep.as_bytes()), None);
        let list = format!(r#"["a[[",{{"k\"é":[{deep}]}}]"#);
        assert_eq!(too_deep(list.as_bytes()), Some(format!("$[1].k\"é[0]{}", "[0]".repeat(97))));
        assert_eq!(too_deep(b"[[["), None);
        assert_eq!(too_deep(b"]"), None);
        assert_eq!(too_deep(b"\"unfinished"), None);
    }
}
