//! dns64d, the DNS64 forwarder.
fn main() {}
