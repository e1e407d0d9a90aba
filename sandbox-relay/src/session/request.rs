//! Checks an `execute` against what its session may do, and makes the request to run.

use std::collections::BTreeMap;

use relay_proto::steps::MAX_TIME_MS;
use relay_proto::{Binding, LOCAL_SERVER, LimitName, LimitOverrides, ToolName, ToolPatterns, wire};

use super::durable::{self, Recorded};
use super::state::{SessionGrant, clamp_warning};
use super::{Mode, excerpt};
use crate::execution::{Bindings, ExecutionRequest};

/// Maximum number of patterns in `remote_tools`.
const MAX_PATTERNS: usize = 256;
/// Maximum length in bytes of one pattern.
const MAX_PATTERN_BYTES: usize = 256;
/// Maximum number of patterns with a star before their end: such a one is searched for in every name.
const MAX_SEARCHES: usize = 16;
/// Maximum number of bytes of the source, the local tools and the input: with all else, a worker takes them as one message.
const MAX_TEXT_BYTES: usize = 6 << 20;
/// Maximum number of local tools.
const MAX_LOCAL_TOOLS: usize = 64;

/// Makes the filter of the tools that an execution may call, of the patterns in `remote_tools`; without a pattern, all.
///
/// # Errors
/// The message for the host: the patterns are too many, too long or too costly.
pub(super) fn tool_filter(execute: &wire::Execute) -> Result<ToolPatterns, String> {
    let patterns = &execute.remote_tools;
    if patterns.len() > MAX_PATTERNS || patterns.iter().any(|it| it.len() > MAX_PATTERN_BYTES) {
        return Err(format!("remote_tools has more than {MAX_PATTERNS} patterns, or a very long one"));
    }
    let searches = patterns.iter().filter(|it| it.find('*').is_some_and(|at| at + 1 < it.len())).count();
    if searches > MAX_SEARCHES {
        return Err(format!("remote_tools has more than {MAX_SEARCHES} patterns with a star before their end"));
    }
    Ok(ToolPatterns::new((!patterns.is_empty()).then(|| patterns.clone())))
}

/// Makes the request to run, with a warning for each limit that was clamped.
///
/// # Errors
/// The message for the host: something is asked for that is not offered, or over a limit.
pub(super) fn request(
    execute: wire::Execute,
    mode: Mode,
    grant: &SessionGrant,
) -> Result<(ExecutionRequest, Vec<wire::Warning>), String> {
    if mode != Mode::Full {
        if !execute.local_tools.is_empty() {
            return Err("local_tools are off without hello".into());
        }
        if execute.durable.is_some() {
            return Err("durable is off without hello".into());
        }
        return Ok((sized(ExecutionRequest::new(execute.code, grant.limits))?, Vec::new()));
    }
    let mut bindings = Bindings::default();
    for name in &execute.bindings {
        let Ok(binding) = name.parse() else {
            let names: Vec<_> = Binding::ALL.iter().map(|binding| binding.as_str()).collect();
            return Err(format!("there is no binding {:?}; there are: {}", excerpt(name), names.join(", ")));
        };
        bindings.add(binding);
    }
    if execute.now_ms.is_some_and(|now| now.unsigned_abs() > MAX_TIME_MS) {
        return Err("now_ms is no time that JavaScript has".into());
    }
    let large_integers = wire::LargeIntegers::try_from(execute.large_integers)
        .map_err(|_| format!("large_integers has no form {}", execute.large_integers))?;
    let asked = LimitOverrides::try_from(&execute.limits).map_err(|error| error.to_string())?;
    let (limits, clamped) = grant.limits.lowered(&asked);
    let recorded = match execute.durable {
        Some(durable) => durable::recorded(durable, execute.seed, execute.now_ms, bindings)?,
        None => Recorded::default(),
    };
    if let Some(clamped) = clamped.first().filter(|_| recorded.began_before()) {
        return Err(format!("the execution began with other limits, which its code can notice: {clamped}"));
    }
    let request = ExecutionRequest {
        bindings,
        // Without the binding no code could read it.
        input: if bindings.has(Binding::Io) { execute.input } else { String::new() },
        local_tools: local_tools(execute.local_tools)?,
        seed: execute.seed,
        now_ms: execute.now_ms,
        large_integers,
        durable: recorded.request,
        stored: recorded.stored,
        tools: recorded.tools,
        ..ExecutionRequest::new(execute.code, limits)
    };
    Ok((sized(request)?, clamped.iter().map(clamp_warning).collect()))
}

/// Checks the names and the number of local tools, and returns their sources by full name.
fn local_tools(sources: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    if sources.len() > MAX_LOCAL_TOOLS {
        return Err(format!("there are {} local tools; at most {MAX_LOCAL_TOOLS} are taken", sources.len()));
    }
    let named = |(name, source): (String, String)| match ToolName::try_from(format!("{LOCAL_SERVER}.{name}")) {
        Ok(full) => Ok((full.as_str().to_owned(), source)),
        Err(error) => Err(format!("the local tool {:?}: {error}", excerpt(&name))),
    };
    sources.into_iter().map(named).collect()
}

/// Checks the limit `source_bytes`, and the length of all texts.
fn sized(request: ExecutionRequest) -> Result<ExecutionRequest, String> {
    let texts = request.text_bytes();
    if texts > MAX_TEXT_BYTES {
        return Err(format!(
            "the source, the local tools and the input have {texts} bytes; at most {MAX_TEXT_BYTES} are taken"
        ));
    }
    let (bytes, most) = (texts - request.input.len(), request.limits.size(LimitName::SourceBytes));
    if bytes > most {
        let what = if request.local_tools.is_empty() { "source has" } else { "source and the local tools have" };
        return Err(format!("the {what} {bytes} bytes; the limit source_bytes is {most}"));
    }
    Ok(request)
}
