//! Patterns of names.

use std::fmt;

use dns64::wire::{NAME_LENGTH_MAX, Name};

/// A name in which each `*` stands for any number of characters, dots among them; case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[u8]>);

impl Pattern {
    /// Reads a pattern, a dot at its end may be left out; `None` where no name of a zone could match.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_name = |octet: u8| octet.is_ascii_alphanumeric() || b"*-_.".contains(&octet);
        let fits = (1..NAME_LENGTH_MAX).contains(&text.len()) && text.bytes().all(is_name);
        (fits && !text.contains("..")).then(|| Self(text.to_ascii_lowercase().into_bytes().into()))
    }

    /// Whether a name matches.
    pub fn matches(&self, name: &Name) -> bool {
        let mut text = [0; NAME_LENGTH_MAX];
        let mut length = 0;
        for label in name.labels() {
            text[length..length + label.len()].copy_from_slice(label);
            length += label.len();
            text[length] = b'.';
            length += 1;
        }
        let text = &mut text[..length.saturating_sub(1)];
        text.make_ascii_lowercase();
        matches(&self.0, text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// Only the last star is ever tried again: an earlier one that takes more gains nothing. So the time is
/// bounded by the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star_at, taken)) = star {
            (p, t) = (star_at + 1, taken + 1);
            star = Some((star_at, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&octet| octet == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let is = |pattern: &str, name: &str| {
            Pattern::new(pattern).unwrap().matches(&Name::from_text(name).unwrap())
        };
        assert!(is("*.bad.Test", "a.b.BAD.test.") && is("bad.test", "bad.test"));
        assert!(!is("*.bad.test", "bad.test") && !is("bad.test", "a.bad.test"));
        assert!(is("010-*-007.*", "010-000-000-007.dns64perf.test"));
        assert!(is("*7*", "010-000-000-007.test") && is("a*a*b", "aaxab") && !is("a*a*b", "ab"));
        assert!(is("*", "x") && !is("x", "."));
        let worst = format!("{}b", "*a".repeat(100));
        assert!(!is(&worst, &["a".repeat(60), "a".repeat(60), "a".repeat(60)].join(".")));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ".", "a b", "a..b", "ä", "a/b"] {
            assert_eq!(Pattern::new(text), None, "{text}");
        }
        assert_eq!(Pattern::new(&"a".repeat(255)), None);
    }
}
