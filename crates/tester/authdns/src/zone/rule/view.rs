//! One zone as one question sees it: with the names in the question's spelling.

use dns64::wire::Name;

use super::Rule;
use super::cut::{Cut, Tree};
use super::fixed::Fixed;
use super::node::Node;
use crate::zone::ZoneConfig;

/// The zone that a question's name lies in.
pub struct View<'r> {
    pub(super) rule: &'r Rule,
    pub(super) cut: &'r Cut,
    /// The apex, spelled as in the question, so that every name of the answer can be compressed into it.
    pub(super) apex: Name,
}

impl<'r> View<'r> {
    /// The view of a question for `name`; `None` where it lies in none of the zones.
    pub fn new(rule: &'r Rule, name: &Name) -> Option<Self> {
        rule.cuts.iter().find_map(|cut| Some(Self { rule, cut, apex: name.ending(&cut.apex)? }))
    }

    /// What a name of this zone is.
    pub(super) fn node(&self, name: &Name) -> Node<'r> {
        match self.cut.tree {
            Tree::Forward => self.forward_node(name),
            Tree::In4 { octets } => self.in4_node(name, octets),
            Tree::In6 => self.in6_node(name),
        }
    }

    /// The suffix, in the question's spelling where it stands there.
    pub(super) fn suffix(&self) -> Name {
        match self.cut.tree {
            Tree::Forward => self.apex,
            _ => self.rule.suffix,
        }
    }

    pub(super) fn config(&self) -> &'r ZoneConfig {
        &self.rule.config
    }

    pub(super) fn fixed(&self) -> &'r Fixed {
        &self.rule.fixed
    }

    /// How many labels a name of this zone has more than the apex.
    pub(super) fn depth(&self, name: &Name) -> usize {
        name.labels().count() - self.cut.labels
    }
}
