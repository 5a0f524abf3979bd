#![no_main]
#![allow(dead_code)]

#[path = "../bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bodies::parse(input));
