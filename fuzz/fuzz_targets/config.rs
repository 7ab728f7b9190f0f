//! Any text as dns64d's configuration file.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::config::run(input));
