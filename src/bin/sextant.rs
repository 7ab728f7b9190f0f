//! sextant, the instrument.
fn main() {}
