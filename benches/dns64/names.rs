//! Names of random lengths, for queries that cannot be joined into one message to the kernel.

use std::io;
use std::sync::Arc;

use dns64::wire::{CLASS_IN, Name, rtype};
use engine::workload::{Arena, Choice, Recording, WorkloadSpec, shuffled};

/// So many queries for names of the range from `first_name` on, in a random order, as `1-2-3-4` below the
/// suffix; of each hundred so many as the first number of `hot` says ask one of its second number of names
/// before those. The second result is how many new names there are.
///
/// # Errors
/// A suffix that is too long.
pub fn recorded(
    spec: &WorkloadSpec,
    first_name: u64,
    queries: u64,
    (cached_pct, hot_names): (u8, u64),
) -> io::Result<(Choice, u64)> {
    let mut arena = Arena::with_capacity(queries as usize, queries as usize * 40);
    let mut new_names = 0;
    for query in 0..queries {
        let index = if query % 100 < u64::from(cached_pct) {
            query % hot_names
        } else {
            new_names += 1;
            first_name + new_names - 1
        };
        let [a, b, c, d] = spec.names.address(index % spec.names.size()).octets();
        let name = Name::from_text(&format!("{a}-{b}-{c}-{d}.{}", spec.suffix));
        let mut question = name.map_err(|error| io::Error::other(error.0))?.as_wire().to_vec();
        question.extend(rtype::AAAA.to_be_bytes());
        question.extend(CLASS_IN.to_be_bytes());
        if !arena.push(&question) {
            return Err(io::Error::other("too many queries for one trial"));
        }
    }
    let order = Some(Arc::new(shuffled(arena.len(), first_name)));
    let recording = Recording::Whole { arena: Arc::new(arena), order };
    Ok((Choice::Recorded { recording, whole_messages: false }, new_names))
}
