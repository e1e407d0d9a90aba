//! What a model reads of a result, so that no result floods its context.
//!
//! On the host, after the result, in this order; each step is on unless it is turned off in [`OutputConfig`]:
//! - `attachment`: images and other binary data are handed over as such, and not as text
//! - `intent`: of a long result, the sections that have to do with what it is wanted for
//! - `summary`: large JSON as its shape, its first items and the names of the rest
//! - `cut`: whatever is too long still, without its middle
//! - `footer`: how much that saved
//!
//! Of a result that is not shown as a whole, [`OutputStore`] keeps the whole, for the model to page through by a handle.
//! Results are what strangers make of them: all work is linear in their length, and everything that is kept is bounded.

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
pub use footer::FooterConfig;
pub use intent::IntentConfig;
pub use page::{Page, ReadError};
pub use store::{OutputStore, StoreConfig};
pub use summary::SummaryConfig;

/// The tool by which a model reads on, as the texts name it.
pub const READ_TOOL: &str = "read_output";

/// The steps; `None` turns one off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputConfig {
    /// Handing over binary data as such. Turned off, it stays in the text, in base64.
    pub attachments: Option<AttachmentsConfig>,
    /// Filtering by intent.
    pub intent: Option<IntentConfig>,
    /// Summarizing large JSON.
    pub summary: Option<SummaryConfig>,
    /// Cutting out the middle.
    pub cut: Option<CutConfig>,
    /// Saying what was saved.
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

/// A result as a model gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What it reads: a string as its text, everything else as JSON; or what the steps made of it.
    pub text: String,
    /// What it gets beside the text, in the order in which the text names it.
    pub attachments: Vec<Attachment>,
    /// Whether the text says all of the result, but for what is attached.
    pub is_whole: bool,
    /// Where it is not: what [`OutputStore::read`] gives the rest for.
    pub handle: Option<String>,
}

impl OutputConfig {
    /// Shows a result, which is UTF-8 JSON. `intent` says in words what it is wanted for. What is not shown as a whole is kept
    /// in `store`: with the attachments taken out, or where there were too many to attach, as it came.
    ///
    /// It takes up to some hundred milliseconds for the largest results; results that are not UTF-8, or no JSON, are shown as
    /// the text that they are.
    pub fn show(&self, json: &[u8], intent: Option<&str>, store: Option<&OutputStore>) -> Shown {
        let Document { text, is_json } = Document::read(json);
        let taken = self.attachments.and_then(|config| attachment::taken_out(&text, is_json, config));
        let (rest, attachments, left_out_bytes) = match taken {
            Some(taken) => (Cow::from(taken.text), taken.attachments, taken.left_out_bytes),
            None => (Cow::from(&*text), Vec::new(), 0),
        };
        // What is attached was not saved.
        let processed = rest.len() + left_out_bytes;
        let fitted = self.fit(&rest, is_json, intent);
        let is_whole = fitted.is_none() && left_out_bytes == 0;
        let mut shown = fitted.unwrap_or_else(|| rest.as_ref().to_owned());
        // What was left out is nowhere else.
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

    /// What the steps make of a text; nothing where they leave it as it is.
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

    /// How many bytes the steps that follow on the filter leave as they are: the filter ends there by itself.
    fn unchanged(&self, is_json: bool) -> usize {
        let summary = self.summary.filter(|_| is_json).map_or(usize::MAX, |config| config.over_bytes);
        let cut = self.cut.map_or(usize::MAX, |config| config.characters);
        summary.min(cut)
    }
}

/// A result as a text.
struct Document<'a> {
    text: Cow<'a, str>,
    /// Whether the text is an array or an object in JSON.
    is_json: bool,
}

impl<'a> Document<'a> {
    fn read(json: &'a [u8]) -> Self {
        let text = String::from_utf8_lossy(json);
        let text = match text.trim_start().starts_with('"') {
            // One that holds half of a surrogate pair is no text; it stays as it came.
            true => serde_json::from_str::<String>(&text).map_or(text, Cow::from),
            false => text,
        };
        // Code that returns JSON.stringify(value) means the value.
        let is_json = json::is_container(&text);
        Self { text, is_json }
    }
}
