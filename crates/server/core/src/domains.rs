//! Domains and what lies below them.
//!
//! Both kinds are a tree of labels, walked from the root down. A look-up takes one step for each label that
//! is in the tree, allocates nothing, and ends at the first label that is not there.

use std::collections::HashMap;

use dns64::wire::Name;

/// A set of domains; each stands for itself and for all names below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains(Tree<()>);

/// Which group of upstream servers the names below a domain belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(Tree<usize>);

impl Domains {
    /// Adds a domain.
    pub fn insert(&mut self, name: &Name) {
        self.0.insert(name, ());
    }

    /// Whether the name is one of the domains or lies below one, whatever the case.
    pub fn covers(&self, name: &Name) -> bool {
        self.0.longest(name).is_some()
    }

    /// Whether there is no domain.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Name> for Domains {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut domains = Self::default();
        names.into_iter().for_each(|name| domains.insert(&name));
        domains
    }
}

impl Routes {
    /// Adds a domain. The same domain again takes the place of the first.
    pub fn insert(&mut self, name: &Name, group: usize) {
        self.0.insert(name, group);
    }

    /// The group of the longest domain that the name lies in, whatever the case; 0 without one.
    pub fn group_of(&self, name: &Name) -> usize {
        self.0.longest(name).copied().unwrap_or(0)
    }

    /// Whether the name lies in a domain other than the root.
    pub fn is_named(&self, name: &Name) -> bool {
        self.0.longest_below(name, None).is_some()
    }

    /// Whether there is no domain.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A name has at most so many labels besides the root: one octet and its length for each (RFC 1035 2.3.4).
const LABELS_MAX: usize = 127;

/// What is known of a domain, and the domains right below it by their first label in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tree<T> {
    value: Option<T>,
    below: HashMap<Box<[u8]>, Tree<T>>,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { value: None, below: HashMap::new() }
    }
}

impl<T> Tree<T> {
    fn insert(&mut self, name: &Name, value: T) {
        let name = name.to_lowercase();
        let mut labels: Vec<&[u8]> = name.labels().collect();
        let mut at = self;
        while let Some(label) = labels.pop() {
            at = at.below.entry(label.into()).or_default();
        }
        at.value = Some(value);
    }

    /// The value of the longest domain that the name lies in.
    fn longest(&self, name: &Name) -> Option<&T> {
        self.longest_below(name, self.value.as_ref())
    }

    /// The value of the longest domain other than the root that the name lies in; `found` without one.
    fn longest_below<'t>(&'t self, name: &Name, mut found: Option<&'t T>) -> Option<&'t T> {
        if self.below.is_empty() {
            return found;
        }
        let name = name.to_lowercase();
        let wire = name.as_wire();
        // Where the labels begin, each after its length octet.
        let mut starts = [0u8; LABELS_MAX];
        let mut count = 0;
        let mut start = 1;
        for (place, label) in starts.iter_mut().zip(name.labels()) {
            *place = start as u8;
            start += label.len() + 1;
            count += 1;
        }
        let mut at = self;
        for &start in starts[..count].iter().rev() {
            let start = usize::from(start);
            let label = &wire[start..start + usize::from(wire[start - 1])];
            let Some(next) = at.below.get(label) else { break };
            at = next;
            found = at.value.as_ref().or(found);
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.value.is_none() && self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    #[test]
    fn a_domain_covers_itself_and_what_lies_below_in_any_case() {
        let domains: Domains = ["Example.com", "b.example"].map(name).into_iter().collect();
        for covered in ["example.com", "EXAMPLE.COM", "a.b.c.example.Com", "B.EXAMPLE", "a.b.example"] {
            assert!(domains.covers(&name(covered)), "{covered}");
        }
        for other in ["com", "myexample.com", "example.com.net", "example", "a.example", "."] {
            assert!(!domains.covers(&name(other)), "{other}");
        }
    }

    #[test]
    fn the_root_covers_all_and_an_empty_set_nothing() {
        let mut domains = Domains::default();
        assert!(domains.is_empty() && !domains.covers(&name("a")) && !domains.covers(&Name::ROOT));
        domains.insert(&Name::ROOT);
        assert!(!domains.is_empty() && domains.covers(&name("a")) && domains.covers(&Name::ROOT));
    }

    #[test]
    fn the_longest_domain_has_the_route() {
        let mut routes = Routes::default();
        assert!(routes.is_empty());
        assert_eq!(routes.group_of(&name("a.example.com")), 0);
        for (domain, group) in [("example.com", 1), ("b.a.Example.com", 2), ("com", 3), ("net", 4)] {
            routes.insert(&name(domain), group);
        }
        for (asked, group) in [
            ("example.com", 1),
            ("a.example.com", 1),
            ("B.A.EXAMPLE.COM", 2),
            ("x.b.a.example.com", 2),
            ("org.com", 3),
            ("net", 4),
            ("org", 0),
            (".", 0),
        ] {
            assert_eq!(routes.group_of(&name(asked)), group, "{asked}");
        }
        assert!(!routes.is_empty());
    }

    #[test]
    fn a_name_of_the_most_labels_is_looked_up() {
        let long = name(&"a.".repeat(LABELS_MAX));
        assert_eq!(long.labels().count(), LABELS_MAX);
        let domains: Domains = [long].into_iter().collect();
        assert!(domains.covers(&long));
        assert!(!domains.covers(&long.parent().unwrap()));
    }

    proptest! {
        #[test]
        fn the_tree_says_what_a_list_of_domains_says(
            domains in prop::collection::vec("([abA]\\.){0,4}", 0..12),
            asked in "([abB]\\.){0,6}",
        ) {
            let domains: Vec<Name> = domains.iter().map(|text| name(text)).collect();
            let asked = name(&asked);
            let set: Domains = domains.iter().copied().collect();
            prop_assert_eq!(set.covers(&asked), domains.iter().any(|domain| asked.is_under(domain)));
            let mut routes = Routes::default();
            for (group, domain) in domains.iter().enumerate() {
                routes.insert(domain, group + 1);
            }
            let longest = domains.iter().enumerate()
                .filter(|(_, domain)| asked.is_under(domain))
                .max_by_key(|(group, domain)| (domain.as_wire().len(), *group));
            prop_assert_eq!(routes.group_of(&asked), longest.map_or(0, |(group, _)| group + 1));
        }
    }
}
