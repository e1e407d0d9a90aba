//! Limits: names, defaults, maxima, and how the values of a token and of an execution combine.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

macro_rules! limits {
    ($($(#[$doc:meta])* $variant:ident = $text:literal: $minimum:expr, $default:expr, $maximum:expr;)*) => {
        /// Name of a limit. It ends with the unit, `_ms` or `_bytes`; without a unit it is a count.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LimitName {
            $($(#[$doc])* $variant,)*
        }

        impl LimitName {
            /// Lists every limit, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name in claims, settings, requests and errors.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the minimum; a lower request is raised to it.
            pub fn minimum(self) -> u64 {
                match self { $(Self::$variant => $minimum,)* }
            }

            /// Returns the default.
            pub fn default_value(self) -> u64 {
                match self { $(Self::$variant => $default,)* }
            }

            /// Returns the maximum that a token can grant, unless the relay's settings say otherwise.
            pub fn maximum(self) -> u64 {
                match self { $(Self::$variant => $maximum,)* }
            }
        }
    };
}

limits! {
    /// Time from the hand-over to a worker until the end, without waiting for approvals. Default 120 s, maximum 900 s.
    WallMs = "wall_ms": 1, 120_000, 900_000;
    /// CPU time of the worker. Default 10 s, maximum 60 s.
    CpuMs = "cpu_ms": 1, 10_000, 60_000;
    /// V8's heap. Default 64 MiB, maximum 512 MiB.
    HeapBytes = "heap_bytes": 8 * MIB, 64 * MIB, 512 * MIB;
    /// All private memory of the worker, buffers included. Default 256 MiB, maximum 1 GiB.
    MemoryBytes = "memory_bytes": 32 * MIB, 256 * MIB, 1024 * MIB;
    /// Source and local tools. Default 1 MiB, maximum 4 MiB.
    SourceBytes = "source_bytes": 1, MIB, 4 * MIB;
    /// Tool calls in one execution. Default 1,000, maximum 100,000.
    ToolCalls = "tool_calls": 0, 1_000, 100_000;
    /// Tool calls in flight at once; further ones wait in the worker. Default 64, maximum 1,024.
    ToolCallsInFlight = "tool_calls_in_flight": 1, 64, 1_024;
    /// Time from sending one call to its result. Default 30 s, maximum 600 s.
    ToolCallMs = "tool_call_ms": 1, 30_000, 600_000;
    /// Time for one approval; all of an execution may take four times as long. Default 600 s, maximum one day.
    ApprovalMs = "approval_ms": 1, 600_000, 86_400_000;
    /// Arguments of one call as JSON. Default 1 MiB, maximum 10 MiB.
    ArgumentsBytes = "arguments_bytes": 2, MIB, 10 * MIB;
    /// Result of one call as JSON. Default 10 MiB, maximum 12 MiB.
    ToolResultBytes = "tool_result_bytes": 4, 10 * MIB, 12 * MIB;
    /// Returned value as JSON. Default 10 MiB, maximum 12 MiB.
    ResultBytes = "result_bytes": 4, 10 * MIB, 12 * MIB;
    /// All output in UTF-8. Default 64 KiB, maximum 4 MiB.
    OutputBytes = "output_bytes": 0, 64 * KIB, 4 * MIB;
    /// Pieces of output. Default 10,000, maximum 100,000.
    OutputCount = "output_count": 0, 10_000, 100_000;
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reports a text that names no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no limit named {name:?}; the limits are {}", all_names())]
pub struct UnknownLimit {
    /// Rejected name, cut to 64 characters.
    pub name: String,
}

fn all_names() -> String {
    LimitName::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

impl FromStr for LimitName {
    type Err = UnknownLimit;

    fn from_str(text: &str) -> Result<Self, UnknownLimit> {
        let known = Self::ALL.iter().copied().find(|name| name.as_str() == text);
        known.ok_or_else(|| UnknownLimit { name: text.chars().take(64).collect() })
    }
}

/// Values for some of the limits, as a token's claim, a setting or an `execute` carries them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitOverrides(BTreeMap<LimitName, u64>);

impl LimitOverrides {
    /// Sets one limit, in the unit of its name.
    pub fn set(&mut self, name: LimitName, value: u64) {
        self.0.insert(name, value);
    }

    /// Returns the value set for a limit; `None`: not set.
    pub fn get(&self, name: LimitName) -> Option<u64> {
        self.0.get(&name).copied()
    }

    /// Returns the values by name, for the wire.
    pub fn to_wire(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(name, value)| (name.as_str().to_owned(), *value)).collect()
    }
}

impl<'a, S: AsRef<str> + 'a> TryFrom<&'a BTreeMap<S, u64>> for LimitOverrides {
    type Error = UnknownLimit;

    fn try_from(map: &'a BTreeMap<S, u64>) -> Result<Self, UnknownLimit> {
        map.iter().map(|(name, value)| Ok((name.as_ref().parse()?, *value))).collect::<Result<_, _>>().map(Self)
    }
}

/// Values for all limits.
///
/// ```
/// use relay_proto::{LimitName, LimitOverrides, Limits};
///
/// let mut asked = LimitOverrides::default();
/// asked.set(LimitName::WallMs, 5_000);
/// let (limits, clamped) = Limits::defaults().lowered(&asked);
/// assert_eq!((limits.get(LimitName::WallMs), clamped.len()), (5_000, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits([u64; LimitName::ALL.len()]);

/// Records that a requested limit was outside its range and was moved to the nearest allowed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamped {
    /// Name of the limit.
    pub name: LimitName,
    /// Requested value.
    pub asked: u64,
    /// Value that applies.
    pub applied: u64,
}

impl fmt::Display for Clamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} is outside what is allowed here; {} applies", self.name, self.asked, self.applied)
    }
}

