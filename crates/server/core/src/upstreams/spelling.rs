//! Whether an upstream server repeats the letter case of names, so that queries can have random case (0x20).

/// So many answers in another spelling in a row, without one in the right spelling between them, and the
/// server has ceased to keep spellings. Somebody who forges them must hit ID and port each time.
const OTHERS_MAX: u8 = 3;

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    known: Known,
    others: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nothing: names are spelled at random, and the first answer tells.
    #[default]
    Nothing,
    /// It keeps spellings: another one is forged, or news of the server.
    Keeps,
    /// It does not: names are spelled as the client did.
    Changes,
}

/// What an answer is worth by its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelled {
    /// It may be the server's.
    Well,
    /// Likewise; the server does not keep spellings, which is news.
    Otherwise,
    /// It may be forged.
    Suspect,
    /// Likewise; it was one too many in a row, and the server's names are spelled at random no longer.
    SuspectAndLast,
}

impl Spelling {
    /// Whether names are spelled at random.
    pub fn is_drawn(&self) -> bool {
        self.known != Known::Changes
    }

    /// Whether answers in another spelling are refused.
    pub fn is_demanded(&self) -> bool {
        self.known == Known::Keeps
    }

    /// Whether it is still to be found out.
    pub fn is_unknown(&self) -> bool {
        self.known == Known::Nothing
    }

    /// Judges an answer: `kept` if it has the spelling that was sent, `tells` if that had upper-case letters.
    pub fn judge(&mut self, kept: bool, tells: bool) -> Spelled {
        match (self.known, kept) {
            (Known::Nothing, true) if tells => self.known = Known::Keeps,
            (Known::Nothing, false) => {
                self.known = Known::Changes;
                return Spelled::Otherwise;
            }
            (Known::Keeps, true) => self.others = 0,
            (Known::Keeps, false) => {
                self.others += 1;
                if self.others < OTHERS_MAX {
                    return Spelled::Suspect;
                }
                self.known = Known::Changes;
                return Spelled::SuspectAndLast;
            }
            (Known::Nothing | Known::Changes, _) => {}
        }
        Spelled::Well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_tells_and_later_ones_are_held_to_it() {
        let mut keeps = Spelling::default();
        assert_eq!(keeps.judge(true, false), Spelled::Well, "no letters, nothing learnt");
        assert!(keeps.is_unknown() && keeps.is_drawn() && !keeps.is_demanded());
        assert_eq!(keeps.judge(true, true), Spelled::Well);
        assert!(keeps.is_demanded());
        for _ in 0..10 {
            assert_eq!(keeps.judge(false, true), Spelled::Suspect);
            assert_eq!(keeps.judge(false, true), Spelled::Suspect);
            assert_eq!(keeps.judge(true, true), Spelled::Well);
        }
        let mut changes = Spelling::default();
        assert_eq!(changes.judge(false, true), Spelled::Otherwise);
        assert!(!changes.is_drawn());
        assert_eq!(changes.judge(false, true), Spelled::Well);
    }

    #[test]
    fn a_server_that_ceases_to_keep_spellings_is_understood() {
        let mut spelling = Spelling::default();
        spelling.judge(true, true);
        let judged = [(); 3].map(|()| spelling.judge(false, true));
        assert_eq!(judged, [Spelled::Suspect, Spelled::Suspect, Spelled::SuspectAndLast]);
        assert!(!spelling.is_drawn());
    }
}
