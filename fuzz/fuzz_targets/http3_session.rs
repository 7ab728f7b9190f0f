//! Any octets from a server of DNS over HTTP/3 to the Measurer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::http3_session::run(input));
