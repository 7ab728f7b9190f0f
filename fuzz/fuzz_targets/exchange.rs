//! Any query and any reply between the client and the server of streams.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sextant_fuzz::exchange::run(input));
