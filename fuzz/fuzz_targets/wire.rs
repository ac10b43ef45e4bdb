//! Any bytes as a frame.

#![no_main]

#[path = "../bodies/wire.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
