//! `cargo +nightly fuzz run --features libfuzzer token`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::token(data));
