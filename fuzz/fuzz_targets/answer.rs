//! Any octets as a query to the AuthDNS' zone.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::answer::run(input));
