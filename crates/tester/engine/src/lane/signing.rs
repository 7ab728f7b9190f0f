//! The signatures of a lane's queries, and the verification of the answers (TSIG).

use std::sync::Arc;

use dns64::wire::Header;

use crate::tsig::{Key, Mac, TsigDefect};

/// The key, and the MACs of the queries in flight.
pub(super) struct Signing {
    key: Arc<Key>,
    /// By the number of the query within the lane, modulo their length, which is a power of two.
    macs: Box<[Mac]>,
}

impl Signing {
    /// For so many queries in flight, a power of two.
    pub fn new(key: Arc<Key>, remembered: usize) -> Self {
        Self { key, macs: vec![Mac::default(); remembered].into_boxed_slice() }
    }

    /// Signs query `own` in the first `length` octets of the buffer; returns its length, 0 if it has no room.
    pub fn sign(&mut self, own: u64, now_ns: u64, buffer: &mut [u8], length: usize) -> usize {
        let Some((length, mac)) = self.key.sign(now_ns, buffer, length) else { return 0 };
        let at = self.at(own);
        self.macs[at] = mac;
        length
    }

    /// Verifies the answer to query `own`, which is remembered.
    ///
    /// # Errors
    /// Why its signature does not hold.
    pub fn verify(
        &self,
        own: u64,
        now_ns: u64,
        header: &Header,
        answer: &[u8],
        question_end: usize,
    ) -> Result<(), TsigDefect> {
        self.key.verify(now_ns, &self.macs[self.at(own)], header, answer, question_end)
    }

    fn at(&self, own: u64) -> usize {
        own as usize & (self.macs.len() - 1)
    }
}
