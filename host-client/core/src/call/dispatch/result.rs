//! The checks of a result on its way back to the code: its size, then the schema of its tool.

use bytes::Bytes;
use relay_proto::{ErrorCode, LimitName};

use super::{CheckedResult, Dispatch, Failure, RawResult, SizedResult};
use crate::tool::Overflow;

impl Dispatch<'_> {
    /// Checks a result against its tool's limit, and counts it against the budget of the policy. A text over the limit
    /// is cut if the tool's manifest says so.
    ///
    /// # Errors
    /// `TOOL_RESULT_LIMIT`: it is too long for either.
    pub(super) fn check_size(&self, result: RawResult) -> Result<SizedResult, Failure> {
        let RawResult { registered, mut json } = result;
        let manifest = &registered.spec.manifest;
        let most = sendable(manifest.result_bytes);
        if json.len() > most {
            let cut = (manifest.overflow == Overflow::Cut).then(|| cut_text(&json, most)).flatten();
            json = cut.ok_or_else(|| {
                let (name, bytes) = (&registered.name, json.len());
                let message = format!("the result of {name} has {bytes} bytes; at most {most} are allowed");
                Failure(ErrorCode::ToolResultLimit, message)
            })?;
        }
        let spent = self.call.context.spending.read(&registered.name, json.len() as u64);
        spent.map_err(|(code, message)| Failure(code, message))?;
        Ok(SizedResult(RawResult { registered, json }))
    }
}

/// Returns a tool's limit on results, lowered to what can be sent at all.
pub(super) fn sendable(result_bytes: usize) -> usize {
    result_bytes.min(usize::try_from(LimitName::ToolResultBytes.maximum()).unwrap_or(usize::MAX))
}

/// Checks a result against the output schema of its tool, if it has one, before the code sees it.
///
/// # Errors
/// `INVALID_RESULT`: it does not fit, or is not JSON.
pub(super) fn check_result(result: SizedResult) -> Result<CheckedResult, Failure> {
    let RawResult { registered, json } = result.0;
    let Some(schema) = &registered.result else { return Ok(CheckedResult(json)) };
    let invalid = |reason: String| {
        let message = format!("{} answered with what its own output schema forbids: {reason}", registered.name);
        Failure(ErrorCode::InvalidResult, message)
    };
    let text: &[u8] = if json.is_empty() { b"null" } else { &json };
    let value = serde_json::from_slice(text).map_err(|error| invalid(format!("it is no JSON: {error}")))?;
    if let Err(reason) = schema.check_result(&value) {
        let part = registered.tool.typed_part(&value);
        if part.is_none_or(|part| schema.check_result(&part).is_err()) {
            return Err(invalid(reason));
        }
    }
    Ok(CheckedResult(json))
}

/// Returns the start of a JSON string that is longer than `most` bytes, with a note at its end; `None`: it is no JSON
/// string, or there is no room for the note.
fn cut_text(json: &[u8], most: usize) -> Option<Bytes> {
    let text: String = serde_json::from_slice(json).ok()?;
    let note = |kept: usize| {
        format!("\n[cut: {} of {} bytes are left out; the tool's limit is {most}]", text.len() - kept, text.len())
    };
    // Escapes make JSON longer than its text: try shorter starts until one fits.
    let mut kept = most.saturating_sub(note(0).len() + 2).min(text.len());
    loop {
        kept = text.floor_char_boundary(kept);
        let cut = serde_json::to_vec(&format!("{}{}", &text[..kept], note(kept))).ok()?;
        if cut.len() <= most {
            return Some(cut.into());
        }
        if kept == 0 {
            return None;
        }
        kept = (kept.saturating_mul(most) / cut.len()).min(kept - 1);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        for text in ["x".repeat(10_000), "\u{1}\"ü€".repeat(2_000), "é".repeat(5_000)] {
            let json = serde_json::to_vec(&text).unwrap();
            for most in [200, 1_000, 4_097] {
                let cut = cut_text(&json, most).unwrap();
                assert!(cut.len() <= most && cut.len() * 3 > most, "{} of {most}", cut.len());
                let cut: String = serde_json::from_slice(&cut).unwrap();
                let (kept, note) = cut.split_once("\n[cut: ").unwrap();
                assert!(text.starts_with(kept) && !kept.is_empty());
                assert!(note.starts_with(&format!("{} of {} bytes", text.len() - kept.len(), text.len())), "{note}");
            }
        }
        assert_eq!(cut_text(b"[1,2,3]", 5), None);
        assert_eq!(cut_text(b"\"a long text\"", 5), None, "there is no room for the note");
    }
}
