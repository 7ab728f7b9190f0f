//! `sextant zone`: the AuthDNS's zone as a file, and another server's configuration for it.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::auth::ZoneArgs;
use super::{EXIT_UNFIT, EXIT_USAGE, Failure};
use crate::failure::print;
use crate::options::stop_on_signals;
use crate::output;
use authdns::Zone;
use authdns::zone_file::{Forecast, ZoneFile};
use lab::peers::Server;
use lab::peers::authoritative::{self, ZoneSettings};
use record::number::{count, octets};

/// Socket buffers that servers are told to ask for, in octets.
const BUFFER_OCTETS: u64 = 8 << 20;
/// Writing that takes longer shows its progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Standard output, as a file.
const STDOUT: &str = "-";

const EXAMPLES: &str = "\
Examples:
  sextant zone --names 10.0.0.0/12 --for nsd --out /srv/zone
      a million names as a zone file, NSD's configuration for it, and the command that starts it
  sextant zone --names 10.0.0.0/16 --aaaa-share 50 --out dns64perf.test.zone
      the zone file alone; - writes it to standard output
  sextant zone --names 10.0.0.0/8 --for knot-xdp --device eth1 --listen 198.18.0.2:53 --workers 4 --out zone
      Knot with AF_XDP on eth1";

/// Write the zone that 'sextant auth' answers as a file, with the configuration of the server that shall load
/// it
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Server to write a configuration for; by default only the zone file is written
    #[arg(long = "for", value_name = "SERVER")]
    server: Option<ServerName>,
    /// Directory for the files, made if it is not there; without --for the zone file itself, - for standard
    /// output
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Address the server shall answer on; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_values = ["127.0.0.1:5300", "[::1]:5300"])]
    listen: Vec<SocketAddr>,
    /// Threads or processes of the server [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), requires = "server")]
    workers: Option<u16>,
    /// Device whose queries knot-xdp answers
    #[arg(long, value_name = "DEVICE", requires = "server")]
    device: Option<String>,
    /// What is in it.
    #[command(flatten)]
    zone: ZoneArgs,
}

/// `--for`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerName {
    Bind,
    Nsd,
    Knot,
    /// Knot with AF_XDP; needs --device
    KnotXdp,
    Yadifa,
    Pdns,
}

impl ServerName {
    fn server(self) -> Result<&'static Server, Failure> {
        let name = match self {
            Self::Bind => "bind",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::KnotXdp => "knot-xdp",
            Self::Yadifa => "yadifa",
            Self::Pdns => "pdns",
        };
        authoritative::find(name).map_err(|error| Failure::new(error.exit_code(), error))
    }
}

