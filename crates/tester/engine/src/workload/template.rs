//! Templates of questions: `50={walk:1-1000}.example.com AAAA`.

use std::fmt;
use std::str::FromStr;

use dns64::wire::NAME_LENGTH_MAX;
use record::random;

use super::random_label::{self, CHARACTERS_PER_PLACE};
use super::types::type_number;

/// The longest label, in octets (RFC 1035 2.3.4).
const LABEL_OCTETS_MAX: usize = 63;
/// The most digits of a number.
const DIGITS_MAX: usize = 10;
/// Shares are whole numbers from 1 to this one.
pub(super) const SHARE_MAX: u32 = 10_000;

/// `[SHARE=]NAME [TYPE]`, where NAME may have placeholders: `{walk:FROM-TO}` counts up and starts over,
/// `{draw:FROM-TO}` is a number drawn evenly, `{random:OCTETS}` so many random letters and digits.
///
/// ```
/// let template: engine::workload::Template = "{walk:01-12}.example.com A".parse()?;
/// assert_eq!(template.distinct(), 12);
/// let error = "a..b".parse::<engine::workload::Template>().unwrap_err();
/// assert_eq!(error.to_string(), "character 3: an empty label");
/// # Ok::<(), engine::workload::TemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    share: u32,
    qtype: Option<u16>,
    labels: Vec<Vec<Part>>,
}

/// A part of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// As it stands.
    Text(String),
    /// The numbers from `from` on in turn, or one of them by chance; padded with zeros to so many digits.
    Number { from: u64, count: u64, digits: usize, drawn: bool },
    /// Random letters and digits.
    Letters(usize),
}

/// Where in the text of a template the fault is, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The character, from 1.
    pub at: usize,
    what: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.at, self.what)
    }
}

impl std::error::Error for TemplateError {}

/// An error at a place that is counted from 0.
fn wrong<T>(at: usize, what: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError { at: at + 1, what: what.into() })
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        // Every place is counted in octets from here on.
        let foreign = text.chars().position(|c| !c.is_ascii_graphic() && c != ' ' || c == '\\');
        if let Some(at) = foreign {
            return wrong(at, "names are written in printable ASCII characters without backslashes");
        }
        let (share, name_at) = share(text)?;
        let (name, qtype) = text[name_at..].split_once(' ').unwrap_or((&text[name_at..], ""));
        let labels = if name == "." { Vec::new() } else { labels(name, name_at)? };
        let type_at = text.len() - qtype.trim_start().len();
        let qtype = match qtype.trim() {
            "" => None,
            name => match type_number(name) {
                Some(number) => Some(number),
                None => return wrong(type_at, format!("'{name}' is no query type: write for example AAAA")),
            },
        };
        let template = Self { text: text.to_owned(), share, qtype, labels };
        match template.longest_name().len() {
            0..=NAME_LENGTH_MAX => Ok(template),
            octets => wrong(
                name_at,
                format!("a name of up to {octets} octets: at most {NAME_LENGTH_MAX} are allowed"),
            ),
        }
    }
}

/// The share before the first `=`, and where the name begins.
fn share(text: &str) -> Result<(u32, usize), TemplateError> {
    let Some((share, _)) = text.split_once('=') else { return Ok((1, 0)) };
    match share.parse().ok().filter(|number| (1..=SHARE_MAX).contains(number)) {
        Some(number) => Ok((number, share.len() + 1)),
        None => {
            wrong(0, format!("the share before '=' must be a whole number from 1 to {SHARE_MAX}: '{share}'"))
        }
    }
}

/// The labels of a name that begins at a place of the whole text.
fn labels(name: &str, start: usize) -> Result<Vec<Vec<Part>>, TemplateError> {
    let (mut labels, mut parts) = (Vec::new(), Vec::new());
    let (mut at, mut label_at) = (0, 0);
    while let Some(rest) = name.get(at..).filter(|rest| !rest.is_empty()) {
        let text = rest.find(['.', '{', '}']).unwrap_or(rest.len());
        match rest.as_bytes()[0] {
            b'.' => {
                labels.push(label(std::mem::take(&mut parts), start + label_at)?);
                at += 1;
                label_at = at;
            }
            b'{' => {
                let Some(end) = rest.find('}') else { return wrong(start + at, "'{' without '}'") };
                parts.push(placeholder(&rest[1..end], start + at)?);
                at += end + 1;
            }
            b'}' => return wrong(start + at, "'}' without '{'"),
            _ => {
                parts.push(Part::Text(rest[..text].to_owned()));
                at += text;
            }
        }
    }
    // A dot may end the name.
    if labels.is_empty() || !parts.is_empty() {
        labels.push(label(parts, start + label_at)?);
    }
    Ok(labels)
}

