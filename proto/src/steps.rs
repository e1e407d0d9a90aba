//! Steps of a durable execution: in which order the answers of calls and the timers reached its code, and when. Pure code.
//!
//! A step is two varints: `number << 1 | is_timer`, and the milliseconds by which the clock moved since the step before;
//! the first counts from the execution's `now_ms`. The bytes of several messages, one behind the other, are the steps of
//! all.

use prost::encoding::{decode_varint, encode_varint};

/// Maximum number of steps of one execution. One that needs more ends with an error.
pub const MAX_STEPS: usize = 65_536;

/// Maximum number of calls of one durable execution that the relay fails itself. One that needs more ends with an error.
pub const MAX_STEP_FAILURES: usize = 4_096;

/// Maximum length in bytes of the message of such a failure. The relay cuts a longer one.
pub const MAX_STEP_FAILURE_BYTES: usize = 1 << 10;

/// Range of JavaScript's `Date` in milliseconds, before and after 1970.
pub const MAX_TIME_MS: u64 = 8_640_000_000_000_000;

/// One event that reached the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Event that reached the code.
    pub source: Source,
    /// Time at which the code's clock stands from then on, in ms since 1970.
    pub at_ms: i64,
}

/// Event that can reach the code. Numbers are from 1 and below 2^63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The answer of the call with this index.
    Call(u64),
    /// The timer with this number, as `setTimeout` and `setInterval` return it.
    Timer(u64),
}

/// Reports bytes that are no steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSteps {
    /// The bytes end within a step, or hold a varint of more than 64 bits.
    #[error("step {step} is cut off or is no number")]
    Undecodable {
        /// Number of the step, from 1.
        step: usize,
    },
    /// A step names the call or the timer 0.
    #[error("step {step} names nothing")]
    Unnumbered {
        /// Number of the step, from 1.
        step: usize,
    },
    /// A step's time lies outside the range of JavaScript's `Date`.
    #[error("step {step} has no time that JavaScript has")]
    NoTime {
        /// Number of the step, from 1.
        step: usize,
    },
    /// There are more than [`MAX_STEPS`].
    #[error("there are more than {MAX_STEPS} steps")]
    TooMany,
}

/// Decodes the steps of an execution that began at `now_ms`. Their times never fall.
///
/// ```
/// use relay_proto::steps::{self, Source, Step};
///
/// let recorded = [Step { source: Source::Call(2), at_ms: 1_000 }, Step { source: Source::Timer(1), at_ms: 1_250 }];
/// let mut bytes = Vec::new();
/// steps::encode_one(&mut bytes, recorded[0], 900);
/// steps::encode_one(&mut bytes, recorded[1], recorded[0].at_ms);
/// assert_eq!(steps::decode(&bytes, 900)?, recorded);
/// # Ok::<_, steps::InvalidSteps>(())
/// ```
///
/// # Errors
/// - [`InvalidSteps::Undecodable`]: the bytes are no steps
/// - [`InvalidSteps::Unnumbered`]: a step names the call or the timer 0
/// - [`InvalidSteps::NoTime`]: a time is none that JavaScript has
/// - [`InvalidSteps::TooMany`]: there are more than [`MAX_STEPS`]
pub fn decode(mut bytes: &[u8], now_ms: i64) -> Result<Vec<Step>, InvalidSteps> {
    // A step has two bytes at least.
    let mut steps = Vec::with_capacity((bytes.len() / 2).min(MAX_STEPS));
    let mut at_ms = now_ms;
    while !bytes.is_empty() {
        let step = steps.len() + 1;
        if step > MAX_STEPS {
            return Err(InvalidSteps::TooMany);
        }
        let mut number = || decode_varint(&mut bytes).map_err(|_| InvalidSteps::Undecodable { step });
        let (tagged, moved_ms) = (number()?, number()?);
        let source = match (tagged >> 1, tagged & 1) {
            (0, _) => return Err(InvalidSteps::Unnumbered { step }),
            (call, 0) => Source::Call(call),
            (timer, _) => Source::Timer(timer),
        };
        let is_time = |at_ms: &i64| at_ms.unsigned_abs() <= MAX_TIME_MS;
        at_ms = at_ms.checked_add_unsigned(moved_ms).filter(is_time).ok_or(InvalidSteps::NoTime { step })?;
        steps.push(Step { source, at_ms });
    }
    Ok(steps)
}

