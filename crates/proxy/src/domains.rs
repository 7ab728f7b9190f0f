//! Domains and what lies below them.

use dns64::wire::Name;

/// A set of domains; each stands for itself and for all names below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains(Vec<Name>);

/// Which group of upstream servers the names below a domain belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(Vec<(Name, usize)>);

impl Domains {
    /// Adds a domain.
    pub fn insert(&mut self, name: &Name) {
        self.0.push(*name);
    }

    /// Whether the name is one of the domains or lies below one, whatever the case.
    pub fn covers(&self, name: &Name) -> bool {
        self.0.iter().any(|domain| name.is_under(domain))
    }
}

impl Routes {
    /// Adds a domain.
    pub fn insert(&mut self, name: &Name, group: usize) {
        self.0.push((*name, group));
    }

    /// The group of the longest domain that the name lies in; 0 without one.
    pub fn group_of(&self, name: &Name) -> usize {
        let matches = self.0.iter().filter(|(domain, _)| name.is_under(domain));
        matches.max_by_key(|(domain, _)| domain.as_wire().len()).map_or(0, |&(_, group)| group)
    }
}
