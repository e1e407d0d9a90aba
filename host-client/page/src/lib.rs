//! Pages for people: links by which they decide about tool calls, a webhook that tells of them, and the page of a journal.
//!
//! Applications name the crate `host-client` with its feature `page`, which exports all of this.
//! - [`links`]: signed links, each for one call and its exact arguments; [`webhook`]: the approver that hands them out
//! - [`Page`] in `ui`: runs, approvals that wait and the audit log, for whoever has its token
//! - [`LocalPage`] in `local`: that page of one process, served for browsers of its machine; [`serve()`]: a server with limits
//! - `live`: the runs of this process; `open`: its questions; [`PageApprover`] in `approver`: asks them
//! - `decision`: the form by which a person decides; `shown`: untrusted texts as HTML, with hidden characters made visible
//! - `guard`: what holds for every page
#![warn(missing_docs)]

mod approver;
mod decision;
mod guard;
pub mod links;
mod live;
mod local;
mod open;
mod serve;
mod shown;
mod ui;
pub mod webhook;

pub use approver::PageApprover;
pub use links::{ApprovalLinks, LinkError, LinkSecret};
pub use local::{LocalPage, LocalPageError, check_local};
pub use serve::{ServeLimits, serve};
pub use ui::{NoRandom, Page};
pub use webhook::{WebhookApprover, WebhookConfig, WebhookError, WebhookSecret};
