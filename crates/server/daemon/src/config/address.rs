//! How operators write listeners and upstream servers: `[::]:53`, `https://192.0.2.1/dns-query#dns.example`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use rustls_pki_types::ServerName;

use super::{Listen, ListenProtocol, UpstreamProtocol, UpstreamServer};

type Result<T> = std::result::Result<T, String>;

/// The path of the examples of RFC 8484, which most servers use.
pub(super) const HTTPS_PATH: &str = "/dns-query";

const DNS_PORT: u16 = 53;
const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;
/// The same number as that of TLS, but of UDP (RFC 9250 4.1.1).
const QUIC_PORT: u16 = 853;

pub(super) fn listener(text: &str) -> Result<Listen> {
    let parts = Parts::of(text);
    let (protocol, port) = match parts.scheme {
        None => (ListenProtocol::Plain, DNS_PORT),
        Some("tls") => (ListenProtocol::Tls, TLS_PORT),
        Some("https") => (ListenProtocol::Https, HTTPS_PORT),
        Some("quic") => (ListenProtocol::Quic, QUIC_PORT),
        Some("h3") => (ListenProtocol::Http3, HTTPS_PORT),
        Some(_) => {
            return Err(
                "no such protocol: write tls://, https://, quic:// or h3://, or nothing for UDP and TCP"
                    .into(),
            );
        }
    };
    if parts.path.is_some() {
        return Err("a listener has no path here: write it as tls.https_path".into());
    }
    if parts.name.is_some() {
        return Err("a listener has no name: leave # and what follows out".into());
    }
    Ok(Listen { address: address(parts.address, port)?, protocol })
}

/// Reads an upstream server; its source address is not known here.
pub(super) fn upstream(text: &str) -> Result<UpstreamServer> {
    let parts = Parts::of(text);
    let (protocol, port) = match parts.scheme {
        None | Some("udp") => (UpstreamProtocol::Udp, DNS_PORT),
        Some("tcp") => (UpstreamProtocol::Tcp, DNS_PORT),
        Some("tls") => (UpstreamProtocol::Tls, TLS_PORT),
        Some("https") => (UpstreamProtocol::Https, HTTPS_PORT),
        Some("quic") => (UpstreamProtocol::Quic, QUIC_PORT),
        Some(_) => {
            return Err(
                "no such protocol: write tcp://, tls://, https:// or quic://, or nothing for UDP".into()
            );
        }
    };
    let address = address(parts.address, port)?;
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err("no address that can be asked: write that of one server".into());
    }
    if parts.name.is_some() && !protocol.is_encrypted() {
        return Err("only tls://, https:// and quic:// check a name: leave # and what follows out".into());
    }
    if parts.path.is_some() && protocol != UpstreamProtocol::Https {
        return Err("only https:// has a path: leave / and what follows out".into());
    }
    let path = parts.path.map_or(Ok(HTTPS_PATH.to_owned()), https_path)?;
    let tls_name = parts.name.map(server_name).transpose()?;
    Ok(UpstreamServer { address, protocol, tls_name, path, source: None, validate: false })
}

/// Checks the path of DNS over HTTPS: what a URI may have there (RFC 3986 3.3), and no query.
pub(super) fn https_path(text: &str) -> Result<String> {
    let allowed = |octet: u8| octet.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&octet);
    if text.starts_with('/') && text.len() <= HTTPS_PATH_OCTETS_MAX && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "no path: write / and at most {HTTPS_PATH_OCTETS_MAX} letters, digits, -, . or /, like {HTTPS_PATH}"
    ))
}

const HTTPS_PATH_OCTETS_MAX: usize = 255;

fn server_name(text: &str) -> Result<String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("what follows # is no name of a certificate: write a domain like dns.example".into()),
    }
}

/// Reads an address; brackets and the port may be left out.
pub(super) fn address(text: &str, port: u16) -> Result<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = bare.filter(|inside| inside.contains(':')).unwrap_or(text);
    let address: SocketAddr = text
        .parse()
        .or_else(|_| bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)))
        .map_err(|_| format!("not an address: write 192.0.2.1:{port} or [2001:db8::1]:{port}"))?;
    match address.ip() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            Err("an IPv4-mapped IPv6 address: write it as 192.0.2.1".to_owned())
        }
        _ => Ok(address),
    }
}

impl fmt::Display for Listen {
    /// As it is written in the file, with the port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            ListenProtocol::Plain => "",
            ListenProtocol::Tls => "tls://",
            ListenProtocol::Https => "https://",
            ListenProtocol::Quic => "quic://",
            ListenProtocol::Http3 => "h3://",
        };
        write!(f, "{scheme}{}", self.address)
    }
}

