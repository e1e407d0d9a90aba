//! Warnings about a policy and about redactions, given the tools that there are.

use host_client::{Host, ToolPattern};

use crate::output::{inline, note};

/// The most warnings that are printed one by one.
const MAX_WARNINGS: usize = 20;

/// Returns the warnings about the policy, and about redactions that fit no tool. Patterns that name a server in
/// `missing` are left out: it has not started, so that its tools are not known.
pub(crate) fn warnings(host: &Host, redact: &[String], missing: &[String]) -> Vec<String> {
    use host_client::PolicyWarning::FitsNoTool;
    let waits = |pattern: &str| {
        let server = pattern.split_once('.').map_or(pattern, |(server, _)| server);
        missing.iter().any(|name| name == server)
    };
    let of_policy = host.policy_warnings().into_iter().filter(|warning| match warning {
        FitsNoTool(unfit) => !waits(&unfit.pattern),
        _ => true,
    });
    let names = host.tools().names();
    let of_redactions = redact.iter().filter_map(|redaction| {
        let pattern: ToolPattern = redaction.split_once('=')?.0.parse().ok()?;
        let fits = names.iter().any(|name| pattern.fits(name));
        let is_told = !fits && !pattern.as_str().starts_with('*') && !waits(pattern.as_str());
        is_told.then(|| format!("--redact {redaction}: the pattern fits no tool, so that it redacts nothing"))
    });
    of_policy.map(|warning| warning.to_string()).chain(of_redactions).collect()
}

/// Prints the warnings about the policy and the redactions to standard error.
pub(crate) fn print_warnings(host: &Host, redact: &[String], missing: &[String]) {
    let warnings = warnings(host, redact, missing);
    for warning in warnings.iter().take(MAX_WARNINGS) {
        note(&format!("relay-host: warning: {}", inline(warning)));
    }
    if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
        note(&format!("relay-host: and {more} more warnings: relay-host policy check lists them"));
    }
}
