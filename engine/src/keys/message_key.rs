//! Keys of single exchanges between processes.

use std::fmt;

use zeroize::Zeroizing;

use super::sealing::{Secret, random, seal, unseal};
use crate::error::Result;

/// A key for the messages of one exchange between processes, such as the jobs and outcomes of a
/// query on a cluster. It is zeroed when dropped, and isn't written to any file.
#[derive(Clone)]
pub struct MessageKey(Secret);

impl MessageKey {
    /// Returns a new random key.
    pub fn generate() -> MessageKey {
        MessageKey(Zeroizing::new(random()))
    }

    /// Returns the key of these bytes; `None` if they aren't 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<MessageKey> {
        let bytes: [u8; 32] = bytes.try_into().ok()?;
        Some(MessageKey(Zeroizing::new(bytes)))
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Encrypts `message` with AES-256-GCM.
    ///
    /// # Errors
    /// [`EngineError::Key`](crate::error::EngineError::Key) if it is longer than the cipher
    /// permits.
    pub fn seal(&self, message: &[u8]) -> Result<Vec<u8>> {
        seal(&self.0, message)
    }

    /// Decrypts what [`MessageKey::seal`] encrypted; `None` if the key differs or the bytes were
    /// changed.
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        unseal(&self.0, sealed)
    }
}

impl fmt::Debug for MessageKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("MessageKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_opens_with_the_key_that_was_sent() {
        let key = MessageKey::generate();
        let sent = MessageKey::from_bytes(key.as_bytes()).unwrap();
        let sealed = key.seal(b"Anna Smith").unwrap();
        assert_eq!(sent.open(&sealed).unwrap(), b"Anna Smith");
        assert!(MessageKey::generate().open(&sealed).is_none());
        assert!(MessageKey::from_bytes(b"short").is_none());
        assert_eq!(format!("{key:?}"), "MessageKey");
    }
}
