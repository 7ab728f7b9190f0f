//! The certificate of the AuthDNS: one that is made for a test, and the pin of any.

use domain::utils::base64;
use ring::digest;
use streams::{ServerTls, TlsError};

/// Makes a key and a certificate for these names and addresses that the key itself has signed. Nothing is
/// written to a file.
///
/// # Errors
/// A name that no certificate can have, or no randomness.
pub fn self_signed(names: Vec<String>) -> Result<ServerTls, TlsError> {
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    ServerTls::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes())
}

/// The pin of a server's key (RFC 7858 4.2), as `--tls-pin` and `kdig +tls-pin` take it.
pub fn tls_pin(tls: &ServerTls) -> Option<String> {
    let key = tls.public_key()?;
    Some(base64::encode_string(&digest::digest(&digest::SHA256, &key)))
}
