//! Any octets as an upstream server's reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::records::run(input));
