//! The AuthDNS beside NSD, Knot (on sockets and with AF_XDP), BIND and YADIFA, in one lab and one run:
//! `make bench-auth`.
//!
//! Everything is interleaved and repeated; medians are shown with the lowest and the highest value. It needs
//! root, two processors and the Debian packages nsd, knot, bind9 and yadifa, takes about 25 minutes, and
//! writes its record and the document.

mod certificate;
mod load;
mod place;
mod rates;
mod sizes;
#[path = "../tester/text.rs"]
mod text;
mod usage;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use figures::Program;
use figures::auth::{Record, block};
use load::Question;
use place::{Placement, Subject};

/// What was asked for on the command line.
struct Arguments {
    rounds: usize,
    /// The document that is written, with its record beside it; `None`: standard output.
    out: Option<String>,
    /// Only render the record beside the document.
    render: bool,
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
const USAGE: &str = "usage: [--rounds N] [--quick] [--names-max 2^16..2^27] [--certificate FILE] [--out FILE [--render]] [rates|types|sizes]...";

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
    let mut arguments = Arguments {
        rounds: 3,
        out: None,
        render: false,
        names_max_bits: 20,
        certificate: None,
        sections: Vec::new(),
    };
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
            "--render" => arguments.render = true,
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
    if arguments.render {
        return text::render(arguments.out.as_deref(), block);
    }
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
    let certificate = arguments.certificate.as_deref().map(certificate::read).transpose()?;
    let record = Record {
        origin: text::origin(),
        programs: programs(&place),
        rounds: arguments.rounds,
        other_rounds: arguments.rounds.min(OTHER_ROUNDS_MAX),
        receive_buffers: place.receive_buffers(),
        aaaa: aaaa.into_iter().map(|row| row.measured).collect(),
        half_nodata: half.into_iter().map(|row| row.measured).collect(),
        sizes: sizes.into_iter().map(|row| row.measured).collect(),
        certificate,
        missing: Subject::ALL.into_iter().filter_map(|subject| place.missing(subject)).collect(),
    };
    text::write(arguments.out.as_deref(), &record, block)
}

/// The servers with their versions, the AuthDNS once.
fn programs(place: &Placement) -> Vec<Program> {
    let peers = Subject::ALL.into_iter().filter(|subject| !subject.is_ours());
    let peers = peers.map(|subject| Program { name: subject.name(), version: place.version(subject) });
    let ours = Program { name: "sextant".into(), version: env!("CARGO_PKG_VERSION").into() };
    std::iter::once(ours).chain(peers).collect()
}
