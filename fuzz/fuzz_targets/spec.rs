//! Any line as a specification.

#![no_main]

#[path = "../bodies/spec.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|line: &str| {
    body::run(line);
});
