//! Clients outside `allow`, over UDP.
//!
//! Anybody can write their addresses. A refusal helps an operator whose `allow` lacks a network, and serves
//! an attacker who wants answers sent to a victim. So a few are refused, and the others are not answered.

/// Refusals a second, and at once.
const PER_SECOND: u64 = 16;
const INTERVAL_NS: u64 = 1_000_000_000 / PER_SECOND;

/// How many strangers are told that they may not ask. All of them share one number: what a stranger costs is
/// a comparison, whatever addresses there are.
#[derive(Debug, Default)]
pub struct Strangers {
    /// When all refusals of a second will be there again.
    full_at_ns: u64,
}

impl Strangers {
    /// Whether one more may be refused; if not, there is no answer.
    pub fn may_refuse(&mut self, now_ns: u64) -> bool {
        let start_ns = self.full_at_ns.max(now_ns);
        let may = start_ns - now_ns <= INTERVAL_NS * (PER_SECOND - 1);
        if may {
            self.full_at_ns = start_ns + INTERVAL_NS;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_refused_at_once_and_in_a_second() {
        let mut strangers = Strangers::default();
        let refused =
            |strangers: &mut Strangers, now_ns| (0..100).filter(|_| strangers.may_refuse(now_ns)).count();
        assert_eq!(refused(&mut strangers, 5), 16);
        assert_eq!(refused(&mut strangers, 5 + INTERVAL_NS), 1);
        assert_eq!(refused(&mut strangers, 60_000_000_000), 16, "no more are saved up");
    }
}
