//! The Measurer beside dnsperf, resperf and kxdpgun, in one lab and one run: `make bench-tester`.
//!
//! Everything is interleaved and repeated; medians are shown with the lowest and the highest value. It needs
//! root, two processors and the Debian packages dnsperf, knot-dnsutils and nsd, for the connections also knot
//! and unbound, takes about half an hour, and writes its record and the document.

mod capacity;
mod lanes;
mod pacing;
mod place;
mod replay;
mod stall;
mod standing;
mod streams;
mod text;
mod tools;

use std::io;
use std::process::ExitCode;

use figures::Program;
use figures::tester::{Lanes, Record, Streams, block};
use place::{Placement, Target};
use tools::Tool;

/// What was asked for on the command line.
struct Arguments {
    rounds: usize,
    /// The document that is written, with its record beside it; `None`: standard output.
    out: Option<String>,
    /// Only render the record beside the document.
    render: bool,
    /// Sections to measure; all if there are none.
    sections: Vec<String>,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-tester: {error}");
            ExitCode::from(3)
        }
    }
}

fn arguments() -> io::Result<Arguments> {
    let mut arguments = Arguments { rounds: 5, out: None, render: false, sections: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--bench" => {}
            "--rounds" => arguments.rounds = words.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            "--out" => arguments.out = words.next(),
            "--render" => arguments.render = true,
            section => arguments.sections.push(section.to_owned()),
        }
    }
    if arguments.rounds == 0 {
        return Err(io::Error::other(
            "usage: [--rounds N] [--out FILE [--render]] [capacity|sockets|xdp|nsd|pacing|rates|stall]...\n\
             or: [--rounds N] --out FILE lanes|streams|hold [LANES RATE SECONDS], which leave the rest of the record as it is",
        ));
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> io::Result<()> {
    if arguments.render {
        return text::render(arguments.out.as_deref(), block);
    }
    match arguments.sections.first().map(String::as_str) {
        Some("lanes") => return renew_lanes(arguments),
        Some("hold") => return add_try(arguments),
        Some("streams") => return renew_streams(arguments),
        _ => {}
    }
    let place = Placement::new()?;
    let rounds = arguments.rounds;
    let wanted = |section: &str| {
        arguments.sections.is_empty() || arguments.sections.iter().any(|wanted| wanted == section)
    };
    // What is measured by runs of its own stays.
    let Record { lanes, streams, .. } = recorded(arguments)?;
    let mut record = Record {
        origin: text::origin(),
        programs: programs(&PROGRAMS),
        rounds,
        lanes,
        streams,
        ..Record::default()
    };
    let targets = [("sockets", Target::Sockets), ("xdp", Target::Xdp), ("nsd", Target::Nsd)];
    let targets: Vec<Target> = targets
        .into_iter()
        .filter(|(name, _)| wanted("capacity") || wanted(name))
        .map(|target| target.1)
        .collect();
    if !targets.is_empty() {
        record.capacity = capacity::measure(&place, &targets, &tools(), rounds)?;
    }
    if wanted("pacing") {
        record.evenness = pacing::measure(&place, &pacing_runs(), rounds)?;
    }
    if wanted("rates") {
        record.rates = pacing::measure(&place, &rate_runs(), rounds)?;
    }
    if wanted("stall") {
        record.stall = Some(stall::measure(&place, rounds)?);
    }
    text::write(arguments.out.as_deref(), &record, block)
}

/// Measures the lanes anew; the tries stay, for they are of many hours.
fn renew_lanes(arguments: &Arguments) -> io::Result<()> {
    let (mut record, origin) = (recorded(arguments)?, text::origin());
    let tries = record.lanes.take().map(|lanes| lanes.tries).unwrap_or_default();
    let measured = lanes::measure(arguments.rounds)?;
    record.lanes = Some(Lanes { origin, rounds: arguments.rounds, tries, ..measured });
    text::write(arguments.out.as_deref(), &record, block)
}

/// Measures the connections anew.
fn renew_streams(arguments: &Arguments) -> io::Result<()> {
    let (mut record, origin) = (recorded(arguments)?, text::origin());
    record.streams =
        Some(Streams { origin, ..streams::measure(arguments.rounds, programs(&PROGRAMS_OF_STREAMS))? });
    text::write(arguments.out.as_deref(), &record, block)
}

/// Tries to hold a rate and adds the try to the record, however it ends.
fn add_try(arguments: &Arguments) -> io::Result<()> {
    let mut record = recorded(arguments)?;
    let numbers = arguments.sections[1..].iter().map(|word| word.replace('_', "").parse::<u64>().ok());
    let [Some(lanes), Some(rate_qps), Some(duration_s)] = numbers.collect::<Vec<_>>()[..] else {
        return Err(io::Error::other(
            "hold needs the number of lanes, the rate in q/s and the length in seconds",
        ));
    };
    let tried = lanes::hold(lanes as usize, rate_qps, duration_s)?;
    eprintln!("{tried:?}");
    record.lanes.get_or_insert_default().tries.push(tried);
    text::write(arguments.out.as_deref(), &record, block)
}

/// The record so far.
fn recorded(arguments: &Arguments) -> io::Result<Record> {
    arguments.out.as_deref().map_or_else(|| Ok(Record::default()), text::read)
}

fn tools() -> Vec<Tool> {
    let ours = ["udp", "gso", "xdp", "kernel"].map(Tool::Sextant);
    ours.into_iter().chain([Tool::Dnsperf, Tool::Kxdpgun(10)]).collect()
}

fn pacing_runs() -> Vec<(Tool, Target, u64)> {
    let mut runs = Vec::new();
    for rate_qps in [50_000, 100_000, 200_000] {
        for tool in
            [Tool::Sextant("udp"), Tool::Sextant("kernel"), Tool::Dnsperf, Tool::Resperf, Tool::Kxdpgun(1)]
        {
            runs.push((tool, Target::Sockets, rate_qps));
        }
    }
    for rate_qps in [100_000, 1_000_000, 2_000_000] {
        runs.push((Tool::Sextant("kernel"), Target::Xdp, rate_qps));
    }
    runs
}

fn rate_runs() -> Vec<(Tool, Target, u64)> {
    let rates = [70_000, 105_000, 150_000];
    let tools = [Tool::Sextant("udp"), Tool::Sextant("kernel"), Tool::Dnsperf, Tool::Kxdpgun(1)];
    rates.iter().flat_map(|&rate| tools.map(|tool| (tool, Target::Sockets, rate))).collect()
}

/// What measures and is measured with datagrams.
const PROGRAMS: [&str; 4] = ["sextant", "dnsperf", "kxdpgun", "NSD"];
/// The same with connections.
const PROGRAMS_OF_STREAMS: [&str; 6] = ["sextant", "dnsperf", "kxdpgun", "NSD", "Unbound", "Knot"];

/// Programs with their versions.
fn programs(names: &[&str]) -> Vec<Program> {
    let version = |program: &str, argument: &str, at: usize| {
        let output = std::process::Command::new(program).arg(argument).output();
        let text = output.map_or_else(
            |_| String::new(),
            |output| {
                String::from_utf8_lossy(&output.stdout).into_owned()
                    + &String::from_utf8_lossy(&output.stderr)
            },
        );
        text.split_whitespace().nth(at).unwrap_or("?").trim_end_matches(',').to_owned()
    };
    let program = |&name: &&str| {
        let version = match name {
            "sextant" => env!("CARGO_PKG_VERSION").to_owned(),
            "dnsperf" => version("dnsperf", "-h", 5),
            "NSD" => version("nsd", "-v", 2),
            "Unbound" => version("unbound", "-V", 1),
            "Knot" => version("knotd", "--version", 4),
            program => version(program, "--version", 4),
        };
        Program { name: name.into(), version }
    };
    names.iter().map(program).collect()
}