impl fmt::Display for UpstreamServer {
    /// As it is written in the file, with the port and the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path) = match self.protocol {
            UpstreamProtocol::Udp => ("", ""),
            UpstreamProtocol::Tcp => ("tcp://", ""),
            UpstreamProtocol::Tls => ("tls://", ""),
            UpstreamProtocol::Https => ("https://", self.path.as_str()),
            UpstreamProtocol::Quic => ("quic://", ""),
        };
        write!(f, "{scheme}{}{path}", self.address)?;
        self.tls_name.iter().try_for_each(|name| write!(f, "#{name}"))
    }
}

/// `SCHEME://ADDRESS/PATH#NAME`, of which only the address is needed.
struct Parts<'t> {
    scheme: Option<&'t str>,
    address: &'t str,
    path: Option<&'t str>,
    name: Option<&'t str>,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Self {
        let (scheme, rest) =
            text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let (rest, name) = rest.split_once('#').map_or((rest, None), |(rest, name)| (rest, Some(name)));
        let (address, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
        Self { scheme, address, path, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read() {
        for (text, address, protocol) in [
            ("192.0.2.1", "192.0.2.1:53", ListenProtocol::Plain),
            ("::", "[::]:53", ListenProtocol::Plain),
            ("[::]", "[::]:53", ListenProtocol::Plain),
            ("[::1]:5300", "[::1]:5300", ListenProtocol::Plain),
            ("tls://[::]", "[::]:853", ListenProtocol::Tls),
            ("tls://0.0.0.0:8853", "0.0.0.0:8853", ListenProtocol::Tls),
            ("https://192.0.2.1", "192.0.2.1:443", ListenProtocol::Https),
            ("quic://[::]:0", "[::]:0", ListenProtocol::Quic),
            ("h3://[::]", "[::]:443", ListenProtocol::Http3),
        ] {
            assert_eq!(listener(text), Ok(Listen { address: address.parse().unwrap(), protocol }), "{text}");
        }
    }

    #[test]
    fn upstream_servers_are_read() {
        let all = |text| {
            let UpstreamServer { address, protocol, tls_name, path, source, .. } = upstream(text).unwrap();
            assert_eq!(source, None);
            (address.to_string(), protocol, tls_name, path)
        };
        let plain = |address: &str, protocol| (address.to_owned(), protocol, None, HTTPS_PATH.to_owned());
        assert_eq!(all("2001:db8::1"), plain("[2001:db8::1]:53", UpstreamProtocol::Udp));
        assert_eq!(all("udp://192.0.2.1:54"), plain("192.0.2.1:54", UpstreamProtocol::Udp));
        assert_eq!(all("tcp://192.0.2.1"), plain("192.0.2.1:53", UpstreamProtocol::Tcp));
        assert_eq!(all("tls://192.0.2.1"), plain("192.0.2.1:853", UpstreamProtocol::Tls));
        assert_eq!(all("https://192.0.2.1"), plain("192.0.2.1:443", UpstreamProtocol::Https));
        let named = |address: &str, protocol, path: &str| {
            (address.to_owned(), protocol, Some("dns.example".to_owned()), path.to_owned())
        };
        assert_eq!(
            all("https://[2001:db8::1]:8443/q#dns.example"),
            named("[2001:db8::1]:8443", UpstreamProtocol::Https, "/q")
        );
        assert_eq!(
            all("quic://[2001:db8::1]#dns.example"),
            named("[2001:db8::1]:853", UpstreamProtocol::Quic, HTTPS_PATH)
        );
    }

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["192.0.2.1:54", "tls://[::]:853", "https://0.0.0.0:443", "quic://[::1]:853"] {
            assert_eq!(listener(text).unwrap().to_string(), text);
        }
        for text in [
            "[2001:db8::1]:53",
            "tcp://192.0.2.1:53",
            "tls://192.0.2.1:853",
            "https://192.0.2.1:443/dns-query#dns.example",
            "quic://[2001:db8::1]:853#dns.example",
        ] {
            assert_eq!(upstream(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, reason) in [
            ("localhost", "not an address"),
            ("", "not an address"),
            ("[192.0.2.1]", "not an address"),
            ("tls://::1:853x", "not an address"),
            ("http://192.0.2.1", "no such protocol"),
            ("udp://192.0.2.1", "no such protocol"),
            ("https://192.0.2.1/dns-query", "tls.https_path"),
            ("tls://192.0.2.1#dns.example", "no name"),
        ] {
            assert!(listener(text).unwrap_err().contains(reason), "{text}");
        }
        for (text, reason) in [
            ("::ffff:127.0.0.1", "write it as 192.0.2.1"),
            ("0.0.0.0", "can be asked"),
            ("ff02::fb", "can be asked"),
            ("192.0.2.1:0", "can be asked"),
            ("192.0.2.1#dns.example", "check a name"),
            ("tcp://192.0.2.1#dns.example", "check a name"),
            ("tls://192.0.2.1/q", "has a path"),
            ("https://192.0.2.1/q?x", "no path"),
            ("tls://192.0.2.1#", "no name of a certificate"),
            ("tls://192.0.2.1#a b", "no name of a certificate"),
            ("doq://192.0.2.1", "no such protocol"),
        ] {
            assert!(upstream(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