fn label(parts: Vec<Part>, at: usize) -> Result<Vec<Part>, TemplateError> {
    match parts.iter().map(|part| part.octets().1).sum() {
        0 => wrong(at, "an empty label"),
        1..=LABEL_OCTETS_MAX => Ok(parts),
        octets => wrong(at, format!("a label of up to {octets} octets: at most {LABEL_OCTETS_MAX}")),
    }
}

/// What stands between the braces, the first of which is at a place of the whole text.
fn placeholder(text: &str, at: usize) -> Result<Part, TemplateError> {
    const FORMS: &str = "write {walk:FROM-TO}, {draw:FROM-TO} or {random:OCTETS}";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "walk" | "draw" => numbers(rest, kind == "draw", at),
        "random" => match rest.parse().ok().filter(|octets| (1..=LABEL_OCTETS_MAX).contains(octets)) {
            Some(octets) => Ok(Part::Letters(octets)),
            None => wrong(at, format!("{{{text}}} needs a number of octets from 1 to {LABEL_OCTETS_MAX}")),
        },
        _ => wrong(at, format!("{{{text}}} is no placeholder: {FORMS}")),
    }
}

fn numbers(text: &str, drawn: bool, at: usize) -> Result<Part, TemplateError> {
    let number = |text: &str| {
        let digits = text.len() <= DIGITS_MAX && text.bytes().all(|octet| octet.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| digits).map(u64::from)
    };
    let ends = text.split_once('-').and_then(|(from, to)| Some((from.len(), number(from)?, number(to)?)));
    match ends {
        Some((digits, from, to)) if from <= to => {
            Ok(Part::Number { from, count: to - from + 1, digits, drawn })
        }
        Some(_) => {
            wrong(at, format!("'{text}' ends before it begins: write FROM-TO with the lower number first"))
        }
        None => wrong(
            at,
            format!("'{text}' is no range of numbers: write FROM-TO, whole numbers from 0 to {}", u32::MAX),
        ),
    }
}

impl Part {
    /// The fewest and the most octets.
    fn octets(&self) -> (usize, usize) {
        match self {
            Self::Text(text) => (text.len(), text.len()),
            Self::Number { from, count, digits, .. } => {
                let length = |number: u64| (number.max(1).ilog10() as usize + 1).max(*digits);
                (length(*from), length(from + count - 1))
            }
            Self::Letters(octets) => (*octets, *octets),
        }
    }

    /// Writes question `k` of a template; `seed` is of this part alone. Returns the octets.
    fn write(&self, seed: u64, k: u64, place: &mut [u8]) -> usize {
        match self {
            Self::Text(text) => {
                place[..text.len()].copy_from_slice(text.as_bytes());
                text.len()
            }
            Self::Number { from, count, digits, drawn } => {
                let step = if *drawn { random::below(random::at(seed, 0, k), *count) } else { k % count };
                write_number(from + step, *digits, place)
            }
            Self::Letters(octets) => {
                random_label::write(seed, k, &mut place[..*octets]);
                *octets
            }
        }
    }
}

/// Writes a number of up to ten digits.
fn write_number(mut number: u64, digits_min: usize, place: &mut [u8]) -> usize {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    while number > 0 || first > DIGITS_MAX - digits_min {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    place[..DIGITS_MAX - first].copy_from_slice(&digits[first..]);
    DIGITS_MAX - first
}

impl Template {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its weight among several, from 1 to 10,000.
    pub fn share(&self) -> u32 {
        self.share
    }

    /// The type, where it says one.
    pub fn qtype(&self) -> Option<u16> {
        self.qtype
    }

    /// So many of its names in a row are certainly different.
    pub fn distinct(&self) -> u64 {
        let parts = || self.labels.iter().flatten();
        if parts().any(|part| matches!(part, Part::Letters(CHARACTERS_PER_PLACE..))) {
            return u64::MAX;
        }
        parts().fold(1, |sofar, part| match part {
            Part::Number { count, drawn: false, .. } => multiple(sofar, *count),
            _ => sofar,
        })
    }

    /// It has at most so many different names.
    pub fn names(&self) -> u64 {
        let drawn = |part: &Part| match part {
            Part::Number { count, drawn: true, .. } => *count,
            Part::Letters(octets) => 32u64.saturating_pow(*octets as u32),
            _ => 1,
        };
        self.labels.iter().flatten().map(drawn).fold(self.distinct(), u64::saturating_mul)
    }

    /// Whether no name can be one of the other's, too, as far as the texts tell.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        let pairs = || self.labels.iter().zip(&other.labels);
        self.labels.len() != other.labels.len() || pairs().any(|(own, other)| are_apart(own, other))
    }

    /// A name as long as the longest, on the wire.
    pub(super) fn longest_name(&self) -> Vec<u8> {
        let mut wire = Vec::new();
        for label in &self.labels {
            let octets: usize = label.iter().map(|part| part.octets().1).sum();
            wire.push(octets as u8);
            wire.resize(wire.len() + octets, b'0');
        }
        wire.push(0);
        wire
    }

    /// Writes the name of question `k`; returns the octets.
    pub(super) fn write(&self, seed: u64, k: u64, name: &mut [u8; NAME_LENGTH_MAX]) -> usize {
        let (mut at, mut part_seed) = (0, seed);
        for label in &self.labels {
            let length_at = at;
            at += 1;
            for part in label {
                part_seed = random::mix(part_seed.wrapping_add(1));
                at += part.write(part_seed, k, &mut name[at..]);
            }
            name[length_at] = (at - length_at - 1) as u8;
        }
        name[at] = 0;
        at + 1
    }
}

