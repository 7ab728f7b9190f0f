//! dns64d beside the other DNS64 servers, in one lab and one run: `make bench-dns64`.
//!
//! Everything is interleaved and repeated; medians are shown with the lowest and the highest value. It needs
//! root, two processors and the servers' packages, and takes 15 to 20 minutes. It writes its record and the
//! document after every server, so that a run that ends early has told what it measured. Whatever
//! [`lab::peers::all`] lists is measured, dns64d in both its ways.

mod book;
mod names;
mod options;
mod place;
mod profile;
mod session;
#[path = "../tester/text.rs"]
mod text;
mod trial;

use std::io;
use std::process::ExitCode;

use book::Book;
use figures::dns64::{Record, SecondMethod, block};
use lab::peers::{self, Server};
use options::Options;
use place::Placement;
use session::Session;

fn main() -> ExitCode {
    let options = match Options::of_command_line() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("bench-dns64: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-dns64: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    if let Some(picture) = &options.profile {
        profile::check()?;
        let ours = peers::find("dns64d").map_err(io::Error::other)?;
        return profile::run(&mut Placement::new(options)?, ours, picture);
    }
    if options.render {
        return text::render(options.out.as_deref(), block);
    }
    let mut place = Placement::new(options)?;
    let mut book = Book::default();
    // What another method found stays in the record: this bench does not measure it.
    let earlier = options.out.as_deref().and_then(|out| text::read::<Record>(out).ok());
    let second_method = earlier.map(|record| record.second_method).unwrap_or_default();
    let record = |place: &Placement, book: &Book| record(place, options, book, second_method.clone());
    let write = |place: &Placement, book: &Book| match &options.out {
        Some(out) => text::write(Some(out), &record(place, book), block),
        None => Ok(()),
    };
    for round in 1..=options.rounds {
        for &server in &options.servers {
            for cores in [1, 2] {
                if cores == 1 || options.two_cores {
                    eprintln!("round {round} of {}: {}, {cores} core(s)", options.rounds, server.name);
                    let measured =
                        Session { place: &mut place, options, book: &mut book, server, cores }.run();
                    // One server that fails must not cost the others their figures.
                    if let Err(error) = measured {
                        eprintln!("  {}: {error}", server.name);
                        book.fail(server.name, &error);
                    }
                    // Before anything can end the run: what was measured is not lost.
                    write(&place, &book)?;
                    place.goes_on()?;
                }
            }
        }
    }
    if options.out.is_none() {
        println!("{}", block(&record(&place, &book)));
    }
    Ok(())
}

/// All that was measured, with the machine, the programs and the trials.
fn record(place: &Placement, options: &Options, book: &Book, second_method: Vec<SecondMethod>) -> Record {
    let version = |server: &Server| peers::version(server).unwrap_or_else(|error| error.to_string());
    let server = |server: &&'static Server| book.server(server.name, version(server), options.two_cores);
    Record {
        origin: text::origin(),
        io: place.in_words(),
        names_equally_long: !options.random_lengths,
        rounds: options.rounds,
        search_s: options.search.as_secs_f64(),
        latency_s: options.latency.as_secs_f64(),
        cell_s: options.cell.as_secs_f64(),
        two_cores_shared: place.shares(2),
        servers: options.servers.iter().map(server).collect(),
        missing: options.missing.clone(),
        failures: book.failures().collect(),
        second_method,
    }
}
