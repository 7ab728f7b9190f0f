//! Any octets as a reply that is to be validated.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::evidence::run(input));
