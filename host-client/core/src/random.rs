//! Random identifiers. They are unique, but not secret: not for use as keys or tokens.

use relay_proto::TraceContext;

/// Returns a random text of 16 hexadecimal digits.
pub(crate) fn random_key() -> String {
    format!("{:016x}", random())
}

/// Returns the context of a new trace, with random ids of the trace and of its first span.
pub(crate) fn new_trace() -> TraceContext {
    TraceContext::new(u128::from(random()) << 64 | u128::from(random()), random())
}

/// Returns a random share, from 0 up to 1.
pub(crate) fn random_share() -> f64 {
    f64::from(u32::try_from(random() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// Returns a random number. It is not cryptographically secure.
pub(crate) fn random() -> u64 {
    // Each `RandomState` has other keys, which the standard library seeds from the operating system.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::time::Instant::now())
}