/// Whether two labels differ in their length or in the text at their beginning, whatever is put in.
fn are_apart(one: &[Part], other: &[Part]) -> bool {
    let octets = |label: &[Part]| {
        label.iter().map(Part::octets).fold((0, 0), |sum, (fewest, most)| (sum.0 + fewest, sum.1 + most))
    };
    let ((one_fewest, one_most), (other_fewest, other_most)) = (octets(one), octets(other));
    let beginnings_differ = match (one.first(), other.first()) {
        (Some(Part::Text(one)), Some(Part::Text(other))) => {
            let both = one.len().min(other.len());
            !one[..both].eq_ignore_ascii_case(&other[..both])
        }
        _ => false,
    };
    one_most < other_fewest || other_most < one_fewest || beginnings_differ
}

/// The least common multiple.
fn multiple(one: u64, other: u64) -> u64 {
    (one / divisor(one, other)).saturating_mul(other)
}

/// The greatest common divisor.
pub(super) fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::Name;
    use proptest::prelude::*;

    fn name(template: &str, k: u64) -> String {
        let mut wire = [0; NAME_LENGTH_MAX];
        let length = template.parse::<Template>().unwrap().write(7, k, &mut wire);
        let (name, end) = Name::parse(&wire[..length], 0).unwrap();
        assert_eq!(end, length);
        name.to_string()
    }

    #[test]
    fn a_walk_counts_up_and_starts_over() {
        let names = |template| [0, 1, 2, 3, 4].map(|k| name(template, k));
        assert_eq!(names("{walk:8-10}.test"), ["8.test.", "9.test.", "10.test.", "8.test.", "9.test."]);
        assert_eq!(names("a{walk:08-10}-b."), ["a08-b.", "a09-b.", "a10-b.", "a08-b.", "a09-b."]);
        assert_eq!(names("{walk:0-1}.{walk:0-2}"), ["0.0.", "1.1.", "0.2.", "1.0.", "0.1."]);
        assert_eq!(name("{walk:4294967295-4294967295}.x", u64::MAX), "4294967295.x.");
        assert_eq!(name("{walk:0-4294967295}", (1 << 32) + 5), "5.");
        assert_eq!((name("www.example.com", 9), name(".", 9)), ("www.example.com.".into(), ".".into()));
    }

    #[test]
    fn draws_are_even_and_differ_from_each_other() {
        let mut counts = [[0u32; 10]; 10];
        for k in 0..100_000 {
            let [a, b, _] = name("{draw:0-9}{draw:0-9}", k).into_bytes()[..] else { unreachable!() };
            counts[usize::from(a - b'0')][usize::from(b - b'0')] += 1;
        }
        assert!(counts.iter().flatten().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
    }

    #[test]
    fn names_in_a_row_are_told_apart() {
        for (text, distinct, names) in [
            ("www.test", 1, 1),
            ("{walk:1-12}.{walk:1-8}.test", 24, 24),
            ("{draw:0-9}.{walk:0-9}.test", 10, 100),
            ("{random:1}{draw:0-9}", 1, 320),
            ("{random:12}", 1, 1 << 60),
            ("{random:13}.{draw:1-2}", u64::MAX, u64::MAX),
            ("{walk:0-4294967295}.{walk:1-4294967295}.{walk:1-4294967294}", u64::MAX, u64::MAX),
        ] {
            let template: Template = text.parse().unwrap();
            assert_eq!((template.distinct(), template.names()), (distinct, names), "{text}");
        }
        for (one, other, apart) in [
            ("a{walk:1-2}.test", "b{walk:1-2}.test", true),
            ("a{walk:1-2}.test", "A{walk:1-2}.test", false),
            ("a.test", "{walk:1-2}.test", false),
            ("a.test", "{walk:10-20}.test", true),
            ("{walk:1-2}.test", "{walk:1-2}.a.test", true),
            ("{walk:1-2}.test", "{walk:1-2}.tes", true),
        ] {
            let [left, right]: [Template; 2] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(
                (left.is_apart_from(&right), right.is_apart_from(&left)),
                (apart, apart),
                "{one} {other}"
            );
        }
    }

    #[test]
    fn faults_have_their_place() {
        let long = "a".repeat(63);
        let (label, total) = (format!("2=a.{long}b.test"), format!("{long}.{long}.{long}.{{random:62}}"));
        for (text, at, what) in [
            ("", 1, "an empty label"),
            ("5=", 3, "an empty label"),
            (".test", 1, "an empty label"),
            ("a..b", 3, "an empty label"),
            ("half=a.test", 1, "the share before '=' must be a whole number from 1 to 10000: 'half'"),
            ("0=a", 1, "the share"),
            ("10001=a", 1, "the share"),
            ("a.tést", 4, "printable ASCII"),
            ("a\\.b", 2, "without backslashes"),
            ("a.{walk:1-3", 3, "'{' without '}'"),
            ("a}.b", 2, "'}' without '{'"),
            ("3=a{wlk:1-3}", 4, "{wlk:1-3} is no placeholder: write {walk:FROM-TO}"),
            ("{}", 1, "{} is no placeholder"),
            ("x{walk:3-1}", 2, "'3-1' ends before it begins"),
            ("x{draw:1}", 2, "'1' is no range of numbers"),
            ("{walk:+1-3}", 1, "is no range"),
            ("{walk:0-4294967296}", 1, "from 0 to 4294967295"),
            ("{walk:00000000001-2}", 1, "is no range"),
            ("{random:0}", 1, "{random:0} needs a number of octets from 1 to 63"),
            ("{random:64}", 1, "from 1 to 63"),
            ("a.{random:60}{walk:1-1000}", 3, "a label of up to 64 octets: at most 63"),
            (label.as_str(), 5, "a label of up to 64 octets"),
            (total.as_str(), 1, "a name of up to 256 octets: at most 255 are allowed"),
            ("a.test  QUAD", 9, "'QUAD' is no query type"),
            ("a.test A AAAA", 8, "'A AAAA' is no query type"),
            (" a.test", 1, "an empty label"),
        ] {
            let error = text.parse::<Template>().unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(what), "{text}: {error}");
        }
        let full: Template = format!("9={long}.{long}.{long}.{{random:61}} TYPE65").parse().unwrap();
        assert_eq!((full.longest_name().len(), full.share(), full.qtype()), (255, 9, Some(65)));
    }

    fn any_template() -> impl Strategy<Value = String> {
        let placeholder = prop_oneof![
            (0u32..2000, 0u32..2000).prop_map(|(from, to)| format!("{{walk:{from}-{to}}}")),
            any::<(u32, u32)>().prop_map(|(from, to)| format!("{{draw:{from:010}-{to}}}")),
            (0u8..66).prop_map(|octets| format!("{{random:{octets}}}")),
        ];
        let piece = prop_oneof![3 => placeholder, 3 => "[a-z.]{1,20}", 1 => "[ -~]{1,4}", 1 => ".{0,3}"];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_template_is_refused_or_makes_valid_names(text in any_template(), seed: u64, k: u64) {
            match text.parse::<Template>() {
                Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.at), "{}", error),
                Ok(template) => {
                    let mut wire = [0; NAME_LENGTH_MAX];
                    let length = template.write(seed, k, &mut wire);
                    let (_, end) = Name::parse(&wire[..length], 0).unwrap();
                    prop_assert_eq!(end, length);
                    prop_assert!(length <= template.longest_name().len());
                    let mut again = [0; NAME_LENGTH_MAX];
                    prop_assert_eq!(template.write(seed, k, &mut again), length);
                    prop_assert_eq!(wire, again);
                }
            }
        }

        #[test]
        fn certainly_different_names_are(
            text in "(\\{walk:0-[1-9]\\}|\\{draw:1-3\\}|\\{random:(1|13)\\}|\\.a|b){1,5}",
            start in 0u64..1 << 40
        ) {
            let Ok(template) = text.parse::<Template>() else { return Ok(()) };
            let asked = template.distinct().min(500);
            let names: std::collections::HashSet<String> =
                (start..start + asked).map(|k| name(&text, k)).collect();
            prop_assert_eq!(names.len() as u64, asked);
        }
    }
}
