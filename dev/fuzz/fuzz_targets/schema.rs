//! `cargo +nightly fuzz run --features libfuzzer schema`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::schema(data));
