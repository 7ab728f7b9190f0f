//! TLS: whom the Tester trusts, and what it offers.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DEFAULT_VERSIONS, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

use super::Protocol;
use super::http3::INCOMING_MAX;
use super::quic::{Checked, QuicClient};

/// How the server's certificate is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Not at all.
    #[default]
    Anyone,
    /// It must be signed by an authority of this file (PEM), for the name of the server.
    Authorities(PathBuf),
    /// Its public key must have this digest (RFC 7858 4.2).
    Pinned(Pin),
}

/// The SHA-256 digest of a public key (SubjectPublicKeyInfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin([u8; 32]);

/// What is asked of handshakes.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// How the certificate is checked.
    pub trust: Trust,
    /// The name of the server, in the ClientHello and in its certificate; by default its address.
    pub name: Option<String>,
    /// A client resumes the session of its last connection.
    pub resumption: bool,
}

/// How handshakes are done.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
    pub(super) name: ServerName<'static>,
    resumption: bool,
    certificate: String,
}

/// Why TLS cannot be prepared.
#[derive(Debug)]
pub enum TlsError {
    /// The authorities cannot be read, or there are none in the file.
    Authorities(PathBuf, String),
    /// No name of a server.
    Name(String),
    /// The library refuses.
    Library(Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authorities(file, why) => write!(f, "{}: {why}", file.display()),
            Self::Name(name) => write!(f, "'{name}' is neither a DNS name nor an address"),
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TlsError {}

/// Servers whose sessions a client keeps: it asks one.
const SESSIONS_EACH: usize = 1;

impl Tls {
    /// Prepares handshakes with a server at this address.
    ///
    /// # Errors
    /// The file of the authorities, or the name, cannot be used.
    pub fn new(protocol: Protocol, options: &TlsOptions, address: IpAddr) -> Result<Self, TlsError> {
        let name = options.name.clone().unwrap_or_else(|| address.to_string());
        let server = ServerName::try_from(name.clone()).map_err(|_| TlsError::Name(name.clone()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(&options.trust, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions(protocol))
            .map_err(TlsError::Library)?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = alpn(protocol);
        config.resumption = Resumption::disabled();
        let certificate = match &options.trust {
            Trust::Anyone => "not checked".to_owned(),
            Trust::Authorities(file) => format!("checked against {} for {name}", file.display()),
            Trust::Pinned(_) => "pinned".to_owned(),
        };
        let (config, resumption) = (Arc::new(config), options.resumption);
        Ok(Self { config, verifier, name: server, resumption, certificate })
    }

    /// The name of the server, or its address.
    pub fn server_name(&self) -> String {
        self.name.to_str().into_owned()
    }

    /// How certificates are checked, as the record says it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Whether sessions are resumed.
    pub fn resumes(&self) -> bool {
        self.resumption
    }

    /// A handshake by itself, whose octets the caller carries.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn begin(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(self.config.clone(), self.name.clone())
    }

    /// What one client uses: sessions are resumed by whom they were begun.
    pub(super) fn of_client(&self) -> Arc<ClientConfig> {
        if !self.resumption {
            return self.config.clone();
        }
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS_EACH);
        Arc::new(config)
    }

    /// The same for connections over QUIC.
    pub(super) fn of_quic_client(&self, protocol: Protocol) -> io::Result<QuicClient> {
        let incoming_streams = if protocol == Protocol::Doh3 { INCOMING_MAX } else { 0 };
        if !self.resumption {
            return QuicClient::new(self.config.clone(), None, incoming_streams).map_err(io::Error::other);
        }
        let mut config = ClientConfig::clone(&self.of_client());
        let checked = Arc::new(Checked::new(self.verifier.clone()));
        config.dangerous().set_certificate_verifier(checked.clone());
        QuicClient::new(Arc::new(config), Some(checked), incoming_streams).map_err(io::Error::other)
    }
}

/// QUIC is encrypted by TLS 1.3 alone (RFC 9001 4.2).
fn versions(protocol: Protocol) -> &'static [&'static SupportedProtocolVersion] {
    static QUIC: &[&SupportedProtocolVersion] = &[&TLS13];
    if protocol.is_over_quic() { QUIC } else { DEFAULT_VERSIONS }
}

/// The application protocol (RFC 7301). Servers of DNS over TLS that know other names only would refuse
/// "dot"; over QUIC there must be one (RFC 9250 4.1.1).
fn alpn(protocol: Protocol) -> Vec<Vec<u8>> {
    match protocol {
        Protocol::Tcp | Protocol::Dot => Vec::new(),
        Protocol::Doh => vec![b"h2".to_vec()],
        Protocol::Doq => vec![b"doq".to_vec()],
        Protocol::Doh3 => vec![b"h3".to_vec()],
    }
}

fn verifier(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let Trust::Authorities(file) = trust else {
        let pin = if let Trust::Pinned(pin) = trust { Some(*pin) } else { None };
        return Ok(Arc::new(KeyVerifier { pin, provider: provider.clone() }));
    };
    let unusable = |why: String| TlsError::Authorities(file.clone(), why);
    let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in PEM in it".to_owned()));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map(|verifier| verifier as Arc<dyn ServerCertVerifier>)
        .map_err(|error| unusable(error.to_string()))
}

/// Takes any certificate whose key has signed the handshake and, if one is pinned, is the one that is pinned.
#[derive(Debug)]
struct KeyVerifier {
    pin: Option<Pin>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(Pin(pin)) = self.pin {
            let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
            let digest = digest::digest(&digest::SHA256, &key);
            if digest.as_ref() != pin {
                let own = STANDARD.encode(digest);
                return Err(Error::General(format!(
                    "the server has another key than that of --tls-pin: its pin is '{own}'"
                )));
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl FromStr for Pin {
    type Err = String;

    /// Reads the digest in base64, as `kdig +tls-pin` takes it.
    fn from_str(text: &str) -> Result<Self, String> {
        let octets = STANDARD.decode(text).ok();
        let wrong = || format!("'{text}' is no SHA-256 digest of a public key in base64 (44 characters)");
        octets.and_then(|octets| octets.try_into().ok()).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_digests_in_base64() {
        let pin: Pin = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
        assert_eq!(pin.0, std::array::from_fn(|n| n as u8));
        for wrong in ["", "AAEC", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "!"] {
            assert!(wrong.parse::<Pin>().unwrap_err().contains("no SHA-256 digest"));
        }
    }

    #[test]
    fn what_cannot_be_trusted_is_said() {
        let tls = |trust, name: Option<&str>| {
            let options = TlsOptions { trust, name: name.map(str::to_owned), resumption: false };
            Tls::new(Protocol::Dot, &options, [192, 0, 2, 1].into())
        };
        assert_eq!(tls(Trust::Anyone, None).unwrap().certificate(), "not checked");
        let missing = Trust::Authorities("/nowhere.pem".into());
        assert!(tls(missing, None).unwrap_err().to_string().starts_with("/nowhere.pem: "));
        let empty = Trust::Authorities("/dev/null".into());
        assert!(tls(empty, None).unwrap_err().to_string().contains("no certificate in PEM"));
        assert!(tls(Trust::Anyone, Some("a b")).unwrap_err().to_string().contains("neither a DNS name"));
    }
}
