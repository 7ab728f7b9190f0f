//! The charts of the report, each a function from the record to a drawing, or nothing where there is no data.

mod answers;
mod identifiers;
mod latency;
mod losses;
mod pacing;
mod processors;
mod rates;
mod search;
mod series;

pub use answers::answers;
pub use identifiers::{Field, identifiers};
pub use latency::latency;
pub use losses::losses;
pub use pacing::pacing;
pub use processors::processors;
pub use rates::rates;
pub use search::search;
pub use series::{PARTS_MIN, series};

/// Runs that are drawn at most; all are in the tables.
pub const RUNS: usize = 200;
/// Marks of one kind that a chart holds at most.
const MARKS: usize = 500;

/// A number of something between two places.
struct Span {
    from: f64,
    to: f64,
    number: u64,
}

/// Moves labels apart so that they do not cover each other, keeping their order.
fn spread(places: &mut [f64], gap: f64, top: f64, bottom: f64) {
    places.sort_by(f64::total_cmp);
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + gap);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit).max(top);
        limit = *place - gap;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_move_apart_within_the_frame() {
        let mut places = [100.0, 99.0, 101.0];
        super::spread(&mut places, 15.0, 0.0, 120.0);
        assert_eq!(places, [90.0, 105.0, 120.0]);
    }
}
