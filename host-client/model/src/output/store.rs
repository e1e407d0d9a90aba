//! What results were, for as long as a model may want to page through them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::page::{Page, ReadError, page};
use super::path::path;

/// How many random bytes a handle has.
const HANDLE_BYTES: usize = 12;
/// What every handle begins with.
const PREFIX: &str = "out_";

/// How much is kept, and for how long. Where there is no room for all, what was used last stays.
///
/// Stores of several sessions may share what is kept; the limits then hold for each, and one more for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConfig {
    /// The most bytes of all results: 16 MiB. A larger one is not kept.
    pub bytes: usize,
    /// The most results: 64.
    pub entries: usize,
    /// How long one is kept that nobody reads: 30 minutes.
    pub unread: Duration,
    /// The most bytes of all results of all sessions that share what is kept: 64 MiB.
    pub shared_bytes: usize,
    /// The most bytes of a page, roughly: 20,000.
    pub page_bytes: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            entries: 64,
            unread: Duration::from_secs(30 * 60),
            shared_bytes: 64 << 20,
            page_bytes: 20_000,
        }
    }
}

/// Results of one session. Clones share them; with the last clone they are gone.
#[derive(Clone)]
pub struct OutputStore {
    config: StoreConfig,
    session: Arc<Session>,
}

/// One of the sessions that share what is kept.
struct Session {
    number: u64,
    kept: Arc<Mutex<Kept>>,
}

/// The results of all sessions.
#[derive(Default)]
struct Kept {
    /// What was used last is last.
    outputs: VecDeque<Output>,
    /// How many sessions there were.
    sessions: u64,
}

struct Output {
    session: u64,
    handle: String,
    text: Arc<str>,
    is_json: bool,
    used: Instant,
}

impl Default for OutputStore {
    fn default() -> Self {
        Self::new(StoreConfig::default())
    }
}

impl fmt::Debug for OutputStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputStore").field("config", &self.config).finish_non_exhaustive()
    }
}

impl OutputStore {
    /// A store with nothing in it.
    pub fn new(config: StoreConfig) -> Self {
        Self { config, session: Arc::new(Session::new(Arc::default())) }
    }

    /// A store with nothing in it, for another session: neither reads what the other keeps, but they share the room, so
    /// that many sessions cannot take more than [`StoreConfig::shared_bytes`], and none keeps what is old because it has
    /// gone quiet.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self { config: self.config, session: Arc::new(Session::new(Arc::clone(&self.session.kept))) }
    }

    /// How much it keeps.
    pub fn config(&self) -> StoreConfig {
        self.config
    }

    /// Reads a part of a result: what is `at` a path (all of it where that is empty), from its member, item or character
    /// `offset` on, at most `limit` of them and as many as fit on a page.
    ///
    /// # Errors
    /// The handle is none of this store's any more, or the path leads nowhere.
    pub fn read(&self, handle: &str, at: &str, offset: usize, limit: Option<usize>) -> Result<Page, ReadError> {
        let (text, is_json) = self
            .session
            .lock()
            .take(self.session.number, handle, self.config.unread)
            .ok_or(ReadError::UnknownHandle)?;
        let path = path(at).map_err(ReadError::InvalidPath)?;
        page(&text, is_json, &path, offset, limit, self.config.page_bytes)
    }

    /// Keeps a result, and gives its handle; nothing where it is too large.
    pub(super) fn keep(&self, text: &str, is_json: bool) -> Option<String> {
        if text.len() > self.config.bytes.min(self.config.shared_bytes) || self.config.entries == 0 {
            return None;
        }
        let mut random = [0; HANDLE_BYTES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).ok()?;
        let handle = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let session = self.session.number;
        let output = Output { session, handle: handle.clone(), text: text.into(), is_json, used: Instant::now() };
        self.session.lock().put(output, self.config);
        Some(handle)
    }
}

impl Session {
    fn new(kept: Arc<Mutex<Kept>>) -> Self {
        let number = {
            let mut kept = lock(&kept);
            kept.sessions += 1;
            kept.sessions
        };
        Self { number, kept }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.lock().outputs.retain(|output| output.session != self.number);
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn put(&mut self, output: Output, config: StoreConfig) {
        let session = output.session;
        self.outputs.push_back(output);
        self.drop_old(config.unread);
        // From the newest on, as much as there is room for.
        let (mut shared, mut own, mut entries, mut kept) = (0, 0, 0, VecDeque::new());
        while let Some(output) = self.outputs.pop_back() {
            let bytes = output.text.len();
            let is_own = output.session == session;
            let own_fits = !is_own || (own + bytes <= config.bytes && entries < config.entries);
            if own_fits && shared + bytes <= config.shared_bytes {
                shared += bytes;
                own += if is_own { bytes } else { 0 };
                entries += usize::from(is_own);
                kept.push_front(output);
            }
        }
        self.outputs = kept;
    }

    fn take(&mut self, session: u64, handle: &str, unread: Duration) -> Option<(Arc<str>, bool)> {
        self.drop_old(unread);
        let is_it = |output: &Output| output.session == session && output.handle == handle;
        let position = self.outputs.iter().position(is_it)?;
        let mut output = self.outputs.remove(position)?;
        output.used = Instant::now();
        let found = (Arc::clone(&output.text), output.is_json);
        self.outputs.push_back(output);
        Some(found)
    }

    fn drop_old(&mut self, unread: Duration) {
        while self.outputs.front().is_some_and(|output| output.used.elapsed() >= unread) {
            self.outputs.pop_front();
        }
    }
}
