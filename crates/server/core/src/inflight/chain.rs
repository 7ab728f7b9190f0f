//! Lists of slots: each slot stands in one list at most, and is added, removed and found without a search.

/// The number that means no slot.
const NONE: u32 = u32::MAX;

/// The links of all slots.
#[derive(Debug)]
pub struct Links(Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// The ends of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// The first slot.
    pub fn first(&self) -> Option<usize> {
        some(self.first)
    }

    /// The last slot.
    pub fn last(&self) -> Option<usize> {
        some(self.last)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Links {
    /// The links of `slots` slots, none of them in a list; fewer than 2^32 - 1.
    pub fn new(slots: usize) -> Self {
        Self(vec![Link { previous: NONE, next: NONE }; slots])
    }

    /// The slot after this one in its list.
    pub fn next(&self, slot: usize) -> Option<usize> {
        some(self.0[slot].next)
    }

    /// The slot before this one in its list.
    pub fn previous(&self, slot: usize) -> Option<usize> {
        some(self.0[slot].previous)
    }

    /// Adds a slot, which is in no list, at the end.
    pub fn append(&mut self, list: &mut List, slot: usize) {
        self.insert(list, list.last(), slot);
    }

    /// Adds a slot, which is in no list, after one of the list, or as the first.
    pub fn insert(&mut self, list: &mut List, after: Option<usize>, slot: usize) {
        let number = slot as u32;
        let next = match after {
            Some(after) => std::mem::replace(&mut self.0[after].next, number),
            None => std::mem::replace(&mut list.first, number),
        };
        self.0[slot] = Link { previous: after.map_or(NONE, |after| after as u32), next };
        match some(next) {
            Some(next) => self.0[next].previous = number,
            None => list.last = number,
        }
    }

    /// Takes a slot out of its list.
    pub fn remove(&mut self, list: &mut List, slot: usize) {
        let Link { previous, next } = self.0[slot];
        match some(previous) {
            Some(previous) => self.0[previous].next = next,
            None => list.first = next,
        }
        match some(next) {
            Some(next) => self.0[next].previous = previous,
            None => list.last = previous,
        }
    }
}

fn some(number: u32) -> Option<usize> {
    (number != NONE).then_some(number as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slots(links: &Links, list: &List) -> Vec<usize> {
        std::iter::successors(list.first(), |&slot| links.next(slot)).collect()
    }

    proptest! {
        /// Two lists over the same slots hold what was put into them, in order.
        #[test]
        fn lists_keep_their_order(steps in prop::collection::vec((0usize..8, 0usize..2, 0usize..9), 0..100)) {
            let mut links = Links::new(8);
            let mut lists = [List::default(); 2];
            let mut model: [Vec<usize>; 2] = Default::default();
            for (slot, which, at) in steps {
                match model.iter().position(|list| list.contains(&slot)) {
                    Some(at) => {
                        links.remove(&mut lists[at], slot);
                        model[at].retain(|&kept| kept != slot);
                    }
                    None if at < model[which].len() => {
                        let after = at.checked_sub(1).map(|before| model[which][before]);
                        links.insert(&mut lists[which], after, slot);
                        model[which].insert(at, slot);
                    }
                    None => {
                        links.append(&mut lists[which], slot);
                        model[which].push(slot);
                    }
                }
                for (list, model) in lists.iter().zip(&model) {
                    prop_assert_eq!(&slots(&links, list), model);
                    prop_assert_eq!(list.is_empty(), model.is_empty());
                    prop_assert_eq!(list.last(), model.last().copied());
                    let backwards = std::iter::successors(list.last(), |&slot| links.previous(slot));
                    prop_assert!(backwards.eq(model.iter().rev().copied()));
                }
            }
        }
    }
}
