//! What a link holds: the question, when it expires, and a signature.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_client_core::RunId;

use crate::open::OpenId;

/// The version of the form of tokens.
const VERSION: u8 = 1;
/// The length of an HMAC-SHA-256 and of a SHA-256, in bytes.
const HASH_BYTES: usize = 32;
/// The maximum length of a token as text, in bytes.
const MAX_TOKEN_BYTES: usize = 512;

/// What a link holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) place: Place,
    /// The time at which it expires, in s since 1970.
    pub(super) expires_s: u64,
    /// The SHA-256 of the question.
    pub(super) question: [u8; HASH_BYTES],
}

/// The place where a question is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In the process that made the link.
    Open(OpenId),
    /// In the journal.
    Run { run: RunId, call: u64 },
}

impl Place {
    /// Returns a text that is the same whenever the question is asked.
    pub(super) fn id(&self) -> String {
        match self {
            Self::Open(id) => URL_SAFE_NO_PAD.encode(id),
            Self::Run { run, call } => format!("{run}-{call}"),
        }
    }
}

impl Token {
    /// Returns the token as text that fits into a URL.
    pub(super) fn sign(&self, key: &hmac::Key) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(self.expires_s.to_be_bytes());
        bytes.extend(self.question);
        match &self.place {
            Place::Open(id) => {
                bytes.push(0);
                bytes.extend(id);
            }
            Place::Run { run, call } => {
                bytes.push(1);
                bytes.extend(call.to_be_bytes());
                bytes.extend(run.as_str().as_bytes());
            }
        }
        let signature = hmac::sign(key, &bytes);
        bytes.extend(signature.as_ref());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token; `None`: it was not signed with this key. The comparison takes the same time whatever differs.
    pub(super) fn verify(text: &str, key: &hmac::Key) -> Option<Self> {
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (content, signature) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
        hmac::verify(key, content, signature).ok()?;
        let (&[VERSION], content) = content.split_first_chunk()? else { return None };
        let (expires_s, content) = content.split_first_chunk()?;
        let (question, content) = content.split_first_chunk()?;
        let place = match content.split_first()? {
            (0, id) => Place::Open(id.try_into().ok()?),
            (1, rest) => {
                let (call, run) = rest.split_first_chunk()?;
                let run = std::str::from_utf8(run).ok()?.parse().ok()?;
                Place::Run { run, call: u64::from_be_bytes(*call) }
            }
            _ => return None,
        };
        Some(Self { place, expires_s: u64::from_be_bytes(*expires_s), question: *question })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_with_its_own_key_and_as_it_was_signed() {
        let key = |secret: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, secret);
        for place in [Place::Open([7; 16]), Place::Run { run: "a-run".parse().unwrap(), call: 3 }] {
            let token = Token { place, expires_s: 1 << 40, question: [9; 32] };
            let text = token.sign(&key(b"one"));
            assert!(text.len() <= MAX_TOKEN_BYTES);
            assert_eq!(Token::verify(&text, &key(b"one")), Some(token));
            assert_eq!(Token::verify(&text, &key(b"two")), None);
            let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(Token::verify(&URL_SAFE_NO_PAD.encode(&changed), &key(b"one")), None, "byte {at}");
                assert_eq!(Token::verify(&URL_SAFE_NO_PAD.encode(&bytes[..at]), &key(b"one")), None, "cut at {at}");
            }
        }
        for text in ["", "a", "====", "\u{202e}", &"A".repeat(600)] {
            assert_eq!(Token::verify(text, &key(b"one")), None);
        }
    }
}
