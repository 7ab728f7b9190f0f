//! A query to upstream servers, apart from its server, ID and spelling.

use dns64::wire::{CLASS_IN, Question};

use crate::cache::Key;

/// A question as a group of upstream servers is asked it.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamQuery {
    /// The question in the spelling of the first client.
    pub question: Question,
    /// RD.
    pub recursion_desired: bool,
    /// CD.
    pub checking_disabled: bool,
    /// DO.
    pub dnssec_ok: bool,
    /// The group of upstream servers that is asked.
    pub group: usize,
}

impl UpstreamQuery {
    /// Whether the reply may be shared and kept: it is a resolver's answer to a question for records. Without
    /// RD it may be a referral, which depends on what the resolver happens to know; types from 128 on are
    /// questions for something else than records (RFC 6895 3.1).
    pub fn is_shared(&self) -> bool {
        self.recursion_desired
            && self.question.qclass == CLASS_IN
            && !(128..256).contains(&self.question.qtype)
    }

    /// The key of the reply in the cache.
    pub fn key(&self) -> Key {
        Key::new(&self.question, self.dnssec_ok, self.checking_disabled, self.group)
    }
}