impl Limits {
    /// Returns the default of every limit.
    pub fn defaults() -> Self {
        Self::from_fn(LimitName::default_value)
    }

    /// Returns the maximum of every limit.
    pub fn maxima() -> Self {
        Self::from_fn(LimitName::maximum)
    }

    fn from_fn(value: impl Fn(LimitName) -> u64) -> Self {
        let mut limits = Self([0; LimitName::ALL.len()]);
        for name in LimitName::ALL {
            limits.0[*name as usize] = value(*name);
        }
        limits
    }

    /// Returns the value of one limit, in the unit of its name.
    pub fn get(&self, name: LimitName) -> u64 {
        self.0[name as usize]
    }

    /// Returns the value of one limit as a length; `usize::MAX` if it does not fit.
    pub fn size(&self, name: LimitName) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    /// Replaces limits by `overrides`, each clamped between its minimum and `ceiling`. Returns the new limits and those
    /// that were clamped.
    #[must_use]
    pub fn replaced(&self, overrides: &LimitOverrides, ceiling: &Self) -> (Self, Vec<Clamped>) {
        let mut limits = *self;
        let mut clamped = Vec::new();
        for (&name, &asked) in &overrides.0 {
            let applied = asked.min(ceiling.get(name)).max(name.minimum());
            limits.0[name as usize] = applied;
            if applied != asked {
                clamped.push(Clamped { name, asked, applied });
            }
        }
        (limits, clamped)
    }

    /// Lowers limits to `overrides`. Returns the new limits and those that were clamped: a request to raise a limit has
    /// no effect.
    #[must_use]
    pub fn lowered(&self, overrides: &LimitOverrides) -> (Self, Vec<Clamped>) {
        self.replaced(overrides, self)
    }

    /// Lowers every limit to at most `ceiling`.
    #[must_use]
    pub fn capped(&self, ceiling: &Self) -> Self {
        Self::from_fn(|name| self.get(name).min(ceiling.get(name)))
    }

    /// Returns the values by name, for the wire.
    pub fn to_wire(&self) -> BTreeMap<String, u64> {
        LimitName::ALL.iter().map(|name| (name.as_str().to_owned(), self.get(*name))).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_token_replaces_and_an_execution_only_lowers() {
        let ask = |value| LimitOverrides::try_from(&BTreeMap::from([("wall_ms", value)])).unwrap();
        let (token, clamped) = Limits::defaults().replaced(&ask(300_000), &Limits::maxima());
        assert_eq!((token.get(LimitName::WallMs), clamped), (300_000, vec![]));
        let (token, clamped) = Limits::defaults().replaced(&ask(9_000_000), &Limits::maxima());
        assert_eq!(token.get(LimitName::WallMs), 900_000);
        assert_eq!(clamped, [Clamped { name: LimitName::WallMs, asked: 9_000_000, applied: 900_000 }]);

        let (lowered, clamped) = Limits::defaults().lowered(&ask(5));
        assert_eq!((lowered.get(LimitName::WallMs), clamped.len()), (5, 0));
        let (lowered, clamped) = Limits::defaults().lowered(&ask(300_000));
        assert_eq!((lowered.get(LimitName::WallMs), clamped.len()), (120_000, 1));
        let (lowered, clamped) = Limits::defaults().lowered(&ask(0));
        assert_eq!((lowered.get(LimitName::WallMs), clamped.len()), (1, 1));
    }

    #[test]
    fn an_unknown_name_is_refused_and_the_known_ones_are_named() {
        let error = LimitOverrides::try_from(&BTreeMap::from([("wall_s", 1)])).unwrap_err().to_string();
        assert!(error.contains("\"wall_s\"") && error.contains("wall_ms, cpu_ms"), "{error}");
    }

    #[test]
    fn every_default_lies_between_its_minimum_and_its_maximum() {
        for name in LimitName::ALL {
            assert!(name.minimum() <= name.default_value() && name.default_value() <= name.maximum(), "{name}");
            assert_eq!(name.as_str().parse(), Ok(*name));
        }
    }
}
