//! Replays the corpus of every target and feeds it with mutations, as many in every run. An input that fails is left in
//! `dev/fuzz/artifacts`.
//!
//! The mutations follow from a seed, which is another each day, so that runs do not try the same inputs for ever. A
//! failure names it: `RELAY_FUZZ_SEED=20000 cargo test --package relay-fuzz` repeats that day's run.
//! `RELAY_FUZZ_TIMES=100` tries 100 times as many.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use relay_fuzz::TARGETS;

/// Variable with a factor for the number of mutations, a whole number. Default: 1.
const TIMES: &str = "RELAY_FUZZ_TIMES";
/// Variable with the seed, a whole number. Default: the number of days since 1970.
const SEED: &str = "RELAY_FUZZ_SEED";
/// Time limit of one input.
const HANG: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 4_096;

/// Reads a number from the environment. `None`: the variable is not set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable}={text} is no number: {error}")))
}

fn seed() -> u64 {
    let today = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    number(SEED).unwrap_or_else(today)
}

fn folder(name: &str, target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name).join(target)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder("corpus", target)).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no corpus");
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Generator that gives the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        // SplitMix64, by Steele, Lea and Flood.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % below.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const TELLING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\\'];
        if self.next(3) == 0 { TELLING[self.next(TELLING.len())] } else { u8::try_from(self.next(256)).unwrap() }
    }

    /// Returns `input` with a few changes: bytes flipped, left out, inserted, repeated, or taken from another input.
    fn mutated(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.next(6) {
            let at = self.next(bytes.len() + 1);
            let length = self.next(16).min(bytes.len() - at);
            match self.next(6) {
                0 if at < bytes.len() => bytes[at] = self.byte(),
                1 if at < bytes.len() => bytes[at] ^= 1 << self.next(8),
                2 => drop(bytes.drain(at..at + length)),
                3 => bytes.insert(at, self.byte()),
                4 => {
                    let part = bytes[at..at + length].repeat(1 + self.next(8));
                    bytes.splice(at..at, part);
                }
                _ => {
                    let from = self.next(other.len() + 1);
                    let part = &other[from..(from + self.next(64)).min(other.len())];
                    bytes.splice(at..at, part.iter().copied());
                }
            }
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }
}

/// Runs a target with an input; `origin` tells how to get the same input again.
fn feed(target: &str, run: fn(&[u8]), input: &[u8], origin: &str) {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
    let slow = started.elapsed() > HANG;
    if outcome.is_err() || slow {
        let artifacts = folder("artifacts", target);
        std::fs::create_dir_all(&artifacts).unwrap();
        let file = artifacts.join("failed");
        std::fs::write(&file, input).unwrap();
        let what = if slow { "hangs" } else { "panics" };
        panic!("{target} {what} with {} ({origin}): {input:.200x?}", file.display());
    }
}

/// Feeds a target with its corpus and the mutations of a seed.
fn replay_and_mutate(target: &str, seed: u64, mutations: u64) {
    let (_, run) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
    let corpus = corpus(target);
    for input in &corpus {
        feed(target, run, input, "of the corpus");
    }
    let mut numbers = Numbers(seed);
    for n in 0..mutations {
        let (input, other) = (&corpus[numbers.next(corpus.len())], &corpus[numbers.next(corpus.len())]);
        feed(target, run, &numbers.mutated(input, other), &format!("mutation {n} of {SEED}={seed}"));
    }
    eprintln!("{target}: {} inputs of the corpus, {mutations} mutations of {SEED}={seed}", corpus.len());
}

macro_rules! tests {
    ($($target:ident: $mutations:literal,)*) => {
        $(
            #[test]
            fn $target() {
                replay_and_mutate(stringify!($target), seed(), $mutations * number(TIMES).unwrap_or(1));
            }
        )*

        #[test]
        fn every_target_has_a_test() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($target)),*]);
        }
    };
}

// Makes one test for each target, so that they run in parallel, with a number of mutations that takes about a second.
tests! {
    frame: 50_000,
    meter: 50_000,
    session: 2_000,
    token: 30_000,
    source: 15_000,
    shortcut: 10_000,
    host_session: 3_000,
    schema: 15_000,
}

#[test]
fn another_seed_gives_other_inputs_and_the_same_seed_the_same() {
    let inputs = |seed| {
        let mut numbers = Numbers(seed);
        (0..10).map(|_| numbers.mutated(b"an input", b"another")).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}

#[test]
fn an_input_that_fails_is_named_with_its_seed() {
    let failed = catch_unwind(|| feed("on_purpose", |_| panic!("on purpose"), b"x", "mutation 3 of RELAY_FUZZ_SEED=7"));
    let told = *failed.unwrap_err().downcast::<String>().unwrap();
    assert!(
        told.starts_with("on_purpose panics with ") && told.contains("(mutation 3 of RELAY_FUZZ_SEED=7): [78]"),
        "{told}"
    );
    std::fs::remove_dir_all(folder("artifacts", "on_purpose")).unwrap();
}
