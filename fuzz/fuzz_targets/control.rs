//! Any conversation with dns64d's control socket and page of metrics.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::control::run(input));
