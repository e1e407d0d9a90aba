//! Small key-value store of a session. The relay keeps it; a worker works on a copy.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Maximum number of keys of a store.
pub(crate) const MAX_KEYS: usize = 1_000;
/// Maximum number of bytes of all keys and values.
pub(crate) const MAX_BYTES: usize = 256 << 10;
/// Maximum length of a key in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 256;
/// Maximum number of writes of one execution.
pub(crate) const MAX_WRITES: u64 = 10_000;

/// JSON values by key, within the limits.
#[derive(Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<String, Bytes>,
    bytes: usize,
}

impl Store {
    /// Inserts or replaces a value, or removes the key with `None`. Returns `false` if that would exceed a limit;
    /// nothing has changed then.
    #[must_use]
    pub(crate) fn put(&mut self, key: String, json: Option<Bytes>) -> bool {
        let before = self.values.get(&key).map(Bytes::len);
        let freed = before.map_or(0, |json| key.len() + json);
        let Some(json) = json else {
            self.values.remove(&key);
            self.bytes -= freed;
            return true;
        };
        let bytes = self.bytes - freed + key.len() + json.len();
        if bytes > MAX_BYTES || key.len() > MAX_KEY_BYTES || (before.is_none() && self.values.len() >= MAX_KEYS) {
            return false;
        }
        self.bytes = bytes;
        // A copy, so that the value does not keep the larger frame that it came in.
        self.values.insert(key, Bytes::copy_from_slice(&json));
        true
    }

    /// Returns the value of a key; `None`: there is none.
    pub(crate) fn get(&self, key: &str) -> Option<&Bytes> {
        self.values.get(key)
    }

    /// Iterates over keys and values, in the order of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        self.values.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut store = Store::default();
        assert!(store.put("a".into(), Some(vec![b'1'; MAX_BYTES - 1].into())), "exactly full");
        assert!(!store.put("b".into(), Some(Bytes::from_static(b"1"))));
        assert!(!store.put("a".into(), Some(vec![b'2'; MAX_BYTES].into())));
        assert_eq!(store.get("a").map(|json| json[0]), Some(b'1'));
        assert!(store.put("a".into(), Some(Bytes::from_static(b"3"))), "a replaced value frees its room");
        assert!(store.put("b".into(), Some(vec![b'4'; MAX_BYTES - 3].into())));
        assert!(store.put("b".into(), None) && store.put("b".into(), None));
        assert!(!store.put("k".repeat(MAX_KEY_BYTES + 1), Some(Bytes::from_static(b"1"))));
        for key in 1..MAX_KEYS {
            assert!(store.put(key.to_string(), Some(Bytes::from_static(b"1"))), "{key}");
        }
        assert!(!store.put("one more".into(), Some(Bytes::from_static(b"1"))));
        assert!(store.put("7".into(), Some(Bytes::from_static(b"2"))));
        assert_eq!(store.iter().count(), MAX_KEYS);
    }
}
