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
            // A space goes with the word after it, and with no number.
            tokens += cost(kind, run) + usize::from(kind == Kind::Space && run > 0 && now == Kind::Digit);
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
