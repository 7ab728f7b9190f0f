//! Any octets as a recording that is replayed.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::replay::run(input));
