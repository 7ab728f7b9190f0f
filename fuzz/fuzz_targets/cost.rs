//! What replies cost whose names are made to cost much.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::cost::run(input));
