//! The AuthDNS beside NSD, Knot (on sockets and with AF_XDP), BIND and YADIFA, in one lab and one run:
//! `make bench-auth`.
//!
//! Everything is interleaved and repeated; medians are shown with the lowest and the highest value. It needs
//! root, two processors and the Debian packages nsd, knot, bind9 and yadifa, takes about 25 minutes, and
//! writes Markdown.

mod goals;
mod load;
mod place;
mod rates;
mod sizes;
#[path = "../tester/table.rs"]
mod table;
#[path = "../tester/text.rs"]
mod text;
mod usage;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use load::Question;
use place::{Placement, Subject};

/// What was asked for on the command line.
struct Arguments {
    rounds: usize,
    /// The file whose text between the markers is replaced; `None`: standard output.
    out: Option<String>,
    /// Peers load up to so many names, as a power of two.
    names_max_bits: u8,
    /// A certificate of the self-test.
    certificate: Option<PathBuf>,
    /// Sections to measure; all if there are none.
    sections: Vec<String>,
}

/// Other types, start and memory are measured so often at most: they vary less than the time they take is
/// worth.
const OTHER_ROUNDS_MAX: usize = 1;
const SECTIONS: [&str; 3] = ["rates", "types", "sizes"];
const USAGE: &str = "usage: [--rounds N] [--quick] [--names-max 2^16..2^27] [--certificate FILE] [--out FILE] [rates|types|sizes]...";

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-auth: {error}");
            ExitCode::from(3)
        }
    }
}

fn arguments() -> io::Result<Arguments> {
    let mut arguments =
        Arguments { rounds: 3, out: None, names_max_bits: 20, certificate: None, sections: Vec::new() };
    let wrong = |word: &str| io::Error::other(format!("'{word}': {USAGE}"));
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| wrong(&word));
        match word.as_str() {
            "--bench" => {}
            // One round with the smallest zones: whether everything runs, not how fast.
            "--quick" => (arguments.rounds, arguments.names_max_bits) = (1, 18),
            "--rounds" => {
                arguments.rounds = value()?.parse().ok().filter(|&n| n > 0).ok_or_else(|| wrong(&word))?;
            }
            "--out" => arguments.out = Some(value()?),
            "--names-max" => {
                let bits = value()?.trim_start_matches("2^").parse().ok();
                arguments.names_max_bits =
                    bits.filter(|bits| (16..=27).contains(bits)).ok_or_else(|| wrong(&word))?;
            }
            "--certificate" => arguments.certificate = Some(value()?.into()),
            section if SECTIONS.contains(&section) => arguments.sections.push(section.to_owned()),
            other => return Err(wrong(other)),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let place = Placement::new()?;
    let wanted = |section: &str| {
        arguments.sections.is_empty() || arguments.sections.iter().any(|wanted| wanted == section)
    };
    let rows_if = |section, question| if wanted(section) { rates::rows(question) } else { Vec::new() };
    let mut aaaa = rows_if("rates", Question::Aaaa);
    let mut half = rows_if("types", Question::HalfNoData);
    let mut sizes = if wanted("sizes") { sizes::rows(arguments.names_max_bits) } else { Vec::new() };
    for round in 1..=arguments.rounds {
        eprintln!("round {round} of {}", arguments.rounds);
        rates::round(&place, &mut aaaa)?;
        if round <= OTHER_ROUNDS_MAX {
            rates::round(&place, &mut half)?;
            sizes::round(&place, &mut sizes)?;
        }
    }
    let mut out = format!("{}\n", conditions(&place, arguments.rounds));
    if wanted("rates") {
        out += &format!("## Answered queries, one worker\n\n{}\n", rates::rendered(&aaaa));
    }
    if wanted("types") {
        out += &format!("## Half of the answers are NODATA\n\n{}\n", rates::rendered(&half));
    }
    if wanted("sizes") {
        out += &format!("## Start and memory\n\n{}\n", sizes::rendered(&sizes));
    }
    let goals = goals::rendered(&aaaa, &sizes, arguments.certificate.as_deref())?;
    out += &format!("## The goals, and how far they are reached\n\n{goals}");
    text::write(arguments.out.as_deref(), &out)
}

/// The machine and the programs, in one paragraph.
fn conditions(place: &Placement, rounds: usize) -> String {
    let peers: Vec<String> = Subject::ALL
        .into_iter()
        .filter(|subject| !subject.is_ours())
        .map(|subject| format!("{} {}", subject.name(), place.version(subject)))
        .collect();
    let missing: Vec<String> =
        Subject::ALL.into_iter().filter_map(|subject| place.missing(subject)).collect();
    let missing =
        if missing.is_empty() { String::new() } else { format!(" SKIPPED: {}.", missing.join("; ")) };
    format!(
        "{}; sextant {}, {}. Median (lowest-highest) of {rounds} rounds; of \
         the loss-free rate, other types, start and memory of {}.{missing}\n",
        text::machine(),
        env!("CARGO_PKG_VERSION"),
        peers.join(", "),
        rounds.min(OTHER_ROUNDS_MAX),
    )
}
