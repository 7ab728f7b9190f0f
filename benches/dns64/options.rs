//! What was asked for on the command line.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lab::peers::{self, Server};
use measurer::transport::Backend;

/// The options, and what follows from them.
pub struct Options {
    /// So often everything is measured.
    pub rounds: usize,
    /// The servers, in the order of the tables.
    pub servers: Vec<&'static Server>,
    /// Servers that were left out, and why.
    pub missing: Vec<String>,
    /// The document that is written, with its record beside it; `None`: standard output.
    pub out: Option<String>,
    /// Only profile dns64d, into this file.
    pub profile: Option<PathBuf>,
    /// Only render the record beside the document.
    pub render: bool,
    /// Whether names have random lengths, so that queries cannot be joined.
    pub random_lengths: bool,
    /// How the queries leave.
    pub io: Backend,
    /// Whether two cores are measured, too.
    pub two_cores: bool,
    /// Length of a trial of the rate search, of a latency trial, and of one cell of the table.
    pub search: Duration,
    /// See [`Options::search`].
    pub latency: Duration,
    /// See [`Options::search`].
    pub cell: Duration,
    /// Width at which the search stops, in percent of the rate.
    pub width_pct: f64,
}

const USAGE: &str = "usage: [--quick] [--rounds N] [--peers NAME,NAME...] [--io udp|gso|xdp] [--one-core] [--random-lengths] [--out FILE [--render] | --profile FILE.svg]";
/// Rounds of a whole run.
const ROUNDS: usize = 3;

impl Options {
    /// Those of this process.
    ///
    /// # Errors
    /// What is wrong with them, with the usage.
    pub fn of_command_line() -> io::Result<Self> {
        let mut options = Self {
            rounds: ROUNDS,
            servers: peers::all().iter().collect(),
            missing: Vec::new(),
            out: None,
            profile: None,
            render: false,
            random_lengths: false,
            io: Backend::Udp,
            two_cores: true,
            search: Duration::from_secs(1),
            latency: Duration::from_millis(1500),
            cell: Duration::from_secs(1),
            width_pct: 5.0,
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let wrong = |why: String| io::Error::other(format!("{why}; {USAGE}"));
            let mut value = || words.next().ok_or_else(|| wrong(format!("{word} needs a value")));
            match word.as_str() {
                "--bench" => {}
                "--quick" => options.make_quick(),
                "--one-core" => options.two_cores = false,
                "--random-lengths" => options.random_lengths = true,
                "--render" => options.render = true,
                "--profile" => options.profile = Some(value()?.into()),
                "--out" => options.out = Some(value()?),
                "--rounds" => {
                    let text = value()?;
                    let rounds = text.parse().ok().filter(|&n| n > 0);
                    options.rounds =
                        rounds.ok_or_else(|| wrong(format!("'{text}' is no number of rounds")))?;
                }
                "--io" => options.io = backend(&value()?).map_err(wrong)?,
                "--peers" => {
                    let find = |name| peers::find(name).map_err(|error| wrong(error.to_string()));
                    options.servers = value()?.split(',').map(find).collect::<io::Result<_>>()?;
                }
                other => return Err(wrong(format!("'{other}' is no option"))),
            }
        }
        if options.profile.is_none() && !options.render {
            options.leave_out_missing()?;
        }
        Ok(options)
    }

    /// One round of short trials: whether everything runs, and about how fast.
    fn make_quick(&mut self) {
        self.rounds = 1;
        self.search = Duration::from_millis(500);
        self.latency = Duration::from_millis(700);
        self.cell = Duration::from_millis(300);
        self.width_pct = 10.0;
    }

    /// Leaves out what is not installed or started by hand, saying so.
    fn leave_out_missing(&mut self) -> io::Result<()> {
        self.servers.retain(|server| server.by_hand.is_none());
        let missing = &mut self.missing;
        self.servers.retain(|server| {
            let why = peers::locate(server).map(drop).and_then(|()| peers::version(server).map(drop));
            if let Err(why) = &why {
                eprintln!("SKIPPED {why}");
                missing.push(why.to_string());
            }
            why.is_ok()
        });
        if self.servers.is_empty() {
            Err(io::Error::other("none of the servers is installed"))
        } else {
            Ok(())
        }
    }
}

fn backend(name: &str) -> Result<Backend, String> {
    let all = [Backend::Udp, Backend::Gso { allow_unsegmented: false }, Backend::Xdp];
    all.into_iter()
        .find(|backend| backend.name() == name)
        .ok_or_else(|| format!("--io {name} is not for this bench"))
}
