//! Services around the server: control, metrics, log, dnstap and the process itself.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::keys::{Dnstap, Text, Top, Xdp};
use super::place::{Result, SourceText};
use super::{DnstapChoice, Process, XdpChoice, keys};

/// Datagrams past the kernel's stack.
pub(super) fn xdp(place: &SourceText<'_>, raw: &Xdp) -> Result<XdpChoice> {
    let mut devices: Vec<String> = Vec::new();
    let name = |text: &str| {
        let is_name = (1..=DEVICE_OCTETS_MAX).contains(&text.len())
            && text.bytes().all(|octet| octet.is_ascii_graphic() && !b"/:".contains(&octet));
        match text {
            "lo" => Err("has no Ethernet: name a device that clients come by, such as eth0"),
            _ if !is_name => Err("no name of a network device: write one that 'ip link' shows, such as eth0"),
            _ if devices.iter().any(|known| known == text) => Err("is named twice: take one out"),
            _ => {
                devices.push(text.to_owned());
                Ok(())
            }
        }
    };
    place.list(&raw.devices, name)?;
    Ok(XdpChoice { devices, upstreams: raw.upstreams, repeat: raw.repeat })
}

/// `IFNAMSIZ` without the zero at the end.
const DEVICE_OCTETS_MAX: usize = 15;

pub(super) fn control(place: &SourceText<'_>, raw: &Top) -> Result<Option<PathBuf>> {
    raw.control.socket.as_ref().map(|text| place.socket_path(text)).transpose()
}

/// Where metrics are given; there is no port that all programs agree on.
pub(super) fn metrics(place: &SourceText<'_>, raw: &Top) -> Result<Option<SocketAddr>> {
    let Some(text) = &raw.metrics.listen else { return Ok(None) };
    let reason = "not an address with a port: write 127.0.0.1:9153 or [::1]:9153";
    let address = text.get_ref().parse().map_err(|_| place.text_error(text, reason))?;
    Ok(Some(address))
}

/// Where messages are recorded.
pub(super) fn dnstap(place: &SourceText<'_>, raw: &Top) -> Result<Option<DnstapChoice>> {
    let Some(table) = &raw.dnstap else { return Ok(None) };
    let &Dnstap { ref socket, clients, upstreams, ref identity } = table.get_ref();
    let at = table.span().start;
    let Some(socket) = socket else {
        return Err(place.key_error("dnstap.socket", at, "is missing: write the socket of the receiver"));
    };
    if !clients && !upstreams {
        return Err(place.error_at(at, "records nothing: set clients or upstreams, or take it out"));
    }
    Ok(Some(DnstapChoice {
        socket: place.socket_path(socket)?,
        clients,
        upstreams,
        identity: word(place, identity)?,
    }))
}

/// What the process gives up.
pub(super) fn process(place: &SourceText<'_>, raw: &keys::Process) -> Result<Process> {
    Ok(Process { user: raw.user.as_ref().map(|user| word(place, user)).transpose()?, sandbox: raw.sandbox })
}

/// A text without blanks.
fn word(place: &SourceText<'_>, text: &Text) -> Result<String> {
    let word = text.get_ref();
    let is_plain = word.bytes().all(|octet| octet.is_ascii_graphic());
    if word.is_empty() || word.len() > WORD_OCTETS_MAX || !is_plain {
        let reason = format_args!("write 1 to {WORD_OCTETS_MAX} characters of ASCII without blanks");
        return Err(place.text_error(text, reason));
    }
    Ok(word.clone())
}

const WORD_OCTETS_MAX: usize = 255;
