//! What people are shown of code and its arguments.

/// A text in which nothing can hide: what is invisible, moves the cursor or turns the direction of writing is spelled out.
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let hides = matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
        match character {
            '\n' => shown.push('\n'),
            character if hides || character.is_control() => shown.extend(character.escape_unicode()),
            character => shown.push(character),
        }
    }
    shown
}
