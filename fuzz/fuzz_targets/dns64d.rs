//! Anything that happens to dns64d's machine.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::dns64d::run(input));
