//! Takes images, sounds and other binary data out of a result.
//!
//! Recognized are the items of MCP tools (`{"type": "image", "data": …, "mimeType": …}`, the same for `audio`, and
//! objects with a `blob`), the `body_base64` of the tool `http.fetch`, and data URLs, anywhere in a value. A
//! placeholder replaces them, such as `[image/png, 12.3KB, attachment 1]`. Without a media type, a string counts as
//! data only if it begins like a known file format or is long, because short words such as `main` and the hashes of git
//! are valid base64, too.

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::footer::kilobytes;
use super::json::offset;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Media type of data of an unknown type.
const UNKNOWN_TYPE: &str = "application/octet-stream";
/// Beginnings of known file formats in base64, with their media types.
const BEGINNINGS: [(&str, &str); 4] =
    [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("JVBERi0", "application/pdf")];
/// Maximum length of a media type, in bytes.
const MAX_MIME_BYTES: usize = 100;
/// Maximum length of a data URL before its data, in bytes.
const MAX_URL_START_BYTES: usize = 150;
/// Minimum length of the data of a data URL within a text, in bytes: shorter ones are examples in explanations.
const MIN_INNER_DATA_BYTES: usize = 64;
/// Minimum length of base64 of an unknown type to count as data, in bytes: shorter ones are names and hashes.
const MIN_UNTYPED_DATA_BYTES: usize = 256;

/// Limits of attachments. Data over a limit is left out, and the text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachmentsConfig {
    /// Maximum number of attachments. Default: 8.
    pub count: usize,
    /// Maximum size of all attachments, decoded, in bytes. Default: 8 MiB.
    pub bytes: usize,
}

impl Default for AttachmentsConfig {
    fn default() -> Self {
        Self { count: 8, bytes: 8 << 20 }
    }
}

/// Binary data of a result. `Debug` prints its type and size alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Media type as the tool gives it, without parameters, such as `image/png`.
    pub mime: String,
    /// Data in valid base64.
    pub base64: String,
    /// Size of the decoded data, in bytes.
    pub bytes: usize,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attachment({}, {} bytes)", self.mime, self.bytes)
    }
}

/// Text without its binary data, and that data.
pub(super) struct Taken {
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
    /// Length of the data that is neither in the text nor attached, in bytes of base64.
    pub(super) left_out_bytes: usize,
}

/// Takes the binary data out of a text. Returns `None` if there is none.
pub(super) fn taken_out(text: &str, is_json: bool, config: AttachmentsConfig) -> Option<Taken> {
    let mut found = Vec::new();
    data_urls(text, &mut found);
    if is_json && KEYS.iter().any(|key| text.contains(key)) {
        let scan = Scan { json: text, found: &mut found };
        // Data before a syntax error is taken out all the same.
        let _ = scan.deserialize(&mut serde_json::Deserializer::from_str(text));
    }
    found.sort_by_key(|found| found.place.start);
    let (mut rest, mut done, mut attachments) = (String::new(), 0, Vec::new());
    let (mut bytes_left, mut left_out_bytes) = (config.bytes, 0);
    for Found { place, mime } in found {
        let Some(base64) = text.get(place.data.clone()).filter(|_| place.start >= done) else { continue };
        let Ok(data) = BASE64.decode(base64) else { continue };
        let bytes = data.len();
        rest.push_str(&text[done..place.start]);
        done = place.end;
        let fits = attachments.len() < config.count && bytes <= bytes_left;
        let (mime, size) = (plain(mime), kilobytes(bytes));
        if fits {
            bytes_left -= bytes;
            rest.push_str(&format!("[{mime}, {size}, attachment {}]", attachments.len() + 1));
            attachments.push(Attachment { mime: mime.to_owned(), base64: base64.to_owned(), bytes });
        } else {
            left_out_bytes += base64.len();
            rest.push_str(&format!("[{mime}, {size}, left out]"));
        }
    }
    if done == 0 {
        return None;
    }
    rest.push_str(&text[done..]);
    Some(Taken { text: rest, attachments, left_out_bytes })
}

/// Possible binary data.
struct Found<'a> {
    place: Place,
    mime: &'a str,
}

/// Position in the text, and the range of the base64 within it.
struct Place {
    start: usize,
    end: usize,
    data: Range<usize>,
}

/// Returns a media type that is safe in a text; that of unknown data if it is malformed.
fn plain(mime: &str) -> &str {
    media_type(mime).unwrap_or(UNKNOWN_TYPE)
}

