//! News that devices, addresses, routes or neighbours have changed (rtnetlink(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::netlink;

/// Becomes readable when anything of that changes in the network namespace of the thread that made it. What
/// has changed is to be looked up: news can be lost, and there may be many at once.
pub struct Changes(OwnedFd);

const GROUPS: libc::c_int = libc::RTMGRP_LINK
    | libc::RTMGRP_NEIGH
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE;

impl Changes {
    /// Starts to listen.
    ///
    /// # Errors
    /// The limit of open files is reached.
    pub fn new() -> io::Result<Self> {
        let socket = netlink::open()?;
        // SAFETY: all zeros is a valid value of a struct of numbers.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = GROUPS as u32;
        // SAFETY: the address is a valid sockaddr_nl of that size.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        };
        crate::check(result)?;
        Ok(Self(socket))
    }

    /// Takes all news; whether there were any.
    pub fn take(&self) -> bool {
        let mut news = false;
        let mut octets = [0u8; 8192];
        loop {
            // SAFETY: the kernel writes at most `len` octets into the array.
            let received = unsafe {
                libc::recv(self.0.as_raw_fd(), octets.as_mut_ptr().cast(), octets.len(), libc::MSG_DONTWAIT)
            };
            match crate::check(received as libc::c_int) {
                Ok(_) => news = true,
                // Some were lost, which is news, too.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => news = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return news,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
