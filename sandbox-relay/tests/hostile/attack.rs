//! One hostile program, and what has to come of it.

use host_client::{ErrorCode, ExecuteRequest, LimitName};

/// CPU time of attacks that are to end in another way than by using it up, however slow the machine is.
const ENOUGH_CPU_MS: u64 = 30_000;

/// A program that tries to get out, to break something, or to take more than it was given.
#[derive(Debug)]
pub(crate) struct Attack {
    /// Attempt, in a few words.
    pub(crate) name: &'static str,
    /// The program.
    pub(crate) code: &'static str,
    /// Required end.
    pub(crate) expected: Expected,
}

impl Attack {
    /// Returns the request with the limits of the attack's class.
    pub(crate) fn request(&self, limit: fn(ExecuteRequest) -> ExecuteRequest) -> ExecuteRequest {
        let request = limit(ExecuteRequest::new(self.code).always_in_sandbox());
        match self.expected {
            Expected::Error(codes) | Expected::Any(codes) if codes.contains(&ErrorCode::CpuLimit) => request,
            _ => request.limit(LimitName::CpuMs, ENOUGH_CPU_MS),
        }
    }
}

/// Required end of an attack.
#[derive(Debug)]
pub(crate) enum Expected {
    /// It gives this value, as JSON: the attack had no effect, and the program can tell.
    Value(&'static str),
    /// It ends with one of these errors.
    Error(&'static [ErrorCode]),
    /// It gives whatever value, or ends with one of these errors: what matters is what happens to others.
    Any(&'static [ErrorCode]),
}