/// Returns a media type without its parameters; `None` if it is malformed.
fn media_type(mime: &str) -> Option<&str> {
    let mime = mime.split(';').next().unwrap_or_default().trim();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '/' | '.' | '+' | '-' | '_');
    let is_one = mime.len() <= MAX_MIME_BYTES && mime.chars().all(is_plain);
    let (kind, name) = mime.split_once('/').filter(|_| is_one)?;
    (!kind.is_empty() && !name.is_empty() && !name.contains('/')).then_some(mime)
}

/// Finds data URLs. Each ends before a quotation mark, so that in JSON it is within one string.
fn data_urls<'a>(text: &'a str, found: &mut Vec<Found<'a>>) {
    let mut from = 0;
    while let Some(start) = text[from..].find("data:").map(|at| from + at) {
        from = start + "data:".len();
        let head = &text[from..text.ceil_char_boundary(from + MAX_URL_START_BYTES)];
        let Some((mime, _)) = head.split_once(";base64,").filter(|(mime, _)| is_type(mime)) else { continue };
        let data = from + mime.len() + ";base64,".len();
        let is_data = |it: char| it.is_ascii_alphanumeric() || matches!(it, '+' | '/' | '=');
        let end = text[data..].find(|it| !is_data(it)).map_or(text.len(), |length| data + length);
        let is_all = matches!(
            (text[..start].chars().next_back(), text[end..].chars().next()),
            (None | Some('"'), None | Some('"'))
        );
        if end - data >= MIN_INNER_DATA_BYTES || (is_all && end > data) {
            found.push(Found { place: Place { start, end, data: data..end }, mime });
        }
        from = end;
    }
}

/// Returns `true` if the text can be the media type of a data URL.
fn is_type(mime: &str) -> bool {
    mime.chars().all(|it| it.is_ascii_graphic() && !matches!(it, '"' | '\\' | ',' | '(' | ')'))
}

/// Keys of binary data. JSON without them is not parsed.
const KEYS: [&str; 3] = ["\"data\"", "\"blob\"", "\"body_base64\""];

/// Key of a member that is read.
#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "type")]
    Type,
    #[serde(rename = "mimeType", alias = "mime_type")]
    Mime,
    #[serde(rename = "data")]
    Data,
    #[serde(rename = "blob")]
    Blob,
    #[serde(rename = "body_base64")]
    Body,
    #[serde(other)]
    Other,
}

/// Search for binary data in JSON, in one pass.
struct Scan<'s, 'a> {
    json: &'a str,
    found: &'s mut Vec<Found<'a>>,
}

impl<'s, 'a> Scan<'s, 'a> {
    /// Reborrows the search for a nested value.
    fn again(&mut self) -> Scan<'_, 'a> {
        Scan { json: self.json, found: self.found }
    }

    /// Adds a string of base64, unless it may be a word or a hash. `is_data`: the key says that it is data.
    fn push(&mut self, data: &'a str, mime: Option<&'a str>, is_data: bool) {
        let known = BEGINNINGS.iter().find(|(start, _)| data.starts_with(start)).map(|(_, mime)| *mime);
        let is_typed = known.is_some() || mime.is_some_and(|mime| media_type(mime).is_some());
        if !is_data && !is_typed && data.len() < MIN_UNTYPED_DATA_BYTES {
            return;
        }
        let start = offset(self.json, data);
        let end = start + data.len();
        let mime = mime.or(known).unwrap_or(UNKNOWN_TYPE);
        self.found.push(Found { place: Place { start, end, data: start..end }, mime });
    }
}

/// Returns the value if it is a string without escapes, as base64 is.
impl<'a> DeserializeSeed<'a> for Scan<'_, 'a> {
    type Value = Option<&'a str>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Scan<'_, 'a> {
    type Value = Option<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut mime, mut data, mut blob, mut body) = (None, None, None, None, None);
        while let Some(key) = members.next_key::<Key>()? {
            let value = members.next_value_seed(self.again())?.filter(|text| !text.is_empty());
            match key {
                Key::Type => kind = value,
                Key::Mime => mime = value,
                Key::Data => data = value,
                Key::Blob => blob = value,
                Key::Body => body = value,
                Key::Other => {}
            }
        }
        let data = data.filter(|_| matches!(kind, Some("image" | "audio")));
        for (data, is_data) in [(data, false), (blob, false), (body, true)] {
            if let Some(data) = data {
                self.push(data, mime, is_data);
            }
        }
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'a>>(mut self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element_seed(self.again())?.is_some() {}
        Ok(None)
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Self::Value, E> {
        Ok(Some(text))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
