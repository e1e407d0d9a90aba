//! Numbers and texts that nobody else makes up. They identify; they protect nothing.

use relay_proto::TraceContext;

/// Makes up a text of 16 hexadecimal digits.
pub(crate) fn random_key() -> String {
    format!("{:016x}", random())
}

/// Starts a new trace.
pub(crate) fn new_trace() -> TraceContext {
    TraceContext::new(u128::from(random()) << 64 | u128::from(random()), random())
}

fn random() -> u64 {
    // The system seeds each of them anew.
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::time::Instant::now())
}
