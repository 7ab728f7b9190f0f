//! dns64d beside the other DNS64 servers, in one lab and one run: `make bench-dns64`.
//!
//! Everything is interleaved and repeated; medians are shown with the lowest and the highest value. It needs
//! root, two processors and the servers' packages, takes 15 to 20 minutes, and writes Markdown after every
//! server, so that a run that ends early has told what it measured. Whatever [`lab::peers::all`] lists is
//! measured, dns64d in both its ways.

mod book;
mod options;
mod place;
mod profile;
mod render;
mod session;
#[path = "../tester/table.rs"]
mod table;
#[path = "../tester/text.rs"]
mod text;
mod trial;

use std::io;
use std::process::ExitCode;

use book::Book;
use lab::peers;
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
        return profile::run(&mut Placement::new(options.io)?, ours, picture);
    }
    let mut place = Placement::new(options.io)?;
    let mut book = Book::default();
    let write = |place: &Placement, book: &Book| match &options.out {
        Some(out) => text::fill(include_str!("template.md"), out, &render::all(place, options, book)),
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
        println!("{}", render::all(&place, options, &book));
    }
    Ok(())
}
