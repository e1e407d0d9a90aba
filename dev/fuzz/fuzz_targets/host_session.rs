//! `cargo +nightly fuzz run --features libfuzzer host_session`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relay_fuzz::host_session(data));