/// Appends a step. `before_ms` is the time of the step before it, or the execution's `now_ms`; an earlier time than that
/// counts as that.
pub fn encode_one(buffer: &mut Vec<u8>, step: Step, before_ms: i64) {
    let tagged = match step.source {
        Source::Call(call) => call << 1,
        Source::Timer(timer) => timer << 1 | 1,
    };
    encode_varint(tagged, buffer);
    encode_varint(step.at_ms.max(before_ms).abs_diff(before_ms), buffer);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn source() -> impl Strategy<Value = Source> {
        let number = prop_oneof![1..300_u64, 1..1_u64 << 63];
        (number, any::<bool>())
            .prop_map(|(number, timer)| if timer { Source::Timer(number) } else { Source::Call(number) })
    }

    fn encode(steps: &[Step], mut before_ms: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for step in steps {
            encode_one(&mut bytes, *step, before_ms);
            before_ms = step.at_ms;
        }
        bytes
    }

    proptest! {
        #[test]
        fn steps_come_back_as_they_were(
            now_ms in -1_000_000_i64..2_000_000_000_000,
            events in vec((source(), 0..100_000_000_i64), 0..100),
            cut in 0..100_usize,
        ) {
            let mut at_ms = now_ms;
            let steps: Vec<_> = events.into_iter().map(|(source, moved)| {
                at_ms += moved;
                Step { source, at_ms }
            }).collect();
            let bytes = encode(&steps, now_ms);
            prop_assert_eq!(decode(&bytes, now_ms), Ok(steps.clone()));
            // In two messages, and the journal ends after the first.
            let (first, second) = steps.split_at(cut.min(steps.len()));
            let last_ms = first.last().map_or(now_ms, |step| step.at_ms);
            let start = encode(first, now_ms);
            prop_assert_eq!(decode(&start, now_ms), Ok(first.to_vec()));
            prop_assert_eq!([start, encode(second, last_ms)].concat(), bytes);
        }

        #[test]
        fn any_bytes_are_steps_or_refused(bytes in vec(any::<u8>(), 0..400), now_ms in any::<i64>()) {
            if let Ok(steps) = decode(&bytes, now_ms) {
                prop_assert!(steps.windows(2).all(|two| two[0].at_ms <= two[1].at_ms));
                prop_assert!(steps.iter().all(|step| step.at_ms.unsigned_abs() <= MAX_TIME_MS));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_wire() {
        let steps = [
            Step { source: Source::Call(1), at_ms: -5 },
            Step { source: Source::Timer(1), at_ms: 295 },
            Step { source: Source::Call(200), at_ms: 295 },
        ];
        assert_eq!(encode(&steps, -10), [0x02, 0x05, 0x03, 0xac, 0x02, 0x90, 0x03, 0x00]);
        let earlier = Step { source: Source::Call(1), at_ms: 7 };
        assert_eq!(encode(&[earlier], 9), [0x02, 0x00], "the clock never goes back");
    }

    #[test]
    fn what_is_no_step_is_refused_with_its_number() {
        let error = |bytes: &[u8]| decode(bytes, 0).unwrap_err();
        assert_eq!(error(&[2, 0, 2]), InvalidSteps::Undecodable { step: 2 });
        assert_eq!(error(&[2, 0, 0x80]), InvalidSteps::Undecodable { step: 2 });
        assert_eq!(error(&[0xff; 11]), InvalidSteps::Undecodable { step: 1 });
        assert_eq!(error(&[0, 0]), InvalidSteps::Unnumbered { step: 1 });
        assert_eq!(error(&[1, 0]), InvalidSteps::Unnumbered { step: 1 });
        let far = [&[2, 0, 2][..], &[0xff; 9], &[1]].concat();
        assert_eq!(error(&far), InvalidSteps::NoTime { step: 2 });
        assert_eq!(error(&[2, 0].repeat(MAX_STEPS + 1)), InvalidSteps::TooMany);
        assert_eq!(decode(&[2, 0].repeat(MAX_STEPS), 0).unwrap().len(), MAX_STEPS);
    }
}
