//! Anything that happens to a lane of the Measurer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::lane::run(input));
