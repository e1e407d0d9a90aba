//! Shortens results for models, so that no result floods a context.
//!
//! The steps run on the host, in this order; [`OutputConfig`] turns off each of them:
//! - `attachment`: takes images and other binary data out of the text
//! - `intent`: reduces a long result to the sections that match an intent
//! - `summary`: replaces large JSON by its shape, its first items and the names of the rest
//! - `cut`: cuts the middle out of a text that is still too long
//! - `footer`: says how much was saved
//!
//! [`OutputStore`] keeps a result that is not shown as a whole, and a model reads it page by page with a handle.
//! Results are untrusted: all work is linear in their length, and everything that is kept is bounded.

mod attachment;
mod chunk;
mod cut;
mod footer;
mod intent;
mod json;
mod page;
mod path;
mod store;
mod summary;

use std::borrow::Cow;

pub use attachment::{Attachment, AttachmentsConfig};
pub use cut::CutConfig;
pub(crate) use cut::cut;
pub use footer::FooterConfig;
pub use intent::IntentConfig;
pub use page::{Page, ReadError};
pub use store::{OutputStore, StoreConfig};
pub use summary::SummaryConfig;

/// Name of the tool by which a model reads the rest of a result.
pub const READ_TOOL: &str = "read_output";

/// Steps that shorten a result; `None` turns off a step. By default all are on.
///
/// ```
/// use host_client_model::{OutputConfig, OutputStore};
///
/// let items: Vec<_> = (0..2_000).map(|id| serde_json::json!({"id": id, "name": format!("item {id}")})).collect();
/// let json = serde_json::to_vec(&items).unwrap();
/// let store = OutputStore::default();
/// let shown = OutputConfig::default().show(&json, None, Some(&store));
/// assert!(shown.text.len() < 10_000 && !shown.is_whole);
/// assert!(shown.text.starts_with("[Summary: an array of 2000 items"));
/// // The rest is in the store:
/// let page = store.read(&shown.handle.unwrap(), "[1999].name", 0, None).unwrap();
/// assert!(page.text.contains("item 1999"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputConfig {
    /// Takes binary data out of the text, as attachments. `None`: it stays in the text, in base64.
    pub attachments: Option<AttachmentsConfig>,
    /// Filters long results by an intent.
    pub intent: Option<IntentConfig>,
    /// Summarizes large JSON.
    pub summary: Option<SummaryConfig>,
    /// Cuts out the middle of long texts.
    pub cut: Option<CutConfig>,
    /// Adds a line that says how much was saved.
    pub footer: Option<FooterConfig>,
}

impl Default for OutputConfig {
    fn default() -> Self {
        Self {
            attachments: Some(AttachmentsConfig::default()),
            intent: Some(IntentConfig::default()),
            summary: Some(SummaryConfig::default()),
            cut: Some(CutConfig::default()),
            footer: Some(FooterConfig::default()),
        }
    }
}

/// Result in the form for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Text for the model: a string as itself, other values as JSON; or what the steps made of it.
    pub text: String,
    /// Binary data beside the text, in the order in which the text names it.
    pub attachments: Vec<Attachment>,
    /// `true`: the text contains the whole result, apart from the attachments.
    pub is_whole: bool,
    /// Handle of the whole result for [`OutputStore::read`]; `None` if the result is whole, or was not kept.
    pub handle: Option<String>,
}

impl OutputConfig {
    /// Shortens a result, which is UTF-8 JSON. `intent`: words that say what the result is for. `store`: keeps a result
    /// that is not shown as a whole, without its attachments, or unchanged if not all binary data could be attached.
    ///
    /// The largest results take some hundred milliseconds. Bytes that are not JSON are treated as a text, with invalid
    /// UTF-8 replaced.
    pub fn show(&self, json: &[u8], intent: Option<&str>, store: Option<&OutputStore>) -> Shown {
        let Document { text, is_json } = Document::read(json);
        let taken = self.attachments.and_then(|config| attachment::taken_out(&text, is_json, config));
        let (rest, attachments, left_out_bytes) = match taken {
            Some(taken) => (Cow::from(taken.text), taken.attachments, taken.left_out_bytes),
            None => (Cow::from(&*text), Vec::new(), 0),
        };
        // Attached data does not count as saved.
        let processed = rest.len() + left_out_bytes;
        let fitted = self.fit(&rest, is_json, intent);
        let is_whole = fitted.is_none() && left_out_bytes == 0;
        let mut shown = fitted.unwrap_or_else(|| rest.as_ref().to_owned());
        // Binary data that is not attached is in the original text only.
        let kept = if left_out_bytes > 0 { &text } else { &rest };
        let handle = store.filter(|_| !is_whole).and_then(|store| store.keep(kept, is_json));
        if let Some(handle) = &handle {
            let parts = if is_json { ", by path and offset" } else { ", by offset" };
            shown.push_str(&format!("\n[All of it: {READ_TOOL} with {{\"handle\":\"{handle}\"}}{parts}]"));
        }
        let footer = self.footer.and_then(|config| footer::footer(shown.len(), processed, config));
        if let Some(footer) = footer {
            shown.push('\n');
            shown.push_str(&footer);
        }
        Shown { text: shown, attachments, is_whole, handle }
    }

    /// Applies the steps to a text. Returns `None` if they leave it unchanged.
    fn fit(&self, text: &str, is_json: bool, intent: Option<&str>) -> Option<String> {
        let filtered = match (self.intent, intent) {
            (Some(config), Some(intent)) => intent::filtered(text, is_json, intent, self.unchanged(is_json), config),
            _ => None,
        };
        let summary = || self.summary.filter(|_| is_json).and_then(|config| summary::summary(text, config));
        let shorter = filtered.or_else(summary);
        let cut = self.cut.and_then(|config| cut::cut(shorter.as_deref().unwrap_or(text), config));
        cut.or(shorter)
    }

    /// Returns the number of bytes that the later steps leave unchanged: the maximum for the filter.
    fn unchanged(&self, is_json: bool) -> usize {
        let summary = self.summary.filter(|_| is_json).map_or(usize::MAX, |config| config.over_bytes);
        let cut = self.cut.map_or(usize::MAX, |config| config.characters);
        summary.min(cut)
    }
}

/// Result as a text.
struct Document<'a> {
    text: Cow<'a, str>,
    /// `true`: the text is a JSON array or object.
    is_json: bool,
}

impl<'a> Document<'a> {
    fn read(json: &'a [u8]) -> Self {
        let text = String::from_utf8_lossy(json);
        let text = match text.trim_start().starts_with('"') {
            // A string with half a surrogate pair stays as written.
            true => serde_json::from_str::<String>(&text).map_or(text, Cow::from),
            false => text,
        };
        // A string with a JSON array or object, as of `JSON.stringify(value)`, is treated as that value.
        let is_json = json::is_container(&text);
        Self { text, is_json }
    }
}
