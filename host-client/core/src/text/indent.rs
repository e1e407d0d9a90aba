//! JSON as indented lines for people, of a bounded length: indenting can make a text a hundred times longer.

use std::io;

use serde_json::Value;

/// JSON as indented lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indented {
    /// All of it, or the start.
    pub text: String,
    /// `true`: it is the start alone.
    pub is_shortened: bool,
}

/// Writer that takes a bounded number of bytes and lines, and then fails.
struct Bounded {
    bytes: Vec<u8>,
    max_bytes: usize,
    /// The number of line feeds that are still taken.
    lines_left: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.max_bytes - self.bytes.len();
        let piece = &piece[..piece.len().min(room)];
        let feeds = piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = feeds.clone().nth(self.lines_left).map_or(piece.len(), |(at, _)| at);
        self.lines_left = self.lines_left.saturating_sub(feeds.count());
        self.bytes.extend_from_slice(&piece[..end]);
        // A writer that takes nothing is an error for whoever writes.
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a value as indented JSON of at most so many bytes and lines; of a longer one, the start. No more than that is
/// ever made.
pub fn indented(value: &Value, max_bytes: usize, max_lines: usize) -> Indented {
    let mut writer = Bounded { bytes: Vec::new(), max_bytes, lines_left: max_lines.saturating_sub(1) };
    let is_shortened = serde_json::to_writer_pretty(&mut writer, value).is_err();
    let text = match String::from_utf8(writer.bytes) {
        Ok(text) => text,
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..whole]).into_owned()
        }
    };
    Indented { text, is_shortened }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_whole() {
        let value = json!({"a": [1, {"b": "é"}], "c": {}});
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        let lines = text.lines().count();
        let whole = Indented { text: text.clone(), is_shortened: false };
        assert_eq!(indented(&value, text.len(), lines), whole);
        let shorter = indented(&value, text.len() - 1, lines);
        assert!(shorter.is_shortened && text.starts_with(&shorter.text));
        let fewer = indented(&value, text.len(), lines - 1);
        assert!(fewer.is_shortened && text.starts_with(&fewer.text));
        assert_eq!(fewer.text.lines().count(), lines - 1);
    }

    #[test]
    fn a_character_is_never_cut() {
        let value = json!("ééé");
        for bytes in 0..10 {
            let Indented { text, is_shortened } = indented(&value, bytes, 5);
            assert!(text.len() <= bytes && "\"ééé\"".starts_with(&text), "{bytes}: {text}");
            assert_eq!(is_shortened, bytes < 8);
        }
    }

    #[test]
    fn deep_and_wide_values_take_no_more_than_was_asked_for() {
        let mut deep = json!(vec![0; 1_000]);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        let Indented { text, is_shortened } = indented(&deep, 50_000, 1_000_000);
        assert!(is_shortened && text.len() == 50_000);
        let Indented { text, is_shortened } = indented(&deep, 1 << 20, 500);
        assert!(is_shortened && text.lines().count() == 500, "{}", text.lines().count());
    }
}
