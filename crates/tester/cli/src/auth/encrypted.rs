//! The options of the encrypted transports.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use authdns::{EncryptedConfig, ServerTls, self_signed, tls_pin};

use crate::failure::Failure;
use crate::{EXIT_UNFIT, EXIT_USAGE};

/// Options of the encrypted transports.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Encrypted transports")]
pub struct EncryptedArgs {
    /// Address to answer on over TLS (RFC 7858); may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub dot: Vec<SocketAddr>,
    /// Address to answer on over HTTPS (RFC 8484, HTTP/2), at /dns-query; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub doh: Vec<SocketAddr>,
    /// Address to answer on over QUIC (RFC 9250); may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub doq: Vec<SocketAddr>,
    /// Address to answer on over HTTP/3 (RFC 9114, RFC 8484), at /dns-query; may be given several times
    #[arg(long, value_name = "ADDR:PORT")]
    pub doh3: Vec<SocketAddr>,
    /// PEM file with the certificate, and those of its authorities after it [default: a self-signed
    /// certificate, made at the start]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the private key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl EncryptedArgs {
    /// What the options come to, for a zone of this suffix; `None` where no address is given.
    ///
    /// # Errors
    /// A certificate or key that cannot be used, or one that nobody would be shown.
    pub(super) fn config(&self, suffix: &str) -> Result<Option<EncryptedConfig>, Failure> {
        let is_empty = self.addresses().next().is_none();
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(_), _) if is_empty => {
                let message = "--tls-cert: give an address with --dot, --doh, --doq or --doh3";
                return Err(Failure::new(EXIT_USAGE, message));
            }
            _ if is_empty => return Ok(None),
            (Some(certificate), Some(key)) => ServerTls::load(certificate, key)
                .map_err(|error| Failure::new(EXIT_USAGE, format!("--tls-cert, --tls-key: {error}")))?,
            _ => self_signed(self.names(suffix))
                .map_err(|error| Failure::new(EXIT_UNFIT, format!("cannot make a certificate: {error}")))?,
        };
        let Self { dot, doh, doq, doh3, .. } = self.clone();
        Ok(Some(EncryptedConfig { dot, doh, doq, doh3, tls }))
    }

    fn addresses(&self) -> impl Iterator<Item = &SocketAddr> {
        [&self.dot, &self.doh, &self.doq, &self.doh3].into_iter().flatten()
    }

    /// What a certificate of our own is for: the name server of the zone, and the addresses.
    fn names(&self, suffix: &str) -> Vec<String> {
        let addresses = self.addresses().map(SocketAddr::ip);
        let mut addresses: Vec<IpAddr> = addresses.filter(|address| !address.is_unspecified()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let names = [format!("ns.{}", suffix.trim_end_matches('.')), "localhost".to_owned()];
        names.into_iter().chain(addresses.iter().map(ToString::to_string)).collect()
    }
}

/// What a client pins: the line at the start.
pub(super) fn pin_line(config: &EncryptedConfig) -> Option<String> {
    tls_pin(&config.tls).map(|pin| format!("sextant auth: TLS pin: {pin}"))
}
