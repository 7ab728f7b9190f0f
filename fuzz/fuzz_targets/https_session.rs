//! Any octets from a server of DNS over HTTPS to the Measurer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::https_session::run(input));
