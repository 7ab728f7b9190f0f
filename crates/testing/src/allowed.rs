//! The list of what may be skipped where everything is required.

use std::collections::BTreeSet;

/// The keys of the list. A line of it is `always KEY: REASON` or `sometimes KEY: REASON`; what is always
/// skipped and then is not is an entry too many, as `tests/run` says.
pub struct Allowed<'t>(BTreeSet<&'t str>);

impl<'t> Allowed<'t> {
    /// Reads the list; what is no entry allows nothing.
    pub fn parse(text: &'t str) -> Self {
        Self(text.lines().filter_map(entry).collect())
    }

    /// Whether this may be skipped.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn entry(line: &str) -> Option<&str> {
    let (when, rest) = line.split_once(' ')?;
    let (key, reason) = rest.split_once(": ")?;
    (["always", "sometimes"].contains(&when) && !reason.trim().is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_when_what_and_why() {
        let text = "# always comment: no\n\nalways program x: Debian has none\nsometimes busy machine: others\n\
                    never y: z\nalways reasonless: \nalways wordless\n";
        let allowed = Allowed::parse(text);
        assert!(allowed.contains("program x") && allowed.contains("busy machine"));
        assert_eq!(allowed.len(), 2);
        assert!(!allowed.contains("x") && !allowed.contains("y") && !allowed.contains("reasonless"));
    }
}
