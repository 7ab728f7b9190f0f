//! A query to upstream servers, apart from its server, ID and spelling.

use dns64::wire::Question;

use crate::cache::Key;

/// A question as a group of upstream servers is asked it: of class IN, for records or ANY, with RD. The
/// screen lets nothing else in, so every reply may be shared and kept.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamQuery {
    /// The question in the spelling of the first client.
    pub question: Question,
    /// CD.
    pub checking_disabled: bool,
    /// DO.
    pub dnssec_ok: bool,
    /// The group of upstream servers that is asked.
    pub group: usize,
}

impl UpstreamQuery {
    /// The key of the reply in the cache.
    pub fn key(&self) -> Key {
        Key::new(&self.question, self.dnssec_ok, self.checking_disabled, self.group)
    }
}