/// Writes the files, and says on standard output how to start the server.
///
/// # Errors
/// Options that make no zone (2), no room on the disk, or an interruption (3). Nothing is left under the
/// files' names.
pub fn run(args: &Arguments) -> Result<ExitCode, Failure> {
    let server = args.server.map(ServerName::server).transpose()?;
    if server.is_some_and(Server::is_xdp) != args.device.is_some() {
        let message =
            "--for knot-xdp and --device go together: the device is the one whose queries Knot answers";
        return Err(Failure::new(EXIT_USAGE, message));
    }
    let zone = Zone::new(args.zone.config(&args.listen)).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    let file = ZoneFile::new(&zone).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    let stop = stop_on_signals()?;
    match server {
        None => {
            write_zone(&file, &args.out, &stop)?;
        }
        Some(server) => export(args, server, &zone, &file, &stop)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Zone file, configuration, and the command.
fn export(
    args: &Arguments,
    server: &Server,
    zone: &Zone,
    file: &ZoneFile<'_>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let directory = directory(&args.out)?;
    let suffix = zone.config().suffix.trim_end_matches('.').to_ascii_lowercase();
    let zone_file = directory.join(format!("{suffix}.zone"));
    write_zone(file, &zone_file, stop)?;
    let settings = ZoneSettings {
        listen: args.listen.clone(),
        zone: suffix,
        zone_file,
        workers: args.workers.map_or_else(|| sys::cpu::available().len(), usize::from),
        directory: directory.clone(),
        device: args.device.clone(),
        buffer_octets: BUFFER_OCTETS,
        rule: Vec::new(),
        user: current_user(),
    };
    let configuration = directory.join(server.configuration_name());
    for (name, text) in server.files(&settings) {
        output::write_to(&directory.join(name), |out| out.write_all(text.as_bytes()))
            .map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    }
    let words = server.arguments(&settings, &configuration);
    let words: Vec<_> = words.iter().map(|word| shell_word(&word.to_string_lossy())).collect();
    print(&format!(
        "{}\n{}\nStart it with:\n  {} {}\n",
        settings.zone_file.display(),
        configuration.display(),
        server.program,
        words.join(" ")
    ))
}

/// The directory as an absolute path: servers change theirs.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(path).and_then(|()| path.canonicalize()).map_err(|error| {
        Failure::new(EXIT_UNFIT, format!("--out {}: cannot make the directory: {error}", path.display()))
    })
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_./:=,@+".contains(&octet);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// User and group of this process by number, as the servers take them too.
fn current_user() -> (String, String) {
    use std::os::unix::fs::MetadataExt;
    let of_process = fs::metadata("/proc/self").map_or((0, 0), |process| (process.uid(), process.gid()));
    (of_process.0.to_string(), of_process.1.to_string())
}

/// Writes the zone whole or not at all.
pub(super) fn write_zone(file: &ZoneFile<'_>, path: &Path, stop: &AtomicBool) -> Result<(), Failure> {
    let forecast = file.forecast();
    if path == Path::new(STDOUT) {
        let mut out = io::stdout().lock();
        return match file.write(&mut out, |_| !stop.load(Ordering::Relaxed)) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(failure(path, &error)),
            _ => Ok(()),
        };
    }
    check_room(path, &forecast)?;
    let progress = Progress::new(&forecast);
    let written = output::write_to(path, |out| {
        file.write(out, |names| {
            progress.show(names);
            !stop.load(Ordering::Relaxed)
        })
    });
    progress.end();
    written.map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::Interrupted {
        let message = format!("interrupted; {} was not written", path.display());
        return Failure::new(EXIT_UNFIT, message);
    }
    Failure::new(EXIT_UNFIT, error)
}

/// Refuses what the disk does not hold, before the first octet. A disk that does not tell is tried.
fn check_room(path: &Path, forecast: &Forecast) -> Result<(), Failure> {
    // A device or a pipe holds what it holds.
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(free_octets) = sys::disk::free_octets(parent) else { return Ok(()) };
    if forecast.octets <= free_octets {
        return Ok(());
    }
    let message = format!(
        "{}: {} names make a file of about {}, but there are {} free; take a smaller --names range or another disk",
        path.display(),
        count(forecast.names),
        octets(forecast.octets),
        octets(free_octets)
    );
    Err(Failure::new(EXIT_UNFIT, message))
}

/// The progress of a file that takes a while, for a person at a terminal.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
    names: u64,
}

impl Progress {
    fn new(forecast: &Forecast) -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new(forecast.octets)
        } else {
            ProgressBar::hidden()
        };
        let template =
            "  {bar:30.cyan/dim} {percent} %, {bytes} of about {total_bytes} at {bytes_per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()));
        Self { bar, begun: Instant::now(), names: forecast.names }
    }

    fn show(&self, names: u64) {
        if self.begun.elapsed() >= PATIENCE {
            let octets = u128::from(self.bar.length().unwrap_or(0)) * u128::from(names);
            self.bar.set_position((octets / u128::from(self.names.max(1))) as u64);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(shell_word("/srv/a.conf"), "/srv/a.conf");
        assert_eq!(shell_word("/my zones/it's"), r"'/my zones/it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
