//! Signatures of messages, as Standard Webhooks defines them.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The minimum length of a secret, in bytes.
const MIN_BYTES: usize = 24;
/// The beginning of a secret that is written in base64.
const PREFIX: &str = "whsec_";

/// The secret by which the receiver of a webhook knows that a message is from here.
#[derive(Clone)]
pub struct WebhookSecret(hmac::Key);

/// The reason why a secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookSecretError {
    /// It is too short.
    #[error(
        "the webhook's secret has {0} bytes and needs at least {MIN_BYTES}, such as those of `openssl rand -hex 32`"
    )]
    Short(usize),
    /// It begins with `whsec_`, and what follows is not base64.
    #[error("the webhook's secret begins with {PREFIX}, and what follows is not base64")]
    Base64,
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    /// Reads a secret: `whsec_` and base64, or any text.
    ///
    /// # Errors
    /// [`WebhookSecretError::Short`]: it has less than 24 bytes. [`WebhookSecretError::Base64`].
    pub fn new(secret: &str) -> Result<Self, WebhookSecretError> {
        let bytes = match secret.strip_prefix(PREFIX) {
            Some(text) => STANDARD.decode(text).map_err(|_| WebhookSecretError::Base64)?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.len() < MIN_BYTES {
            return Err(WebhookSecretError::Short(bytes.len()));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Returns the value of the header `webhook-signature`.
    pub(super) fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut content = format!("{id}.{seconds}.").into_bytes();
        content.extend_from_slice(body);
        format!("v1,{}", STANDARD.encode(hmac::sign(&self.0, &content)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        let secret = WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        assert_eq!(WebhookSecret::new("short").unwrap_err(), WebhookSecretError::Short(5));
        assert_eq!(WebhookSecret::new("whsec_c2hvcnQ=").unwrap_err(), WebhookSecretError::Short(5));
        assert_eq!(WebhookSecret::new("whsec_!").unwrap_err(), WebhookSecretError::Base64);
    }
}
