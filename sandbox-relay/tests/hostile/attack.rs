//! One hostile program, and what has to come of it.

use host_client::ErrorCode;

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
