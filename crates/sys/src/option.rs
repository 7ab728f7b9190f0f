//! Options of sockets that socket2 does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option whose value is an int (socket(7), ip(7), ipv6(7), udp(7)).
///
/// # Errors
/// The kernel does not have the option, or does not allow it.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one c_int from a valid reference.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    crate::check(result).map(drop)
}
