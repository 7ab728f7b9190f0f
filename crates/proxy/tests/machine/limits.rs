//! Full tables.

use crate::talk::{Asked, Talk, settings_with};

#[test]
fn the_oldest_query_makes_room() {
    let mut talk = Talk::new(settings_with(|settings| settings.in_flight = 2));
    let asked: Vec<Asked> = ["a.example A", "b.example A", "c.example A"]
        .into_iter()
        .map(|words| {
            talk.client_asks(words);
            talk.asked(words)
        })
        .collect();
    assert_eq!((talk.machine.in_flight(), talk.machine.stats().evicted), (2, 1));
    talk.replies(&asked[0], 0, &[]);
    talk.silent();
    for (asked, words) in asked[1..].iter().zip(["b.example A", "c.example A"]) {
        talk.replies(asked, 0, &[]);
        talk.answered(words, 0, &[]);
    }
    talk.over();
}
