//! Keeps results for models that read them page by page.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::page::{Page, ReadError, page};
use super::path::path;

/// Number of random bytes in a handle.
const HANDLE_BYTES: usize = 12;
/// Prefix of every handle.
const PREFIX: &str = "out_";

/// Limits of an [`OutputStore`]. Results over a limit are dropped, the least recently used first.
///
/// Stores of several sessions can share one memory limit, `shared_bytes`; the other limits hold for each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConfig {
    /// Maximum size of all results of a session, in bytes. Default: 16 MiB. A larger result is not kept.
    pub bytes: usize,
    /// Maximum number of results of a session. Default: 64.
    pub entries: usize,
    /// Time after which a result that is not read is dropped. Default: 30 minutes.
    pub unread: Duration,
    /// Maximum size of all results of all sessions that share this limit, in bytes. Default: 64 MiB.
    pub shared_bytes: usize,
    /// Approximate maximum size of a page, in bytes. Default: 20,000.
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

/// Results of one session that were not shown as a whole. Clones share them; dropping the last clone drops them.
///
/// ```
/// use host_client_model::output::StoreConfig;
/// use host_client_model::{OutputConfig, OutputStore};
///
/// let store = OutputStore::new(StoreConfig { page_bytes: 1_000, ..StoreConfig::default() });
/// let json = serde_json::to_vec(&vec!["a long line of text"; 1_000]).unwrap();
/// let handle = OutputConfig::default().show(&json, None, Some(&store)).handle.unwrap();
/// let page = store.read(&handle, "", 0, Some(10)).unwrap();
/// assert_eq!(page.next_offset, Some(10));
/// assert!(store.for_another_session().read(&handle, "", 0, None).is_err(), "a handle is good in its session only");
/// ```
#[derive(Clone)]
pub struct OutputStore {
    config: StoreConfig,
    session: Arc<Session>,
}

/// One of the sessions that share a memory limit. Dropping it drops its results.
struct Session {
    number: u64,
    kept: Arc<Mutex<Kept>>,
}

/// Results of all sessions.
#[derive(Default)]
struct Kept {
    /// Results, the most recently used last.
    outputs: VecDeque<Output>,
    /// Number of sessions so far.
    sessions: u64,
}

/// Result with its handle.
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
    /// Creates an empty store.
    pub fn new(config: StoreConfig) -> Self {
        Self { config, session: Arc::new(Session::new(Arc::default())) }
    }

    /// Creates an empty store for another session. Neither session can read results of the other, but together they
    /// keep at most [`StoreConfig::shared_bytes`], and old results are dropped even if their session is idle.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self { config: self.config, session: Arc::new(Session::new(Arc::clone(&self.session.kept))) }
    }

    /// Returns the limits.
    pub fn config(&self) -> StoreConfig {
        self.config
    }

    /// Reads a page of the value at the path `at` of a result; the empty path is the whole result. The page begins with
    /// the member, item or character `offset`, from 0, and holds at most `limit` of them; `None`: as many as fit.
    ///
    /// # Errors
    /// [`ReadError::UnknownHandle`] if the result is not or no longer kept, [`ReadError::InvalidPath`] and
    /// [`ReadError::NotThere`] for the path.
    pub fn read(&self, handle: &str, at: &str, offset: usize, limit: Option<usize>) -> Result<Page, ReadError> {
        let (text, is_json) = self
            .session
            .lock()
            .take(self.session.number, handle, self.config.unread)
            .ok_or(ReadError::UnknownHandle)?;
        let path = path(at).map_err(ReadError::InvalidPath)?;
        page(&text, is_json, &path, offset, limit, self.config.page_bytes)
    }

    /// Keeps a result, and returns its handle; `None` if it is too large.
    pub(crate) fn keep(&self, text: &str, is_json: bool) -> Option<String> {
        if text.len() > self.config.bytes.min(self.config.shared_bytes) || self.config.entries == 0 {
            return None;
        }
        let mut random = [0; HANDLE_BYTES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).ok()?;
        let handle = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let session = self.session.number;
        let output = Output { session, handle: handle.clone(), text: text.into(), is_json, used: Instant::now() };
        self.session.lock().insert(output, self.config);
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
    /// Adds a result, and drops old ones over the limits.
    fn insert(&mut self, output: Output, config: StoreConfig) {
        let session = output.session;
        self.outputs.push_back(output);
        self.drop_old(config.unread);
        // The newest are kept while there is room.
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

    /// Returns a result, and marks it as used.
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

    /// Drops the results that were not read for too long.
    fn drop_old(&mut self, unread: Duration) {
        while self.outputs.front().is_some_and(|output| output.used.elapsed() >= unread) {
            self.outputs.pop_front();
        }
    }
}
