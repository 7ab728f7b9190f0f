//! Certificates and keys: ours towards clients, the authorities we trust towards upstream servers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::{Protocol, lock};

/// Why a certificate, a key or a list of authorities cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// A file could not be read.
    Read(PathBuf, std::io::Error),
    /// No certificate, or none that can be read, in PEM.
    Certificate(String),
    /// No private key, or none that can be read, in PEM.
    Key(String),
    /// The key belongs to another certificate, or is of a kind that is not supported.
    Pair(String),
    /// The system's trusted authorities could not be found.
    Roots(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Certificate(reason) => write!(f, "no usable certificate: {reason}"),
            Self::Key(reason) => write!(f, "no usable private key: {reason}"),
            Self::Pair(reason) => write!(f, "certificate and key cannot be used together: {reason}"),
            Self::Roots(reason) => write!(f, "no trusted authorities: {reason}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// The certificate chain that clients are shown, with its key.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<CertifiedKey>);

impl ServerTls {
    /// Reads a certificate chain, the server's own first, and its private key from PEM.
    ///
    /// # Errors
    /// Nothing usable in either, or a key that is not the certificate's.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map(|pair| Self(Arc::new(pair)))
            .map_err(|error| TlsError::Pair(error.to_string()))
    }

    /// The same from files.
    ///
    /// # Errors
    /// As [`ServerTls::from_pem`], and files that cannot be read.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::from_pem(&read(certificate)?, &read(key)?)
    }

    /// The public key in DER (SubjectPublicKeyInfo, RFC 5280 4.1.2.7), of which a pin is the digest (RFC 7858
    /// 4.2); `None` for a key whose library does not tell.
    pub fn public_key(&self) -> Option<Vec<u8>> {
        self.0.key.public_key().map(|key| key.to_vec())
    }
}

/// The authorities that may vouch for an upstream server.
#[derive(Clone, Debug)]
pub struct Roots(Arc<RootCertStore>);

impl Roots {
    /// Those the operating system trusts.
    ///
    /// # Errors
    /// None could be found.
    pub fn system() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(found.certs);
        match found.errors.first() {
            _ if !store.is_empty() => Ok(Self(Arc::new(store))),
            Some(error) => Err(TlsError::Roots(error.to_string())),
            None => Err(TlsError::Roots("the system has none".to_owned())),
        }
    }

    /// Those in a PEM text.
    ///
    /// # Errors
    /// No certificate there, or one that no authority can have.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(pem)? {
            store.add(certificate).map_err(|error| TlsError::Certificate(error.to_string()))?;
        }
        Ok(Self(Arc::new(store)))
    }

    /// Those in a PEM file.
    ///
    /// # Errors
    /// As [`Roots::from_pem`], and a file that cannot be read.
    pub fn load(path: &Path) -> Result<Self, TlsError> {
        Self::from_pem(&read(path)?)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Certificate("no certificate in PEM".to_owned()));
    }
    Ok(chain)
}

/// The certificate in force. All server configurations look here at each handshake, so a new one needs no
/// restart.
#[derive(Debug, Default)]
pub(crate) struct Certificates(Mutex<Option<ServerTls>>);

impl Certificates {
    pub fn set(&self, tls: ServerTls) {
        *lock(&self.0) = Some(tls);
    }

    pub fn is_set(&self) -> bool {
        lock(&self.0).is_some()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        lock(&self.0).as_ref().map(|tls| tls.0.clone())
    }
}

/// The application protocol that is negotiated (RFC 7301). TLS clients mostly name none, which is as good.
fn alpn(protocol: Protocol) -> Vec<Vec<u8>> {
    match protocol {
        Protocol::Tcp => Vec::new(),
        Protocol::Tls => vec![b"dot".to_vec()],
        Protocol::Https => vec![b"h2".to_vec()],
        Protocol::Quic => vec![b"doq".to_vec()],
        Protocol::Http3 => vec![b"h3".to_vec()],
    }
}

/// QUIC is encrypted by TLS 1.3 alone (RFC 9001 4.2).
fn versions(protocol: Protocol) -> &'static [&'static SupportedProtocolVersion] {
    static QUIC: &[&SupportedProtocolVersion] = &[&TLS13];
    if protocol.is_over_udp() { QUIC } else { DEFAULT_VERSIONS }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// How handshakes with clients of `protocol` are done. Sessions resume by tickets, so none is kept here.
pub(crate) fn server_config(
    protocol: Protocol,
    certificates: Arc<Certificates>,
) -> Result<ServerConfig, rustls::Error> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions(protocol))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = alpn(protocol);
    config.ticketer = Ticketer::new()?;
    Ok(config)
}

/// How handshakes with upstream servers of `protocol` are done.
pub(crate) fn client_config(protocol: Protocol, roots: &Roots) -> Result<ClientConfig, rustls::Error> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions(protocol))?;
    let mut config = builder.with_root_certificates(roots.0.clone()).with_no_client_auth();
    // Servers of DNS over TLS that know other names only would refuse "dot".
    if protocol != Protocol::Tls {
        config.alpn_protocols = alpn(protocol);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_are_found_where_there_are_any() {
        let found = Roots::system();
        if Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
            assert!(!found.unwrap().0.is_empty());
        } else {
            testing::skip(
                "authorities",
                "there is no /etc/ssl/certs/ca-certificates.crt: apt-get install ca-certificates",
            );
        }
    }
}
