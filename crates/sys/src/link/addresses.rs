//! The addresses of this machine, and the devices that have them (getifaddrs(3)).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and the name of the device that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The device.
    pub device: String,
    /// One of its addresses.
    pub address: IpAddr,
}

/// All addresses in the network namespace of the calling thread, of devices that are up.
///
/// # Errors
/// The kernel cannot be asked.
pub fn addresses() -> io::Result<Vec<Assigned>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call stores a list at a valid place, which is freed below.
    crate::check(unsafe { libc::getifaddrs(&mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an entry of the list, which is not freed yet.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as libc::c_uint == 0 {
            continue;
        }
        // SAFETY: the entry's address is null or one of its family.
        if let Some(address) = unsafe { address(entry.ifa_addr) } {
            // SAFETY: every entry has a name with its end.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
            found.push(Assigned { device: without_label(&name).to_owned(), address });
        }
    }
    // SAFETY: the list that the call has made, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// An IPv4 address may have a label of its own, such as `eth0:1`; no device has a colon in its name.
fn without_label(name: &str) -> &str {
    name.split_once(':').map_or(name, |(device, _)| device)
}

/// The address of a socket address of a family that has one.
///
/// # Safety
/// The pointer is null or leads to a socket address that is as long as its family says.
unsafe fn address(socket_address: *const libc::sockaddr) -> Option<IpAddr> {
    if socket_address.is_null() {
        return None;
    }
    // SAFETY: it is not null; the family is the first field of all of them.
    match i32::from(unsafe { (*socket_address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of these; it may be unaligned.
            let v4: libc::sockaddr_in =
                unsafe { socket_address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6: libc::sockaddr_in6 =
                unsafe { socket_address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_not_of_the_device() {
        assert_eq!([without_label("eth0:1"), without_label("eth0.7")], ["eth0", "eth0.7"]);
    }

    #[test]
    fn the_loopback_has_its_address() {
        let expected = Assigned { device: "lo".to_owned(), address: Ipv4Addr::LOCALHOST.into() };
        assert!(addresses().unwrap().contains(&expected));
    }
}
