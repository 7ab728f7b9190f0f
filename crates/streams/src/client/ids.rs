//! IDs of queries: from a cryptographic generator, unique among those in flight on a connection.

use rustls::crypto::SecureRandom;
use rustls::crypto::ring::default_provider;

/// IDs drawn from the generator at once.
const POOL: usize = 128;

pub(super) struct Ids {
    generator: &'static dyn SecureRandom,
    pool: Vec<[u8; 2]>,
}

impl Ids {
    pub fn new() -> Self {
        Self { generator: default_provider().secure_random, pool: Vec::new() }
    }

    /// An ID that `is_taken` says nobody has; most must be free. `None` when the system has no randomness.
    pub fn draw(&mut self, is_taken: impl Fn(u16) -> bool) -> Option<u16> {
        loop {
            if self.pool.is_empty() {
                let mut octets = [0; 2 * POOL];
                self.generator.fill(&mut octets).ok()?;
                self.pool.extend(octets.chunks_exact(2).map(|pair| [pair[0], pair[1]]));
            }
            let id = self.pool.pop().map(u16::from_be_bytes)?;
            if !is_taken(id) {
                return Some(id);
            }
        }
    }
}
