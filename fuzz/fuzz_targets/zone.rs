//! Any text as the AuthDNS' file of records.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::zone::run(input));
