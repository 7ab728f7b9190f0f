//! Any octets of a DNS session over TCP.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::sessions::run(input));
