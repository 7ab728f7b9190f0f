//! The addresses to answer on, and the certificate shown there.

use std::path::Path;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::address;
use super::keys::{Text, Texts, Tls};
use super::place::{Result, SourceText};
use super::{Listen, ListenProtocol, TlsFiles, files};

/// The listeners. With port 0 each takes a port of its own, so those may be equal.
pub(super) fn listeners(place: &SourceText<'_>, texts: &Texts) -> Result<Vec<Listen>> {
    let mut seen: Vec<Listen> = Vec::new();
    place.some(texts, |text| {
        let listen = address::listener(text)?;
        if seen.contains(&listen) && listen.address.port() != 0 {
            return Err("twice in the list".to_owned());
        }
        if seen.iter().any(|other| other.needs_port_of(&listen)) {
            return Err("another listener has this port: write a port of its own".to_owned());
        }
        seen.push(listen);
        Ok(listen)
    })
}

impl Listen {
    /// Whether the other cannot be opened beside this one: the same port of UDP or TCP.
    fn needs_port_of(&self, other: &Self) -> bool {
        let share = |uses: fn(ListenProtocol) -> bool| uses(self.protocol) && uses(other.protocol);
        self.address == other.address
            && self.address.port() != 0
            && (share(ListenProtocol::is_over_udp) || share(ListenProtocol::is_over_tcp))
    }
}

impl ListenProtocol {
    /// Whether clients come by UDP, QUIC and HTTP/3 included.
    pub fn is_over_udp(self) -> bool {
        matches!(self, Self::Plain | Self::Quic | Self::Http3)
    }

    /// Whether clients come by TCP.
    pub fn is_over_tcp(self) -> bool {
        !matches!(self, Self::Quic | Self::Http3)
    }

    /// Whether a certificate is shown.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Plain)
    }
}

/// The certificate and its key, both read as PEM once, so that a bad file is found before anything starts.
pub(super) fn tls(place: &SourceText<'_>, raw: &Tls) -> Result<Option<TlsFiles>> {
    match (&raw.certificate, &raw.key) {
        (None, None) => Ok(None),
        (Some(text), None) => Err(place.key_error(
            "tls.key",
            text.span().start,
            "is missing: write the file of the private key",
        )),
        (None, Some(text)) => {
            Err(place.key_error("tls.certificate", text.span().start, "is missing: write its file"))
        }
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate: place.path(certificate)?, key: place.path(key)? };
            certificates(&files.certificate).map_err(|reason| place.text_error(certificate, reason))?;
            private_key(&files.key).map_err(|reason| place.text_error(key, reason))?;
            pair(&files).map_err(|reason| place.text_error(certificate, reason))?;
            Ok(Some(files))
        }
    }
}

/// The path of DNS over HTTPS.
pub(super) fn https_path(place: &SourceText<'_>, text: &Text) -> Result<String> {
    address::https_path(text.get_ref()).map_err(|reason| place.text_error(text, reason))
}

/// Checks that the file holds certificates.
pub(super) fn certificates(path: &Path) -> std::result::Result<(), String> {
    let octets = read(path)?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&octets) {
        certificate.map_err(|error| format!("not PEM: {error}"))?;
        count += 1;
    }
    if count == 0 { Err("no certificate in it: write a PEM file".to_owned()) } else { Ok(()) }
}

fn private_key(path: &Path) -> std::result::Result<(), String> {
    let octets = read(path)?;
    let key = PrivateKeyDer::from_pem_slice(&octets);
    key.map(drop).map_err(|error| {
        format!("no private key in it: write a PEM file of a key without a password ({error})")
    })
}

/// Checks that certificate and key belong together and can be used.
fn pair(files: &TlsFiles) -> std::result::Result<(), String> {
    let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
    streams::ServerTls::from_pem(&certificate, &key).map(drop).map_err(|error| error.to_string())
}

fn read(path: &Path) -> std::result::Result<Vec<u8>, String> {
    files::read(path, PEM_OCTETS_MAX).map_err(|error| format!("cannot be read: {error}"))
}

/// Several times the bundle of all public authorities.
const PEM_OCTETS_MAX: u64 = 4 << 20;
