//! Any text as the results of another tool.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::import::run(input));
