//! Any text as the AuthDNS' file of records.
#![no_main]

use std::sync::Once;

static START: Once = Once::new();

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // libFuzzer's hook ends the process at any panic, even one that is caught: those of the reader are.
    // Others end it still, when they leave the target.
    START.call_once(|| drop(std::panic::take_hook()));
    sextant_fuzz::zone::run(input);
});
