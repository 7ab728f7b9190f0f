//! Questions from templates, mixed by their shares.

use std::fmt;

use dns64::wire::NAME_LENGTH_MAX;
use record::random;

use super::template::{SHARE_MAX, Template, divisor};

/// The most templates of a mix.
pub const TEMPLATES_MAX: usize = 100;
/// The order of the templates comes again after so many questions, or a few more.
const ROUND_MIN: u64 = 4096;

/// Templates and the order in which they are asked. Every round of questions has each of them as often as its
/// share says, evenly interleaved.
#[derive(Clone, Debug)]
pub struct Generator {
    templates: Vec<Template>,
    seed: u64,
    /// A round.
    turns: Vec<Turn>,
    /// How often a round has each template.
    times: Vec<u64>,
}

/// A question of a round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    template: u32,
    /// How many questions of the round before it are from this template.
    before: u32,
}

/// Why templates cannot be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratorError {
    /// None, or more than [`TEMPLATES_MAX`]: so many.
    Templates(usize),
    /// Shares that add up to more than 10,000: to so much.
    Shares(u64),
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Templates(count) => write!(f, "{count} templates: 1 to {TEMPLATES_MAX} are allowed"),
            Self::Shares(sum) => {
                write!(f, "the shares add up to {sum}: at most {SHARE_MAX}; take smaller numbers")
            }
        }
    }
}

impl std::error::Error for GeneratorError {}

impl Generator {
    /// Mixes templates; draws and letters follow the seed.
    ///
    /// # Errors
    /// Too many of them, or too large shares.
    pub fn new(templates: Vec<Template>, seed: u64) -> Result<Self, GeneratorError> {
        if !(1..=TEMPLATES_MAX).contains(&templates.len()) {
            return Err(GeneratorError::Templates(templates.len()));
        }
        let sum: u64 = templates.iter().map(|template| u64::from(template.share())).sum();
        if sum > SHARE_MAX.into() {
            return Err(GeneratorError::Shares(sum));
        }
        let times: Vec<u64> =
            templates.iter().map(|template| u64::from(template.share()) * ROUND_MIN.div_ceil(sum)).collect();
        let turns = round(&times);
        Ok(Self { templates, seed, turns, times })
    }

    /// The templates.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// Their texts, for the record.
    pub fn texts(&self) -> Vec<String> {
        self.templates.iter().map(|template| template.text().to_owned()).collect()
    }

    /// The types that are asked, each once; `mixed` are those of templates without a type.
    pub fn types(&self, mixed: impl Iterator<Item = u16>) -> Vec<u16> {
        let mut types: Vec<u16> = self.templates.iter().filter_map(Template::qtype).collect();
        if self.templates.iter().any(|template| template.qtype().is_none()) {
            types.extend(mixed);
        }
        types.sort_unstable();
        types.dedup();
        types
    }

    /// How many of the questions before `place` are from a template.
    pub fn asked_before(&self, template: usize, place: u64) -> u64 {
        let (rounds, within) = (place / self.turns.len() as u64, place % self.turns.len() as u64);
        let begun = &self.turns[..within as usize];
        let own = begun.iter().filter(|turn| turn.template as usize == template).count();
        self.times.get(template).map_or(0, |times| rounds * times + own as u64)
    }

    /// The template of the question at a place, and how many of its questions stand before.
    #[inline]
    fn turn(&self, place: u64) -> (usize, u64) {
        let (rounds, within) = (place / self.turns.len() as u64, place % self.turns.len() as u64);
        let Turn { template, before } = self.turns[within as usize];
        (template as usize, rounds * self.times[template as usize] + u64::from(before))
    }

    /// Writes the name at a place; returns its octets.
    #[inline]
    pub(super) fn write(&self, place: u64, name: &mut [u8; NAME_LENGTH_MAX]) -> usize {
        let (template, k) = self.turn(place);
        let seed = random::mix(self.seed ^ random::mix(template as u64));
        self.templates[template].write(seed, k, name)
    }

    /// The type at a place, where its template says one.
    #[inline]
    pub(super) fn qtype(&self, place: u64) -> Option<u16> {
        self.templates[self.turn(place).0].qtype()
    }

    /// A name as long as the longest, on the wire.
    pub(super) fn longest_name(&self) -> Vec<u8> {
        let names = self.templates.iter().map(Template::longest_name);
        names.max_by_key(Vec::len).unwrap_or_default()
    }
}

