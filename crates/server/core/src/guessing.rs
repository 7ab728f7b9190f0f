//! How many values an attacker off the path must guess so that a forged answer is accepted (RFC 5452).

/// IDs of a query.
const IDS: f64 = 65_536.0;
/// Client cookies, which a server that has cookies sends back (RFC 7873 4).
const COOKIES: f64 = 18_446_744_073_709_551_616.0;
/// Letters of a name that the numbers are given for: `google.com` has nine.
pub const LETTERS: u8 = 9;
/// Fewer forged packets than this for an even chance are too few: 2^31 last 36 minutes at a million packets a
/// second, all of them in the moments between a query and its answer.
pub const PACKETS_MIN: f64 = 2_147_483_648.0;

/// What a forger does not know of a query over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknowns {
    /// The ports that it may have left from, 1 to 65,535; 1 where the port is known.
    pub ports: u32,
    /// Bits of the address it left from: 64 for a /64, 0 where the address is known.
    pub source_bits: u8,
    /// Letters whose case was drawn (0x20).
    pub letters: u8,
    /// The server sends cookies, and ours comes back.
    pub cookie: bool,
}

impl Unknowns {
    /// How many different packets there are, of which one is taken.
    pub fn combinations(&self) -> f64 {
        let cookies = if self.cookie { COOKIES } else { 1.0 };
        let bits = i32::from(self.source_bits) + i32::from(self.letters);
        IDS * f64::from(self.ports.max(1)) * 2f64.powi(bits) * cookies
    }

    /// The forged packets after which one was taken with a probability of one half, if every packet comes
    /// while the question is in flight: `1 - (1 - 1/n)^k = 1/2` has the solution `k = n ln 2`.
    ///
    /// Equal questions are in flight once, so that there is one query to hit, and no birthday attack (RFC
    /// 5452 5).
    pub fn packets_for_even_chance(&self) -> f64 {
        self.combinations() * std::f64::consts::LN_2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ports from 1024 to 65535.
    const ALL: Unknowns = Unknowns { ports: 64_512, source_bits: 0, letters: 0, cookie: false };

    fn bits(unknowns: Unknowns) -> f64 {
        unknowns.packets_for_even_chance().log2()
    }

    #[test]
    fn attack_the_whole_range_of_ports_needs_two_to_the_31_packets_and_spelling_two_to_the_40() {
        assert!((31.4..31.5).contains(&bits(ALL)), "{}", bits(ALL));
        let spelled = bits(Unknowns { letters: LETTERS, ..ALL });
        assert!((40.4..40.5).contains(&spelled), "{spelled}");
        assert!(ALL.packets_for_even_chance() >= PACKETS_MIN);
    }

    #[test]
    fn attack_known_ports_need_millions_of_packets() {
        let known = Unknowns { ports: 64, ..ALL }.packets_for_even_chance();
        assert!((2.9e6..2.91e6).contains(&known), "{known}");
        assert!(known < PACKETS_MIN);
        let one = Unknowns { ports: 0, ..ALL }.packets_for_even_chance();
        assert!((45_000.0..45_500.0).contains(&one), "the IDs alone: {one}");
    }

    #[test]
    fn cookies_and_source_addresses_multiply() {
        let cookie = bits(Unknowns { cookie: true, ..ALL }) - bits(ALL);
        let source = bits(Unknowns { source_bits: 64, ..ALL }) - bits(ALL);
        assert!((cookie - 64.0).abs() < 1e-9 && (source - 64.0).abs() < 1e-9);
    }

    /// The formula against the draws that it is about, in a small world.
    #[test]
    fn attack_half_of_the_forgers_hit_after_that_many_packets() {
        use crate::ids::Random;
        let mut random = Random::new([9; 32]);
        let (worlds, combinations) = (4_000, 64);
        let packets = (f64::from(combinations) * std::f64::consts::LN_2).round() as u32;
        let hit = |random: &mut Random| {
            let drawn = random.below(combinations as usize);
            (0..packets).any(|_| random.below(combinations as usize) == drawn)
        };
        let hits = (0..worlds).filter(|_| hit(&mut random)).count();
        assert!((1_850..2_150).contains(&hits), "{hits} of {worlds}");
    }
}
