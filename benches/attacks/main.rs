//! dns64d attacked in a lab, as root: `make attack-lab` and the short form in `make attack-test`.
//!
//! - `together`: all attacks at once, and a client meanwhile;
//! - `forger`: forged answers against dns64d and where the forger must hit;
//! - `identifiers`: IDs and ports of dns64d and of Unbound.
//!
//! dns64d has the first processor for itself. All others share the last one: AuthDNS and client before the
//! attackers, who take the rest. Each part is written when it is done.

mod connections;
mod crew;
mod flood;
mod forger;
mod identifiers;
mod site;
mod stage;
#[path = "../tester/text.rs"]
mod text;
mod together;
mod wire;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use figures::attacks::{Record, block};
use site::Site;

const USAGE: &str =
    "usage: [together] [forger] [identifiers] [--duration S] [--packets N] [--out FILE [--render]]";
const PARTS: [&str; 3] = ["together", "forger", "identifiers"];

/// What was asked for on the command line.
struct Options {
    parts: Vec<String>,
    /// The length of all attacks together.
    duration: Duration,
    /// Forged packets.
    packets: u64,
    out: Option<String>,
    render: bool,
}

fn main() -> ExitCode {
    let options = match Options::of_command_line() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("bench-attacks: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench-attacks: {error}");
            ExitCode::from(3)
        }
    }
}

impl Options {
    fn of_command_line() -> io::Result<Self> {
        let mut options = Self {
            parts: Vec::new(),
            duration: Duration::from_secs(600),
            packets: 100_000_000,
            out: None,
            render: false,
        };
        let wrong = |why: String| io::Error::other(format!("{why}; {USAGE}"));
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| wrong(format!("{word} needs a value")));
            let number = |text: String| {
                text.parse::<u64>()
                    .ok()
                    .filter(|&n| n > 0)
                    .ok_or_else(|| wrong(format!("'{text}' is no number")))
            };
            match word.as_str() {
                "--bench" => {}
                "--render" => options.render = true,
                "--out" => options.out = Some(value()?),
                "--duration" => options.duration = Duration::from_secs(number(value()?)?),
                "--packets" => options.packets = number(value()?)?,
                part if PARTS.contains(&part) => options.parts.push(word),
                other => return Err(wrong(format!("'{other}' is no option"))),
            }
        }
        if options.parts.is_empty() {
            options.parts = PARTS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }

    fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|name| name == part)
    }
}

/// Measures the parts. Whether dns64d held out: what a short run can tell, too.
fn run(options: &Options) -> io::Result<bool> {
    let out = options.out.as_deref();
    if options.render {
        return text::render(out, block).map(|()| true);
    }
    let mut record: Record = out.map(text::read).transpose()?.unwrap_or_default();
    let mut holds = true;
    for part in PARTS.into_iter().filter(|part| options.has(part)) {
        eprintln!("{part}");
        let site = Site::make()?;
        match part {
            "together" => record.together = Some(together::measure(&site, options.duration)?),
            "forger" => record.forger = Some(forger::measure(&site, options.packets)?),
            _ => record.identifiers = Some(identifiers::measure(&site)?),
        }
        holds &= record.holds();
        if out.is_some() {
            text::write(out, &record, block)?;
        }
    }
    if out.is_none() {
        println!("{}", block(&record));
    }
    Ok(holds)
}
