//! Descriptions of tools for models and code: search, TypeScript declarations, overviews within a number of tokens, and
//! learned result types.

pub mod catalogue;
pub mod declare;
mod learn;

pub(crate) use catalogue::Catalogue;
pub use catalogue::UnknownTool;
pub(crate) use declare::Declarations;
