//! Refusals: ICMP messages that say that nothing listens at a server's address.
//!
//! Anybody who knows a port can forge such a message. A refusal alone therefore changes nothing. It counts
//! only if the server is also silent for longer than usual.

use super::UpstreamSide;
use crate::machine::{Notice, Output};
use crate::upstreams::PAUSE_NS;

/// A server is silent if it answered nothing for so many times its usual time.
const USUAL_TIMES: u64 = 2;
/// And for so long at least.
const SILENCE_MIN_NS: u64 = 10_000_000;

/// A refusal that is not believed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    upstream: usize,
    since_ns: u64,
    due_ns: u64,
}

impl UpstreamSide {
    /// A server was said to be unreachable. That matters where another server does its task.
    pub fn note_refusal(&mut self, now_ns: u64, upstream: usize) {
        let is_known = |doubt: &Doubt| doubt.upstream == upstream;
        if !self.upstreams.contains(upstream)
            || self.upstreams.is_alone(upstream)
            || self.doubts.iter().any(is_known)
        {
            return;
        }
        let silence_ns = USUAL_TIMES * self.upstreams.usual_ns(upstream);
        let silence_ns = silence_ns.max(SILENCE_MIN_NS).min(self.settings.asking.timeout_ns);
        self.doubts.push(Doubt { upstream, since_ns: now_ns, due_ns: now_ns + silence_ns });
    }

    /// When the first doubt ends.
    pub fn first_doubt_ns(&self) -> Option<u64> {
        self.doubts.iter().map(|doubt| doubt.due_ns).min()
    }

    /// A server that was refused and is silent since: it is left out for a while from now on.
    pub fn believe_refusal(&mut self, now_ns: u64, out: &mut impl Output) -> Option<usize> {
        loop {
            let at = self.doubts.iter().position(|doubt| doubt.due_ns <= now_ns)?;
            let Doubt { upstream, since_ns, .. } = self.doubts.swap_remove(at);
            if self.upstreams.answered_since(upstream, since_ns) {
                continue;
            }
            if self.upstreams.pause(upstream, now_ns, PAUSE_NS) {
                out.notice(Notice::UpstreamDown(upstream));
            }
            return Some(upstream);
        }
    }
}
