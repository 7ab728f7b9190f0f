//! The program that hands the answers of the server to AF_XDP sockets.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use sys::bpf::{BpfError, Mode, Object, Redirect, address_octets};

use crate::objects;

/// Puts the program on a device: UDP datagrams from `server` to one of `local_ports` go to the socket of the
/// queue they arrive on, of `queues` queues; all else passes. Without a mode, native is tried first, then
/// generic.
///
/// # Errors
/// XDP is not available, or the device is missing, occupied or takes no program.
pub(super) fn attach_redirect(
    device: u32,
    server: SocketAddr,
    local_ports: &RangeInclusive<u16>,
    queues: u32,
    mode: Option<Mode>,
) -> Result<Redirect, BpfError> {
    let object = Object::load(
        "redirect",
        objects::REDIRECT,
        &[
            ("server_address", &address_octets(server.ip())),
            ("server_port", &server.port().to_be_bytes()),
            ("server_is_ipv6", &[u8::from(server.is_ipv6())]),
            ("first_port", &local_ports.start().to_ne_bytes()),
            ("last_port", &local_ports.end().to_ne_bytes()),
        ],
        &[("sockets", queues.max(1))],
    )?;
    Redirect::attach("redirect", object, device, mode)
}
