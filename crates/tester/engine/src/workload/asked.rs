//! What a workload asks, as the record says it.

use std::hash::{DefaultHasher, Hasher};

use dns64::wire::{HEADER_LENGTH, Name};
use record::{FileQuestions, NameChoice, Questions};

use super::types::type_name;
use super::{Activity, Arena, Choice, Recording, WorkloadSpec};

impl WorkloadSpec {
    /// The questions for the record. The names of a file are counted, which takes its whole length.
    pub fn questions(&self) -> Questions {
        let variation = &self.variation;
        let (choice, file) = match &variation.choice {
            Choice::Each => (NameChoice::Each, None),
            Choice::Cached { .. } => (NameChoice::Cached, None),
            Choice::OverAndOver { .. } => (NameChoice::OverAndOver, None),
            Choice::Zipf { .. } => (NameChoice::Zipf, None),
            Choice::RandomLabels => (NameChoice::RandomLabels, None),
            Choice::Generated(_) => (NameChoice::Generated, None),
            Choice::Recorded { recording: Recording::Stream(_), .. } => (NameChoice::File, None),
            Choice::Recorded { recording: Recording::Whole { arena, .. }, whole_messages } => {
                let names = different_names(arena, if *whole_messages { HEADER_LENGTH } else { 0 });
                (NameChoice::File, Some(FileQuestions { queries: arena.len() as u64, names }))
            }
        };
        let mixed = || variation.types.types();
        let (types, templates) = match &variation.choice {
            Choice::Recorded { .. } => (Vec::new(), Vec::new()),
            Choice::Generated(generator) => (generator.types(mixed()), generator.texts()),
            _ => (mixed().collect(), Vec::new()),
        };
        let types = types.into_iter().map(type_name).collect();
        let activity = variation.activity;
        let client_activity = (activity != Activity::InTurn).then(|| activity.to_string());
        Questions { choice, types, agents: variation.agent.agents, file, templates, client_activity }
    }
}

/// How many different names the queries ask, in any case (RFC 4343), by hashes of 64 bits. The name of each
/// query begins at `at`; what holds no name counts as one name.
fn different_names(arena: &Arena, at: usize) -> u64 {
    let hash = |query: &[u8]| {
        let mut hasher = DefaultHasher::new();
        if let Ok((name, _)) = Name::parse(query, at) {
            hasher.write(&name.as_wire().to_ascii_lowercase());
        }
        hasher.finish()
    };
    let mut hashes: Vec<u64> = (0..arena.len()).filter_map(|index| arena.get(index)).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::Variation;
    use crate::workload::tests::workload;

    fn questions(variation: Variation) -> Questions {
        WorkloadSpec { variation, ..workload(0).spec().clone() }.questions()
    }

    #[test]
    fn the_queries_of_rfc_8219_are_the_default() {
        assert_eq!(questions(Variation::default()), Questions::default());
    }

    #[test]
    fn types_have_their_names() {
        let types = "a=1,TYPE65=2,TYPE65280=1".parse().unwrap();
        let asked =
            questions(Variation { types, choice: Choice::Zipf { exponent: 1.0 }, ..Variation::default() });
        let activity = Activity::Zipf { exponent: 1.1 };
        let uneven = questions(Variation { activity, ..Variation::default() });
        assert_eq!(uneven.client_activity.as_deref(), Some("zipf:1.1"));
        assert_eq!(
            (asked.choice, asked.types),
            (NameChoice::Zipf, vec!["A".into(), "HTTPS".into(), "TYPE65280".into()])
        );
    }

    #[test]
    fn templates_stand_as_they_were_written() {
        let templates: Vec<_> =
            ["2={walk:1-2}.test MX", "{random:9}"].map(|text| text.parse().unwrap()).into();
        let generator = crate::workload::Generator::new(templates, 0).unwrap();
        let asked =
            questions(Variation { choice: Choice::Generated(Arc::new(generator)), ..Variation::default() });
        assert_eq!((asked.choice, asked.types), (NameChoice::Generated, vec!["MX".into(), "AAAA".into()]));
        assert_eq!(asked.templates, ["2={walk:1-2}.test MX", "{random:9}"]);
    }

    #[test]
    fn the_names_of_a_file_are_counted_in_any_case() {
        let mut arena = Arena::default();
        for name in ["a.example", "b.example", "A.EXAMPLE"] {
            let mut question = Name::from_text(name).unwrap().as_wire().to_vec();
            question.extend([0, 28, 0, 1]);
            assert!(arena.push(&question));
        }
        let recording = Recording::Whole { arena: Arc::new(arena), order: None };
        let choice = Choice::Recorded { recording, whole_messages: false };
        let asked = questions(Variation { choice, ..Variation::default() });
        assert_eq!(asked.file, Some(FileQuestions { queries: 3, names: 2 }));
        assert!(asked.types.is_empty());
    }
}
