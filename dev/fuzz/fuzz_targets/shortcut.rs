//! `cargo +nightly fuzz run --features libfuzzer shortcut`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::shortcut(data));
