//! What the QUIC connections of a client are made with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, NoneTokenStore, RandomConnectionIdGenerator, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::io::PACKET_OCTETS_MAX;
use crate::transport::stream::framing::LENGTH;

/// Octets of answers of one connection under way at once, beyond what is taken at once.
const RECEIVE_WINDOW_OCTETS: u32 = 4 << 20;
/// Octets of queries of one connection that the server has not acknowledged; the queries behind them wait.
const SEND_WINDOW_OCTETS: u64 = 1 << 20;

/// What the connections of a client are made with.
#[derive(Clone, Debug)]
pub(in crate::transport::stream) struct QuicClient {
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) config: ClientConfig,
    /// Certificates that were checked, where sessions may be resumed.
    checked: Option<Arc<Checked>>,
}

impl QuicClient {
    /// Prepares the connections of a client. Where it may resume sessions, its verifier must be `checked`. A
    /// server may open so many streams at a time, in which it alone speaks.
    ///
    /// # Errors
    /// The provider of cryptography has no cipher for the first packets.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        checked: Option<Arc<Checked>>,
        incoming_streams: u32,
    ) -> Result<Self, NoInitialCipherSuite> {
        let mut endpoint = EndpointConfig::default();
        // A socket for each connection tells whose packets these are: identifiers would only cost octets.
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(incoming_streams.into())
            // The server's limit holds; `--connection-idle` is the client's.
            .max_idle_timeout(None)
            .stream_receive_window(VarInt::from_u32(u32::from(u16::MAX) + LENGTH as u32))
            .receive_window(VarInt::from_u32(RECEIVE_WINDOW_OCTETS))
            .send_window(SEND_WINDOW_OCTETS)
            .initial_mtu(PACKET_OCTETS_MAX as u16)
            // Queries are short: probes would cost more packets than larger ones save.
            .mtu_discovery_config(None)
            .datagram_receive_buffer_size(None);
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport));
        if checked.is_none() {
            // Each connection is that of a stranger.
            config.token_store(Arc::new(NoneTokenStore));
        }
        Ok(Self { endpoint: Arc::new(endpoint), config, checked })
    }

    /// Certificates that were checked so far; `None` where each handshake checks one.
    pub(super) fn checks(&self) -> Option<u64> {
        self.checked.as_ref().map(|checked| checked.count.load(Ordering::Relaxed))
    }
}

/// Counts the certificates that are checked: a handshake that resumes a session has none. The library does
/// not tell it in another way.
#[derive(Debug)]
pub(in crate::transport::stream) struct Checked {
    inner: Arc<dyn ServerCertVerifier>,
    count: AtomicU64,
}

impl Checked {
    /// Checks as `inner` does.
    pub fn new(inner: Arc<dyn ServerCertVerifier>) -> Self {
        Self { inner, count: AtomicU64::new(0) }
    }
}

impl ServerCertVerifier for Checked {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.inner.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
