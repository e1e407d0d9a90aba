//! `cargo +nightly fuzz run --features libfuzzer meter`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::meter(data));
