//! Servers that are asked by connections: how many they must take, where, and their certificate.

use std::io;
use std::net::SocketAddr;

use crate::scratch::Scratch;

/// The transports by connections that a server may be told to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484), by HTTP/2.
    Doh,
    /// DNS over dedicated QUIC connections (RFC 9250).
    Doq,
    /// DNS over HTTPS (RFC 8484), by HTTP/3.
    Doh3,
}

/// What a server is told of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// How it will be asked.
    pub transport: Transport,
    /// Where it takes the connections; with TCP the address at which it also answers over UDP.
    pub listen: SocketAddr,
    /// How many connections at a time it must take.
    pub connections: u64,
}

/// The file of the certificate and the file of its key, below the server's directory.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";

/// The name in the certificate, beside the address.
const NAME: &str = "dut.test";

impl Transport {
    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
            Self::Doh3 => "doh3",
        }
    }

    /// The scheme that dns64d writes before an address.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => "",
            Self::Dot => "tls://",
            Self::Doh => "https://",
            Self::Doq => "quic://",
            Self::Doh3 => "h3://",
        }
    }
}

impl Streams {
    /// Writes a certificate that its own key signed, and that key, into a server's directory, where the
    /// transport needs one.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(super) fn prepare(&self, scratch: &Scratch) -> io::Result<()> {
        if self.transport == Transport::Tcp {
            return Ok(());
        }
        let names = [NAME.to_owned(), self.listen.ip().to_string()];
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        scratch.write(CERTIFICATE, made.cert.pem().as_bytes())?;
        scratch.write(KEY, made.signing_key.serialize_pem().as_bytes()).map(drop)
    }
}