/// Interleaves templates that come so many times each. Multiples of a number near the golden section of the
/// round lie evenly within it, those of every k-th question too.
fn round(times: &[u64]) -> Vec<Turn> {
    let length: u64 = times.iter().sum();
    let golden = (length as f64 * 0.618_033_988_75) as u64;
    let step = (1..=golden).rev().find(|step| divisor(*step, length) == 1).unwrap_or(1);
    let mut before = vec![0; times.len()];
    let turn = |n: u64| {
        let (mut rest, mut template) = (n * step % length, 0);
        while rest >= times[template] {
            rest -= times[template];
            template += 1;
        }
        before[template] += 1;
        Turn { template: template as u32, before: before[template] - 1 }
    };
    (0..length).map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::Name;

    pub(super) fn generator(texts: &[&str], seed: u64) -> Generator {
        let templates = texts.iter().map(|text| text.parse().unwrap()).collect();
        Generator::new(templates, seed).unwrap()
    }

    fn name(generator: &Generator, place: u64) -> String {
        let mut wire = [0; NAME_LENGTH_MAX];
        let length = generator.write(place, &mut wire);
        Name::parse(&wire[..length], 0).unwrap().0.to_string()
    }

    #[test]
    fn shares_are_exact_in_each_round_and_even_on_every_stride() {
        let texts = ["50={walk:1-10}.a.test", "30={draw:1-9}.b.test AAAA", "20={random:8}.c.test TYPE65"];
        let generator = generator(&texts, 1);
        assert_eq!(generator.turns.len(), 4100);
        for (template, share) in [(0, 50), (1, 30), (2, 20)] {
            assert_eq!(generator.asked_before(template, 41_000), share * 410);
            for (start, stride) in [(0, 1), (5, 2), (1 << 40, 3), (7, 16)] {
                let places = (0..1000).map(|k| start + k * stride);
                let own = places.filter(|place| generator.turn(*place).0 == template).count();
                assert!(own.abs_diff(share as usize * 10) <= 15, "{own} of 1000 with stride {stride}");
            }
        }
        assert_eq!(generator.types([1, 28].into_iter()), [1, 28, 65]);
    }

    #[test]
    fn each_template_counts_its_own_questions() {
        let generator = generator(&["3={walk:0-99}.a", "1={walk:0-99}.b A"], 0);
        let mut next = [0; 2];
        for place in 0..8192 {
            let (template, k) = generator.turn(place);
            assert_eq!(k, next[template]);
            assert_eq!(generator.asked_before(template, place), k);
            next[template] += 1;
            assert_eq!(name(&generator, place), format!("{}.{}.", k % 100, ["a", "b"][template]));
            assert_eq!(generator.qtype(place), [None, Some(1)][template]);
        }
        assert_eq!(next, [6144, 2048]);
    }

    #[test]
    fn the_seed_decides_what_is_random_and_nothing_else() {
        let texts = ["{random:6}.{draw:0-4294967295}.a", "{random:6}.{draw:0-4294967295}.b", "{walk:0-9}.c"];
        let [one, same, other] = [4, 4, 5].map(|seed| generator(&texts, seed));
        let names = |of: &Generator| (0..3000).map(|place| name(of, place)).collect::<Vec<_>>();
        assert_eq!(names(&one), names(&same));
        for (one, other) in names(&one).iter().zip(names(&other)) {
            assert_eq!(*one == other, one.ends_with(".c."), "{one} {other}");
        }
        let random: std::collections::HashSet<String> =
            names(&one).iter().filter_map(|name| name.get(..6).map(str::to_owned)).collect();
        assert!(random.len() > 2000 - 5, "templates draw apart: {}", random.len());
    }

    #[test]
    fn too_much_is_refused() {
        let many = |count| Generator::new(vec!["100=a".parse().unwrap(); count], 0);
        assert_eq!(many(0).unwrap_err(), GeneratorError::Templates(0));
        assert_eq!(many(101).unwrap_err().to_string(), "101 templates: 1 to 100 are allowed");
        assert_eq!(many(100).unwrap().turns.len(), 10_000);
        let shares = ["9999=a", "2=b"].map(|text| text.parse().unwrap()).to_vec();
        let error = Generator::new(shares, 0).unwrap_err().to_string();
        assert_eq!(error, "the shares add up to 10001: at most 10000; take smaller numbers");
    }
}
