//! An answer, and the faults that were applied to it.

use super::Kinds;
use crate::zone::Answer;

/// What is to be done with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The answer at the start of the buffer.
    pub answer: Answer,
    /// How often it is to be sent; 0 means that it is lost.
    pub copies: u8,
    /// How long it has to wait before, in ns.
    pub delay_ns: u64,
    /// The faults that befell it.
    pub faults: Kinds,
}

impl Reply {
    /// An answer that leaves at once and as it is.
    pub fn plain(answer: Answer) -> Self {
        Self { answer, copies: 1, delay_ns: 0, faults: Kinds::default() }
    }

    /// Whether it leaves once and at once.
    pub(crate) fn is_prompt(&self) -> bool {
        self.copies == 1 && self.delay_ns == 0
    }
}
