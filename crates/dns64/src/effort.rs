//! A limit for the work on the names of one message.
//!
//! A name takes two octets where it is written as a pointer, and up to 127 labels to read. A message can be
//! made so that comparing its names takes a thousand times longer than with other messages.

/// Steps for a message of any length: 16 links and their names cost less.
const STEPS_FREE: usize = 512;
/// Steps for each octet. A label takes two octets at least, and each name is read a few times.
const STEPS_PER_OCTET: usize = 3;

/// Not as many steps are left as were to be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp;

/// The steps that are left: a label or a pointer that is read, or 16 octets that are compared.
#[derive(Debug)]
pub(crate) struct Effort {
    left: usize,
}

impl Effort {
    /// For whoever reads one name, which is bounded by itself.
    pub(crate) const fn of_one_name() -> Self {
        Self { left: usize::MAX }
    }

    /// For a message of so many octets.
    pub(crate) fn of_message(octets: usize) -> Self {
        Self { left: STEPS_FREE + STEPS_PER_OCTET * octets }
    }

    /// Spends steps.
    ///
    /// # Errors
    /// Not as many are left. None is left then.
    #[inline]
    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), UsedUp> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(UsedUp)
            }
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_used_up(&self) -> bool {
        self.left == 0
    }
}
