//! Descriptions of tools for models and code: search, TypeScript declarations, overviews within a number of tokens, and
//! learned result types.

pub mod catalogue;
pub mod declare;
mod learn;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
mod uses;

pub(crate) use catalogue::Catalogue;
pub use catalogue::UnknownTool;
pub(crate) use declare::Declarations;
