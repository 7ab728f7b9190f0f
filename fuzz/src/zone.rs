//! Any text as the AuthDNS' file of records: it becomes a zone that answers, or an error with its line.
//!
//! The first octet of an input chooses the rules beside the file, a bit for each; `@` is none and `_` all.

use authdns::{RecordsFile, Rules, TCP_ANSWER_OCTETS_MAX, Transport, Zone, ZoneConfig, ZoneError};
use domain::base::iana::Rtype;
use domain::base::{MessageBuilder, Name};

use super::judge;

const SUFFIX: &str = "dns64perf.test";
/// Names of a file that are asked for.
const NAMES_MAX: usize = 16;
const TYPES: [Rtype; 6] = [Rtype::A, Rtype::AAAA, Rtype::TXT, Rtype::MX, Rtype::DNAME, Rtype::ANY];

/// Reads the text and asks the zone for what stands in it.
pub fn run(input: &[u8]) {
    let Some((&choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let rule = |bit: u8| choice >> bit & 1 != 0;
    let rules =
        Rules { short: rule(0), wildcard: rule(1), chains: rule(2), types: rule(3), reverse: rule(4) };
    let config = ZoneConfig {
        names: "10.0.0.0/8".parse().ok(),
        rules,
        records: Some(RecordsFile { name: "records".into(), text: text.into() }),
        ..ZoneConfig::default()
    };
    match Zone::new(config) {
        Ok(zone) => ask(&zone, text),
        Err(ZoneError::Records(error)) => {
            assert!(
                (1..=text.lines().count() + 1).contains(&error.line),
                "line {}: {}",
                error.line,
                error.reason
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Asks for the first word of each line, below the suffix and as it is.
fn ask(zone: &Zone, text: &str) {
    let words = text.lines().filter_map(|line| line.split_whitespace().next()).take(NAMES_MAX);
    for word in words {
        for name in [format!("{word}.{SUFFIX}"), word.to_owned(), format!("x.{word}.{SUFFIX}")] {
            let Ok(name) = name.parse::<Name<Vec<u8>>>() else { continue };
            for rtype in TYPES {
                ask_for(zone, &name, rtype);
            }
        }
    }
}

fn ask_for(zone: &Zone, name: &Name<Vec<u8>>, rtype: Rtype) {
    let mut query = MessageBuilder::new_vec().question();
    query.push((name, rtype)).expect("room for a question");
    let query = query.finish();
    let mut answer = [0; TCP_ANSWER_OCTETS_MAX];
    let octets = zone.respond(&query, Transport::Tcp, &mut answer);
    assert!(octets > 0, "a question has an answer");
    judge::records(&answer[..octets]);
}
