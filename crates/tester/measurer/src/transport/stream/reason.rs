//! Why a handshake failed, in words for who measures: the library's words are for programmers.

/// The reason, with what to do about it.
pub(crate) fn in_words(reason: &str) -> String {
    let advice = match reason {
        _ if reason.contains("CaUsedAsEndEntity") => {
            return "the server's certificate is that of an authority (CA:TRUE): give the server a certificate \
                    with CA:FALSE, or pin its key (--tls-pin)"
                .to_owned();
        }
        _ if reason.contains("UnknownIssuer") => {
            "no authority of --tls-ca has signed the server's certificate"
        }
        _ if reason.contains("NoApplicationProtocol") || reason.contains("any known protocol") => {
            "the server does not speak the protocol of --transport (ALPN)"
        }
        // An error of our own.
        _ => return reason.strip_prefix("unexpected error: ").unwrap_or(reason).to_owned(),
    };
    format!("{reason}: {advice}")
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;

    #[test]
    fn reasons_of_the_library_get_advice() {
        for (error, advice) in [
            (Error::NoApplicationProtocol, "--transport (ALPN)"),
            (Error::AlertReceived(AlertDescription::NoApplicationProtocol), "--transport (ALPN)"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "no authority of --tls-ca"),
        ] {
            let words = in_words(&error.to_string());
            assert!(words.contains(&error.to_string()) && words.contains(advice), "{words}");
        }
        assert_eq!(in_words(&Error::General("another key".to_owned()).to_string()), "another key");
        assert_eq!(in_words("connection closed"), "connection closed");
    }
}
