//! How many tokens of a model a text is, about.

/// The longest run of small letters that is mostly one token.
const LETTERS: usize = 6;
/// How many digits are one token.
const DIGITS: usize = 3;

/// About how many tokens a text is to a model. There is no tokenizer here, for each model has its own: words count by their
/// length, and with them a space before; digits by threes; signs mostly one by one; letters of other scripts by half their
/// bytes. For names and types it comes out a little above what the tokenizers of OpenAI count: so what fits by it, fits.
pub fn estimate_tokens(text: &str) -> usize {
    let mut tokens = 0;
    let (mut run, mut kind) = (0, Kind::Space);
    let cost = |kind: Kind, run: usize| match kind {
        Kind::Space => run.saturating_sub(1).div_ceil(16),
        Kind::Line => 1,
        Kind::Letter => run.div_ceil(LETTERS),
        Kind::Digit => run.div_ceil(DIGITS),
        Kind::Sign => run.div_ceil(2),
        Kind::Other => run.div_ceil(2),
    };
    for character in text.chars() {
        let (now, length) = match character {
            ' ' => (Kind::Space, 1),
            '\n' | '\t' | '\r' => (Kind::Line, 1),
            'a'..='z' => (Kind::Letter, 1),
            // A capital begins a word, unless it follows another one.
            'A'..='Z' => (Kind::Letter, if kind == Kind::Letter { 3 } else { 1 }),
            '0'..='9' => (Kind::Digit, 1),
            _ if character.is_ascii() => (Kind::Sign, 1),
            _ => (Kind::Other, character.len_utf8()),
        };
        if now != kind {
            tokens += cost(kind, run);
            (run, kind) = (0, now);
        }
        run += length;
    }
    tokens + cost(kind, run)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Line,
    Letter,
    Digit,
    Sign,
    Other,
}
