//! Any request over HTTPS, any octets of a stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::https_request::run(input));
