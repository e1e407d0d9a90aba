//! An approver whose questions stand on a page.

use std::sync::Arc;

use host_client_core::rules::approval::ApprovalFuture;
use host_client_core::{Approval, ApprovalRequest, Approver};

use crate::live::Live;
use crate::open::OpenQuestions;

/// An approver that asks on the page that it was made by: [`Page::approver`](crate::Page::approver). The calls of durable
/// runs are decided by the journal, which the page has as well.
#[derive(Clone)]
pub struct PageApprover {
    name: String,
    questions: Arc<OpenQuestions>,
    live: Option<Arc<Live>>,
    other: Option<Arc<dyn Approver>>,
}

impl std::fmt::Debug for PageApprover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageApprover").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PageApprover {
    pub(crate) fn new(by: &str, questions: Arc<OpenQuestions>, live: Option<Arc<Live>>) -> Self {
        Self { name: by.to_owned(), questions, live, other: None }
    }

    /// Asks another approver at the same time, such as one at the terminal. The first answer counts. The name for events and
    /// audit is then that of both.
    #[must_use]
    pub fn or(mut self, other: impl Approver) -> Self {
        self.name = format!("{} or {}", self.name, other.name());
        self.other = Some(Arc::new(other));
        self
    }
}

impl Approver for PageApprover {
    fn name(&self) -> &str {
        &self.name
    }

    fn approve(&self, request: ApprovalRequest) -> ApprovalFuture {
        let Self { questions, live, other, .. } = self.clone();
        Box::pin(async move {
            let other = other.map(|other| other.approve(request.clone()));
            let other = async {
                match other {
                    Some(other) => other.await,
                    None => std::future::pending().await,
                }
            };
            if request.question.is_some() {
                // The decision comes by the journal.
                return other.await;
            }
            let (answer, _open) = match OpenQuestions::open(&questions, request) {
                Ok((_, answer, open)) => (answer, open),
                Err(error) => {
                    tracing::warn!(%error, "a question is not on the page");
                    return Approval::Deny { reason: Some("nobody could be asked".into()) };
                }
            };
            let told = Told(live);
            told.tell();
            tokio::select! {
                biased;
                answer = answer => answer.unwrap_or_else(|_closed| Approval::deny()),
                answer = other => answer,
            }
        })
    }
}

/// Tells pages of a question, and, when this is dropped, that it is gone.
struct Told(Option<Arc<Live>>);

impl Told {
    fn tell(&self) {
        if let Some(live) = &self.0 {
            live.touch();
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.tell();
    }
}
