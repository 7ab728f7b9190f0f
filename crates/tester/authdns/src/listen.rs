//! What to do where an address cannot be listened on.

use std::io;

/// Advice after the system's own words, or nothing where they are all there is to say.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ": stop the server that uses it or choose another port",
        io::ErrorKind::PermissionDenied => ": choose a port from 1024 on or run with CAP_NET_BIND_SERVICE",
        io::ErrorKind::AddrNotAvailable => ": choose an address of this machine or namespace",
        _ => "",
    }
}
