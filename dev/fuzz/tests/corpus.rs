//! Replays the corpus of every target and mutates it for a while. An input that fails is left in `dev/fuzz/artifacts`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use relay_fuzz::TARGETS;

/// How long each target is fed with mutations, in seconds.
const SECONDS: &str = "RELAY_FUZZ_SECONDS";
const DEFAULT_SECONDS: u64 = 3;
/// The longest that one input may take.
const HANG: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 4_096;

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

/// A generator that gives the same numbers in every run of a test.
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

    /// Some changes to `input`: bytes flipped, left out, put in, repeated, or taken from another input.
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

fn feed(target: &str, run: fn(&[u8]), input: &[u8]) {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
    let slow = started.elapsed() > HANG;
    if outcome.is_err() || slow {
        let artifacts = folder("artifacts", target);
        std::fs::create_dir_all(&artifacts).unwrap();
        let file = artifacts.join("failed");
        std::fs::write(&file, input).unwrap();
        panic!("{target} {} with {} ({input:.200x?})", if slow { "hangs" } else { "panics" }, file.display());
    }
}

#[test]
fn no_input_makes_a_target_panic_or_hang() {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_SECONDS);
    for (target, run) in TARGETS {
        let corpus = corpus(target);
        for input in &corpus {
            feed(target, run, input);
        }
        let mut numbers = Numbers(u64::from_le_bytes(*b"one seed"));
        let (started, mut fed) = (Instant::now(), 0_u64);
        while started.elapsed() < Duration::from_secs(seconds) {
            let (input, other) = (&corpus[numbers.next(corpus.len())], &corpus[numbers.next(corpus.len())]);
            feed(target, run, &numbers.mutated(input, other));
            fed += 1;
        }
        eprintln!("{target}: {} of the corpus, {fed} mutations", corpus.len());
        assert!(fed > 50, "{target} is too slow to be fuzzed");
    }
}
