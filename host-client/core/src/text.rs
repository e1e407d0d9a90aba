//! Texts from untrusted sources, made safe for people, records and messages: bounded in length, without hidden
//! characters.

mod indent;
mod shorten;
mod visible;

use relay_proto::id::MAX_TOOL_NAME_BYTES;

pub use indent::{Indented, indented};
pub use shorten::{clipped, shortened, shortened_text};
pub use visible::visible;

/// Returns the start of a tool's name, at most as long as the longest valid name. The name may be invalid.
pub fn short_name(tool: &str) -> &str {
    &tool[..tool.floor_char_boundary(MAX_TOOL_NAME_BYTES)]
}
