//! Tool sets that come with this crate, whose modes are enforced, not declared.
//!
//! - [`http`]: fetching from hosts that were listed

pub mod http;
