//! An estimate of the number of tokens of a text.

/// The number of lowercase letters that count as one token.
const LETTERS_PER_TOKEN: usize = 6;
/// The number of digits that count as one token.
const DIGITS_PER_TOKEN: usize = 3;

/// Returns an estimate of the number of tokens that a text is to a model. It uses no tokenizer, because each model has
/// its own. Words count by their length, together with the space before them; digits, punctuation and the bytes of
/// other scripts count in groups. For names and types the estimate is a little above the count of OpenAI's tokenizers,
/// so that a text that fits by the estimate fits in fact.
pub fn estimate_tokens(text: &str) -> usize {
    let mut tokens = 0;
    let (mut run, mut kind) = (0, Kind::Space);
    let cost = |kind: Kind, run: usize| match kind {
        Kind::Space => run.saturating_sub(1).div_ceil(16),
        Kind::Line => 1,
        Kind::Letter => run.div_ceil(LETTERS_PER_TOKEN),
        Kind::Digit => run.div_ceil(DIGITS_PER_TOKEN),
        Kind::Sign => run.div_ceil(2),
        Kind::Other => run.div_ceil(2),
    };
    for character in text.chars() {
        let (now, length) = match character {
            ' ' => (Kind::Space, 1),
            '\n' | '\t' | '\r' => (Kind::Line, 1),
            'a'..='z' => (Kind::Letter, 1),
            // A capital after a letter begins another word of the same name, which makes another token likely.
            'A'..='Z' => (Kind::Letter, if kind == Kind::Letter { 3 } else { 1 }),
            '0'..='9' => (Kind::Digit, 1),
            _ if character.is_ascii() => (Kind::Sign, 1),
            _ => (Kind::Other, character.len_utf8()),
        };
        if now != kind {
            // A space is part of the token of the word after it, but not of a number's.
            tokens += cost(kind, run) + usize::from(kind == Kind::Space && run > 0 && now == Kind::Digit);
            (run, kind) = (0, now);
        }
        run += length;
    }
    tokens + cost(kind, run)
}

/// The kind of a run of characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    /// Newlines and tabs.
    Line,
    Letter,
    Digit,
    /// Other ASCII characters.
    Sign,
    /// Characters outside of ASCII, counted by their bytes.
    Other,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::estimate_tokens;

    #[test]
    fn estimates_are_near_what_a_real_tokenizer_counts_and_rarely_below() {
        let tokenizer = tiktoken_rs::o200k_base().unwrap();
        let types = "github.create_pull_request(args: { owner: string; repo: string; title: string; body?: string | null; \
                     labels?: string[]; draft?: boolean }): Promise<{ number: number; html_url: string }> // Opens one";
        let names =
            "everything also: get-annotated-message, get-env, getResourceLinks, gzip-file-as-resource, echo, get-sum";
        let prose = "Reads the complete contents of a file from the file system as text. Handles various text encodings and \
                     provides detailed error messages if the file cannot be read. Only works within allowed directories.";
        let comments = "  /**\n   * Lists files.\n   *\n   * mcp.call(\"files.list\", args)\n   */\n  function list(args: {\n    \
                        /** integer, 1 to 100, default 10 */\n    limit?: number;\n  }): Promise<unknown>;\n}";
        let numbers = "2026-11-22T08:30:00Z, 127.0.0.1:8080, 9007199254740991, 0.25, 1e308";
        let other = "Größenänderung überprüfen; 東京の天気を調べる; список файлов каталога";
        for (text, most) in [(types, 1.4), (names, 1.4), (prose, 1.6), (comments, 1.6), (numbers, 1.4), (other, 2.5)] {
            let (counted, estimated) = (tokenizer.encode_ordinary(text).len(), estimate_tokens(text));
            let ratio = estimated as f64 / counted as f64;
            assert!((0.95..most).contains(&ratio), "{estimated} for {counted}: {text}");
        }
        assert_eq!(estimate_tokens(""), 0);
    }
}
