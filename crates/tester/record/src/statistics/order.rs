//! In which order to measure what is to be compared.

/// One of two things that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

/// So many measurements of either side in blocks of A B B A: within each block the sides are at the same time
/// on average, so that a drift of the machine meets both alike.
pub fn abba(each: usize) -> impl Iterator<Item = Side> {
    use Side::{A, B};
    (0..2 * each).map(|index| [A, B, B, A][index % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_equally_many_and_equally_late() {
        for each in 0..9 {
            let count = |side| abba(each).filter(|&other| other == side).count();
            assert_eq!((count(Side::A), count(Side::B)), (each, each));
        }
        let late = |side| abba(6).zip(0..).filter(|&(other, _)| other == side).map(|(_, at)| at).sum::<u32>();
        assert_eq!(late(Side::A), late(Side::B));
    }
}
