//! `cargo +nightly fuzz run --features libfuzzer source`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::source(data));
