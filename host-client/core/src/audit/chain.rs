//! The hash chain: each line contains the hash of the previous line, and ends with the hash of its own bytes.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The bytes between a line's content and its own hash.
const BEFORE_HASH: &[u8] = b",\"hash\":\"";
/// The bytes after a line's own hash, without the newline.
const AFTER_HASH: &[u8] = b"\"}";

/// A SHA-256. Its text form is 64 lowercase hexadecimal digits. The default value is 32 zero bytes, which the first
/// record of a log has as its `prev`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Hash([u8; 32]);

/// The error of parsing a text that is not 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 lowercase hexadecimal digits")]
pub struct InvalidHash;

/// The number and the hash of the last record, which the next one is chained to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

impl Hash {
    /// Returns the SHA-256 of `bytes`, such as those of a script.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    fn hex(self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 64];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        hex
    }

    fn from_hex(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if hex.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.hex()))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        Self::from_hex(text.as_bytes()).ok_or(InvalidHash)
    }
}

impl TryFrom<String> for Hash {
    type Error = InvalidHash;

    fn try_from(text: String) -> Result<Self, InvalidHash> {
        text.parse()
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(&self.hex()))
    }
}

/// A writer that hashes the bytes written to it, and keeps none.
#[derive(Default)]
pub(super) struct HashWriter(Sha256);

impl HashWriter {
    /// Returns the hash of all bytes that were written.
    pub(super) fn finish(self) -> Hash {
        Hash(self.0.finalize().into())
    }
}

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

    #[test]
    fn a_hash_has_one_form() {
        let hash = Hash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((hash.to_string().as_str(), text.parse()), (text, Ok(hash)));
        for wrong in ["", "ba78", &text.to_uppercase(), &format!("{text}0"), &text.replace('b', "g")] {
            assert_eq!(wrong.parse::<Hash>(), Err(InvalidHash), "{wrong:?}");
        }
    }
}
