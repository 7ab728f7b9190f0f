//! How much a measurement says on standard error: chosen once for the whole program, before the first
//! message.

use std::sync::OnceLock;

/// How much is written to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Errors alone.
    Quiet,
    /// What is under way, and each trial in a line.
    #[default]
    Usual,
    /// Each trial with all that is known of it.
    Full,
}

static CHOSEN: OnceLock<Detail> = OnceLock::new();

impl Detail {
    /// Chooses; only the first choice counts.
    pub fn choose(self) {
        let _ = CHOSEN.set(self);
    }

    /// What `-q` and `-v` have chosen for this process.
    pub fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or_default()
    }
}
