//! What the machines of one process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use dns64::wire::Name;
use siphasher::sip128::SipHasher24;

use crate::buckets::Buckets;
use crate::cache::Cache;
use crate::cookies::ServerCookies;
use crate::ids::Random;
use crate::settings::Settings;

/// What machines share; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    /// What upstream servers said.
    pub cache: Arc<Cache>,
    /// The clients' token buckets, where their rate is limited.
    pub buckets: Option<Arc<Buckets>>,
    /// The same for queries from proven addresses, over streams or with a server cookie (RFC 7873): forged
    /// datagrams leave these buckets alone.
    pub proven_buckets: Option<Arc<Buckets>>,
    /// Makes and checks server cookies.
    pub cookies: Arc<ServerCookies>,
    /// Finds out whether our questions come back to us.
    pub loops: Arc<Loops>,
}

impl Shared {
    /// For machines that keep `cache_octets` and know `upstreams` servers.
    pub fn new(settings: &Settings, cache_octets: usize, seed: [u8; 32]) -> Self {
        // Each has a secret of its own: what one of them gives away says nothing of the others.
        let mut random = Random::new(seed);
        Self {
            cache: Arc::new(Cache::new(cache_octets, random.seed())),
            buckets: settings.rate.map(|limit| Arc::new(Buckets::new(limit, random.seed()))),
            proven_buckets: settings.rate.map(|limit| Arc::new(Buckets::new(limit, random.seed()))),
            cookies: Arc::new(ServerCookies::new(random.secret())),
            loops: Arc::new(Loops::new(settings.upstreams.len(), random.secret())),
        }
    }
}

/// The domain of the questions that look for loops: reserved, so that they end at the next resolver (RFC 6761
/// 6.2).
const PROBE_DOMAIN: &str = "dns64d-loop.test";

/// Digits in a probe's label before the number of its server.
const HASH_DIGITS: usize = 32;

/// Upstream servers whose questions come back to us.
pub struct Loops {
    hasher: SipHasher24,
    domain: Name,
    found: Vec<AtomicBool>,
    /// Changes with each loop that is found.
    epoch: AtomicU32,
}

impl Loops {
    fn new(upstreams: usize, secret: [u8; 16]) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&secret),
            domain: Name::from_text(PROBE_DOMAIN).unwrap_or(Name::ROOT),
            found: (0..upstreams).map(|_| AtomicBool::new(false)).collect(),
            epoch: AtomicU32::new(0),
        }
    }

    /// The name that this upstream server is asked for. It says nothing of the names for the others: a server
    /// can have itself left out, and no other.
    pub fn name(&self, upstream: usize) -> Option<Name> {
        let hash = self.hasher.hash(&upstream.to_le_bytes()).as_u128();
        self.domain.below(format!("{hash:032x}{upstream:x}").as_bytes()).ok()
    }

    /// The upstream server that a client's question was asked of, if it is one of ours that came back.
    pub fn upstream_of(&self, name: &Name) -> Option<usize> {
        let (_, number) = name.labels().next()?.split_at_checked(HASH_DIGITS)?;
        let number = usize::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()?;
        (number < self.found.len() && self.name(number)? == *name).then_some(number)
    }

    /// The upstream server asks us. Returns whether that is news.
    pub fn report(&self, upstream: usize) -> bool {
        let news = !self.found[upstream].swap(true, Ordering::Relaxed);
        if news {
            self.epoch.fetch_add(1, Ordering::Release);
        }
        news
    }

    /// Changes with each report.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The servers reported.
    pub fn found(&self) -> impl Iterator<Item = usize> + '_ {
        self.found
            .iter()
            .enumerate()
            .filter(|(_, found)| found.load(Ordering::Relaxed))
            .map(|(upstream, _)| upstream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_probes_are_recognized() {
        let loops = Loops::new(20, [7; 16]);
        let name = loops.name(17).unwrap();
        assert_eq!(loops.upstream_of(&name), Some(17));
        let other = Loops::new(20, [8; 16]);
        assert_eq!(other.upstream_of(&name), None);
        assert_eq!(loops.upstream_of(&loops.name(20).unwrap()), None, "no such server");
        let of_another = name.to_string().replacen("11.dns64d", "10.dns64d", 1);
        assert_ne!(of_another, name.to_string());
        assert_eq!(loops.upstream_of(&Name::from_text(&of_another).unwrap()), None);
        assert_eq!(loops.upstream_of(&Name::from_text("www.example").unwrap()), None);
        assert!(loops.report(17) && !loops.report(17));
        assert_eq!((loops.epoch(), loops.found().collect::<Vec<_>>()), (1, vec![17]));
    }
}
