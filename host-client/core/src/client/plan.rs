//! Takes the host's steps with a request before it goes to the relay: a short path, or the check of its code.

use relay_proto::LimitName;
use relay_proto::code::warning;
use relay_proto::session::feature;

use super::check::{self, Mistake};
use super::request::{Check, ExecuteRequest};
use super::short_path::{self, Plan};
use super::{Client, Warning};
use crate::call::ledger::Budget;
use crate::session::grant::TokenGrant;

impl Client {
    /// Returns the mistakes in a request's code that are certain, in the order of the text, whatever
    /// [`ExecuteRequest::check`] says; at most 20. Nothing is run. The tools are those that there are now.
    ///
    /// # Errors
    /// [`Error::Pattern`](crate::Error::Pattern): a pattern of [`ExecuteRequest::tools`] can fit no tool.
    pub fn check(&self, request: &ExecuteRequest) -> Result<Vec<Mistake>, crate::Error> {
        let request = request.clone().with_offered(self.offered());
        let (budget, _) = self.budget(&request, &self.session.grant())?;
        Ok(self.mistakes(&request, &budget))
    }

    fn mistakes(&self, request: &ExecuteRequest, budget: &Budget) -> Vec<Mistake> {
        let host = &self.session.host;
        let around = check::Surroundings::new(host.tools(), &host.policy, &budget.tools);
        check::mistakes(request, &around)
    }

    /// Chooses what is done with a request on this host, with warnings about its code; `None`: it runs as code at the
    /// relay.
    pub(super) fn plan(
        &self,
        request: &ExecuteRequest,
        budget: &Budget,
        grant: &TokenGrant,
    ) -> (Option<Plan>, Vec<Warning>) {
        let limit = |name| match name {
            LimitName::ResultBytes => budget.result_bytes,
            name => grant.effective_limit(&request.limits, name),
        };
        let (tools, patterns, offered) = (self.session.host.tools(), &budget.tools, self.offered());
        let knows_patterns = self.offers(feature::GRANTED_TOOLS);
        let around = short_path::Surroundings { tools, patterns, knows_patterns, offered, limit: &limit };
        if let Some(plan) = short_path::find(request, &around) {
            return (Some(plan), Vec::new());
        }
        match request.check {
            Check::Off => (None, Vec::new()),
            Check::Refuse => (
                check::refusal(&self.mistakes(request, budget)).map(|error| Plan::Refused(Box::new(error))),
                Vec::new(),
            ),
            Check::Warn => {
                let warned = |mistake: Mistake| Warning { code: warning::HINT.into(), message: mistake.to_string() };
                (None, self.mistakes(request, budget).into_iter().map(warned).collect())
            }
        }
    }
}
