//! The users of the MCP server over HTTP, as a file names them.

use std::collections::BTreeMap;
use std::path::Path;

use host_client::serve_mcp::{HttpToken, HttpUser};

use crate::exit::Failure;

/// Maximum length of a user's name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum length of the file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the users of a file. Their names as owners of runs begin with `http:`, so that they are nobody else's.
///
/// # Errors
/// Status 2: the file cannot be read, or what is wrong with it. No error shows a digest.
pub(super) fn read(file: &Path) -> Result<Vec<HttpUser>, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", file.display()));
    let unreadable = |error: std::io::Error| wrong(format!("it cannot be read: {error}"));
    if std::fs::metadata(file).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(wrong("it is longer than 1 MiB".into()));
    }
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<HttpUser>, String> {
    let digests: BTreeMap<String, String> = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {} is not NAME = \"DIGEST\", or has a name again", before.matches('\n').count() + 1)
    })?;
    if digests.is_empty() {
        return Err("it names no user: add lines NAME = \"DIGEST\"".into());
    }
    let (mut names, mut users) = (BTreeMap::new(), Vec::new());
    for (name, digest) in digests {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let text = "is no name of a user: it needs 1 to 64 bytes without control characters";
            return Err(format!("{name:?} {text}"));
        }
        let token =
            HttpToken::from_sha256(&digest).map_err(|error| format!("the digest of {name:?} is wrong: {error}"))?;
        if let Some(other) = names.insert(digest.to_ascii_lowercase(), name.clone()) {
            return Err(format!("{other:?} and {name:?} have the same token: give each user another one"));
        }
        users.push(HttpUser { name: format!("http:{name}").into(), token });
    }
    Ok(users)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_a_digest() {
        let digest = "ab".repeat(32);
        let users = parse(&format!("ada = \"{digest}\"\n\"bo@example.com\" = \"{}\"\n", "Cd".repeat(32))).unwrap();
        let names: Vec<_> = users.iter().map(|user| &*user.name).collect();
        assert_eq!(names, ["http:ada", "http:bo@example.com"]);
        for (text, said) in [
            (String::new(), "names no user"),
            (format!("# users\nada = {digest}"), "line 2 is not NAME"),
            (format!("ada = \"{digest}\"\nada = \"{digest}\""), "line 2 is not NAME"),
            (format!("[ada]\ntoken = \"{digest}\""), "is not NAME"),
            (format!("ada = \"{digest}0\""), "the digest of \"ada\" is wrong: it is not the SHA-256"),
            (format!("ada = \"{digest}\"\nbo = \"{}\"", digest.to_uppercase()), "\"ada\" and \"bo\" have the same"),
            (format!("\"\" = \"{digest}\""), "\"\" is no name of a user"),
            (format!("\"a\\nb\" = \"{digest}\""), "is no name of a user"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(said) && !error.to_lowercase().contains(&digest), "{error}");
        }
    }
}
