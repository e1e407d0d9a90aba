//! Tools described for models and code: searched, declared in TypeScript, listed under a budget, their results learnt.

pub mod catalogue;
pub mod declare;
mod learn;

pub(crate) use catalogue::Catalogue;
pub use catalogue::UnknownTool;
pub(crate) use declare::Declarations;
