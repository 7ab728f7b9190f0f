//! Any octets as a capture of queries.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::capture::run(input));
