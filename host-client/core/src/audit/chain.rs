//! The hash chain: each line contains the hash of the previous line, and ends with the hash of its own bytes.

use crate::hash::Hash;

/// The bytes between a line's content and its own hash.
const BEFORE_HASH: &[u8] = b",\"hash\":\"";
/// The bytes after a line's own hash, without the newline.
const AFTER_HASH: &[u8] = b"\"}";

/// The number and the hash of the last record, which the next one is chained to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// Completes a line that is a JSON object: hashes it up to its closing brace, adds the hash as the last member, and a
/// newline. Returns the hash.
pub(super) fn seal(line: &mut Vec<u8>) -> Hash {
    line.pop();
    let hash = Hash::of(line);
    line.extend_from_slice(BEFORE_HASH);
    line.extend_from_slice(&hash.hex());
    line.extend_from_slice(AFTER_HASH);
    line.push(b'\n');
    hash
}

/// Returns the hash that a line (without its newline) ends with; `None`: there is none, or it is not the hash of the
/// line.
pub(super) fn unseal(line: &[u8]) -> Option<Hash> {
    let (line, hex) = line.strip_suffix(AFTER_HASH)?.split_last_chunk::<64>()?;
    let hash = Hash::from_hex(hex)?;
    (Hash::of(line.strip_suffix(BEFORE_HASH)?) == hash).then_some(hash)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_is_json_and_no_byte_of_it_can_change() {
        let mut line = br#"{"seq":1,"prev":"00"}"#.to_vec();
        let hash = seal(&mut line);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((value["seq"].as_u64(), value["hash"].as_str()), (Some(1), Some(hash.to_string().as_str())));
        assert_eq!(hash, Hash::of(br#"{"seq":1,"prev":"00""#), "anybody can compute it with a standard tool");
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(unseal(&line), Some(hash));
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(unseal(&changed), None, "byte {at}, bit {bit}");
            }
            assert_eq!(unseal(&line[..at]), None, "cut at {at}");
        }
    }
}
