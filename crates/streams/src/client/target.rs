//! What is needed to connect to an upstream server, made ready once.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Uri;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection::{Failure, Link};
use super::{Upstream, UpstreamError, framed, https, quic};
use crate::Protocol;
use crate::counts::UpstreamCells;
use crate::tls::client_config;

/// The port that HTTPS URIs leave out.
const HTTPS_PORT: u16 = 443;

/// An upstream server and how it is reached.
pub(super) struct Target {
    pub address: SocketAddr,
    pub source: Option<SocketAddr>,
    way: TargetProtocol,
}

enum TargetProtocol {
    Tcp,
    Tls(TlsConnector, ServerName<'static>),
    Https(TlsConnector, ServerName<'static>, Uri),
    Quic(quinn::ClientConfig, String),
}

impl Target {
    pub fn new(upstream: Upstream) -> Result<Self, UpstreamError> {
        let Upstream { address, protocol, tls_name, path, source, roots, in_flight: _ } = upstream;
        let source = source.map(|source| SocketAddr::new(source, 0));
        if protocol == Protocol::Tcp {
            return Ok(Self { address, source, way: TargetProtocol::Tcp });
        }
        let tls_error = |reason: String| UpstreamError::Tls(address, reason);
        let roots = roots.ok_or(UpstreamError::NoRoots(address))?;
        let config = client_config(protocol, &roots).map_err(|error| tls_error(error.to_string()))?;
        let text = tls_name.unwrap_or_else(|| address.ip().to_string());
        let name =
            ServerName::try_from(text.clone()).map_err(|_| UpstreamError::Name(address, text.clone()))?;
        let config = Arc::new(config);
        let way = match protocol {
            Protocol::Quic => {
                let crypto =
                    QuicClientConfig::try_from(config).map_err(|error| tls_error(error.to_string()))?;
                TargetProtocol::Quic(quic::config(crypto), text)
            }
            Protocol::Https => TargetProtocol::Https(config.into(), name.clone(), uri(address, &name, path)?),
            Protocol::Http3 => return Err(UpstreamError::Protocol(address, protocol)),
            Protocol::Tls | Protocol::Tcp => TargetProtocol::Tls(config.into(), name),
        };
        Ok(Self { address, source, way })
    }

    /// Connects, which takes as long as it takes.
    pub async fn connect(&self, cells: &Arc<UpstreamCells>) -> Result<Link, Failure> {
        Ok(match &self.way {
            TargetProtocol::Tcp => {
                Link::Framed(framed::Link::start(Box::pin(self.tcp().await?), cells.clone()))
            }
            TargetProtocol::Tls(connector, name) => {
                let stream = self.tls(connector, name).await?;
                Link::Framed(framed::Link::start(Box::pin(stream), cells.clone()))
            }
            TargetProtocol::Https(connector, name, uri) => {
                let stream = self.tls(connector, name).await?;
                Link::Https(https::Link::start(stream, uri.clone()).await?)
            }
            TargetProtocol::Quic(config, name) => {
                Link::Quic(quic::Link::start(self, config.clone(), name).await?)
            }
        })
    }

    async fn tcp(&self) -> Result<TcpStream, Failure> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = socket.map_err(Failure::from_error)?;
        if let Some(source) = self.source {
            socket.bind(source).map_err(Failure::from_error)?;
        }
        let stream = socket.connect(self.address).await.map_err(Failure::from_error)?;
        stream.set_nodelay(true).map_err(Failure::from_error)?;
        Ok(stream)
    }

    async fn tls(
        &self,
        connector: &TlsConnector,
        name: &ServerName<'static>,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        connector.connect(name.clone(), self.tcp().await?).await.map_err(Failure::from_error)
    }
}

/// The URI of the server's resource.
fn uri(address: SocketAddr, name: &ServerName<'_>, path: String) -> Result<Uri, UpstreamError> {
    let host = match name {
        ServerName::IpAddress(ip) if address.is_ipv6() => format!("[{}]", std::net::IpAddr::from(*ip)),
        name => name.to_str().into_owned(),
    };
    let authority = match address.port() {
        HTTPS_PORT => host,
        port => format!("{host}:{port}"),
    };
    let built = Uri::builder().scheme("https").authority(authority).path_and_query(path.as_str()).build();
    built.ok().filter(|_| path.starts_with('/')).ok_or(UpstreamError::Path(address, path))
}
