//! dns64d, the DNS64 forwarder: reads its configuration, runs until SIGTERM or SIGINT.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Parser;
use proxy::command::Options;
use proxy::{Config, Server};
use signal_hook::consts::{SIGINT, SIGTERM};

const EXIT_BAD_CONFIG: u8 = 2;
const EXIT_ENVIRONMENT: u8 = 3;

fn main() -> ExitCode {
    let options = Options::parse();
    let config = match Config::load(&options.config) {
        Ok(config) => config,
        Err(error) => return fail(EXIT_BAD_CONFIG, &error),
    };
    for warning in &config.warnings {
        say(format_args!("warning: {warning}"));
    }
    if options.check_config {
        return match writeln!(io::stdout(), "dns64d: {} is good", options.config.display()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(EXIT_ENVIRONMENT, &format_args!("cannot print: {error}")),
        };
    }
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_ENVIRONMENT, &*error),
    }
}

fn fail(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    say(format_args!("{error}"));
    ExitCode::from(code)
}

/// Tells the operator. Without a stderr to write to there is nobody to tell, and the work goes on.
fn say(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "dns64d: {words}");
}

fn run(config: &Config) -> Result<(), Box<dyn std::error::Error>> {
    // An octet here ends the program: a signal writes one, and so does a thread that ends.
    let (mut until, end) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
    }
    let end = std::sync::Arc::new(end);
    let server = Server::start(config, move || {
        // A full pipe has woken the reader already.
        let _ = (&*end).write(&[0]);
    })?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let (threads, upstreams) = (count(server.threads(), "thread"), count(config.upstreams.len(), "upstream"));
    say(format_args!("ready on {} ({threads}, {upstreams})", addresses.join(", ")));
    until.read_exact(&mut [0])?;
    let stats = server.stop()?;
    say(format_args!(
        "stopped after {} queries: {} answered ({} synthesized), {} failed, {} refused",
        stats.accepted, stats.answered, stats.synthesized, stats.failed, stats.refused
    ));
    Ok(())
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
