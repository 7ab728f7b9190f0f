//! What surrounds the server: control, metrics, logs, dnstap and the process itself.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::place::{Place, Result};
use super::raw::{Raw, RawDnstap, RawLog, RawProcess, RawXdp, Text};
use super::{DnstapChoice, Format, Level, LogChoice, Process, XdpChoice};

const LEVEL_CHOICES: [(&str, Level); 4] =
    [("error", Level::Error), ("warning", Level::Warning), ("info", Level::Info), ("debug", Level::Debug)];
const FORMAT_CHOICES: [(&str, Format); 2] = [("text", Format::Text), ("json", Format::Json)];

/// Datagrams past the kernel's stack.
pub(super) fn xdp(place: &Place<'_>, raw: &RawXdp) -> Result<XdpChoice> {
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
    raw.devices.as_ref().map(|texts| place.list("xdp.devices", texts, name)).transpose()?;
    Ok(XdpChoice { devices, upstreams: raw.upstreams.unwrap_or(true), repeat: raw.repeat.unwrap_or(true) })
}

/// `IFNAMSIZ` without the zero at the end.
const DEVICE_OCTETS_MAX: usize = 15;

/// The control socket.
pub(super) fn control(place: &Place<'_>, raw: &Raw) -> Result<Option<PathBuf>> {
    raw.control.socket.as_ref().map(|text| place.socket_path("control.socket", text)).transpose()
}

/// Where metrics are given; there is no port that all programs agree on.
pub(super) fn metrics(place: &Place<'_>, raw: &Raw) -> Result<Option<SocketAddr>> {
    let Some(text) = &raw.metrics.listen else { return Ok(None) };
    let reason = "not an address with a port: write 127.0.0.1:9153 or [::1]:9153";
    let address = text.get_ref().parse().map_err(|_| place.value_error("metrics.listen", text, reason))?;
    Ok(Some(address))
}

/// What is logged.
pub(super) fn log(place: &Place<'_>, raw: &RawLog) -> Result<LogChoice> {
    Ok(LogChoice {
        level: place.choice("log.level", raw.level.as_ref(), &LEVEL_CHOICES)?.unwrap_or(Level::Info),
        format: place.choice("log.format", raw.format.as_ref(), &FORMAT_CHOICES)?.unwrap_or(Format::Text),
        queries: raw.queries.unwrap_or(false),
    })
}

/// Where messages are recorded.
pub(super) fn dnstap(place: &Place<'_>, raw: &Raw) -> Result<Option<DnstapChoice>> {
    let Some(table) = &raw.dnstap else { return Ok(None) };
    let RawDnstap { socket, clients, upstreams, identity } = table.get_ref();
    let at = table.span().start;
    let Some(socket) = socket else {
        return Err(place.key_error("dnstap.socket", at, "is missing: write the socket of the receiver"));
    };
    let (clients, upstreams) = (clients.unwrap_or(true), upstreams.unwrap_or(false));
    if !clients && !upstreams {
        return Err(place.key_error(
            "dnstap",
            at,
            "records nothing: set clients or upstreams, or take it out",
        ));
    }
    Ok(Some(DnstapChoice {
        socket: place.socket_path("dnstap.socket", socket)?,
        clients,
        upstreams,
        identity: word(place, "dnstap.identity", identity.as_ref())?.unwrap_or_else(|| IDENTITY.to_owned()),
    }))
}

const IDENTITY: &str = "dns64d";

/// What the process gives up.
pub(super) fn process(place: &Place<'_>, raw: &RawProcess) -> Result<Process> {
    Ok(Process {
        user: word(place, "process.user", raw.user.as_ref())?,
        sandbox: raw.sandbox.unwrap_or(true),
    })
}

/// A text without blanks.
fn word(place: &Place<'_>, key: &str, text: Option<&Text>) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let word = text.get_ref();
    let is_plain = word.bytes().all(|octet| octet.is_ascii_graphic());
    if word.is_empty() || word.len() > WORD_OCTETS_MAX || !is_plain {
        let reason = format_args!("write 1 to {WORD_OCTETS_MAX} characters of ASCII without blanks");
        return Err(place.value_error(key, text, reason));
    }
    Ok(Some(word.clone()))
}

const WORD_OCTETS_MAX: usize = 255;
