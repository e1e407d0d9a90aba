//! `cargo +nightly fuzz run --features libfuzzer session`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::session(data));
