//! The one list of limits: their names, defaults, maxima, and how what a token and an execution ask for combine.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

macro_rules! limits {
    ($($(#[$doc:meta])* $variant:ident = $text:literal: $minimum:expr, $default:expr, $maximum:expr;)*) => {
        /// The name of a limit. The unit is part of the name; without one it is a count.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum LimitName {
            $($(#[$doc])* $variant,)*
        }

        impl LimitName {
            /// Every limit, in the order of the docs.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as it stands in claims, settings, requests and errors.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The least that can be asked for: below it nothing could run at all.
            pub fn minimum(self) -> u64 {
                match self { $(Self::$variant => $minimum,)* }
            }

            /// What holds where nobody says anything.
            pub fn default_value(self) -> u64 {
                match self { $(Self::$variant => $default,)* }
            }

            /// The most that a token can grant, unless the relay is set otherwise.
            pub fn maximum(self) -> u64 {
                match self { $(Self::$variant => $maximum,)* }
            }
        }
    };
}

limits! {
    /// From the hand-over to a worker until the end.
    WallMs = "wall_ms": 1, 120_000, 900_000;
    /// CPU time of the worker.
    CpuMs = "cpu_ms": 1, 10_000, 60_000;
    /// V8's heap.
    HeapBytes = "heap_bytes": 8 * MIB, 64 * MIB, 512 * MIB;
    /// All private memory of the worker, buffers included.
    MemoryBytes = "memory_bytes": 32 * MIB, 256 * MIB, 1024 * MIB;
    /// The source.
    SourceBytes = "source_bytes": 1, MIB, 4 * MIB;
    /// Calls in one execution.
    ToolCalls = "tool_calls": 0, 1_000, 100_000;
    /// Calls at once; more wait their turn in the worker.
    ToolCallsInFlight = "tool_calls_in_flight": 1, 64, 1_024;
    /// From sending one call to its result.
    ToolCallMs = "tool_call_ms": 1, 30_000, 600_000;
    /// Waiting for one approval.
    ApprovalMs = "approval_ms": 1, 600_000, 86_400_000;
    /// JSON of one call's arguments.
    ArgumentsBytes = "arguments_bytes": 2, MIB, 10 * MIB;
    /// JSON of one call's result.
    ToolResultBytes = "tool_result_bytes": 4, 10 * MIB, 12 * MIB;
    /// JSON of the returned value.
    ResultBytes = "result_bytes": 4, 10 * MIB, 12 * MIB;
    /// UTF-8 of all output.
    OutputBytes = "output_bytes": 0, 64 * KIB, 4 * MIB;
    /// Pieces of output.
    OutputCount = "output_count": 0, 10_000, 100_000;
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no limit named {name:?}; the limits are {}", all_names())]
pub struct UnknownLimit {
    /// What came, cut to a length that fits a message.
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

/// A value for some of the limits: what a token's claim, a setting or an `execute` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitOverrides(BTreeMap<LimitName, u64>);

impl LimitOverrides {
    /// Sets one limit, in the unit of its name.
    pub fn set(&mut self, name: LimitName, value: u64) {
        self.0.insert(name, value);
    }

    /// What was set for a limit.
    pub fn get(&self, name: LimitName) -> Option<u64> {
        self.0.get(&name).copied()
    }

    /// The limits as a map by name, for the wire.
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

/// A value for every limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits([u64; LimitName::ALL.len()]);

/// A limit was asked for that lies outside what is allowed, and moved to the nearest value that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamped {
    /// The limit.
    pub name: LimitName,
    /// What was asked for.
    pub asked: u64,
    /// What holds instead.
    pub applied: u64,
}

impl fmt::Display for Clamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} is outside what is allowed here; {} applies", self.name, self.asked, self.applied)
    }
}

impl Limits {
    /// The defaults of the docs.
    pub fn defaults() -> Self {
        Self::from_fn(LimitName::default_value)
    }

    /// The maxima of the docs.
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

    /// The value of one limit, in the unit of its name.
    pub fn get(&self, name: LimitName) -> u64 {
        self.0[name as usize]
    }

    /// The value of a limit that counts bytes or items in memory, for comparing with a length.
    pub fn size(&self, name: LimitName) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    /// These limits with `overrides` in their place, none above `ceiling` or below its minimum, and what had to move.
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

    /// These limits with `overrides` in their place where those are lower, and what had to move.
    #[must_use]
    pub fn lowered(&self, overrides: &LimitOverrides) -> (Self, Vec<Clamped>) {
        self.replaced(overrides, self)
    }

    /// These limits, none above `ceiling`.
    #[must_use]
    pub fn capped(&self, ceiling: &Self) -> Self {
        Self::from_fn(|name| self.get(name).min(ceiling.get(name)))
    }

    /// The limits as a map by name, for the wire.
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
