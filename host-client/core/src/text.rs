//! Texts that strangers wrote, made fit for people, records and messages: bounded, and with nothing hidden in them.

mod shorten;
mod visible;

use relay_proto::id::MAX_TOOL_NAME_BYTES;

pub use shorten::{clipped, shortened, shortened_text};
pub use visible::visible;

/// Returns the start of a tool's name as it came, at most as long as a valid name may be.
pub fn short_name(tool: &str) -> &str {
    &tool[..tool.floor_char_boundary(MAX_TOOL_NAME_BYTES)]
}
