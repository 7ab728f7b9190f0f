//! `sextant echo`: reflectors.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use authdns::echo::Reflector;
use clap::{Args, ValueEnum};
use serde::Serialize;
use sys::link::Device;

use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use crate::options::{processors, rate, seconds, stop_on_signals};
use authdns::echo::pacing::Pacing;
use authdns::echo::{Counters, Echo, EchoConfig, Rule, SOCKET_BUFFER_OCTETS};
use record::number::{count, real};

/// How often is looked whether to stop.
const WATCH: Duration = Duration::from_millis(50);
/// How often the counters are shown.
const SHOW: Duration = Duration::from_secs(1);

/// Reflectors, to judge a Tester and its path without a server: every query comes back with QR set
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant echo --listen '[::]:53' --threads 2
      on all IPv6 addresses; a Tester accepts its answers with --validity response
  sextant echo --io kernel --device tester0 --listen '[::]:53'
      in the kernel (XDP), many times faster; on a veth, the peer needs an XDP program too (sextant lab run --xdp-pass)
  sextant echo --pacing --nominal 100000 --duration 12 --series arrivals.csv
      how evenly a load generator sends, by the kernel's time of each arrival
Responses (QR=1) are never answered, so two reflectors cannot keep each other busy, and no answer is longer than its
query.")]
pub struct EchoArgs {
    /// Address to answer on; may be given several times
    #[arg(long, value_name = "ADDR:PORT", default_values = ["127.0.0.1:5300", "[::1]:5300"])]
    listen: Vec<SocketAddr>,
    /// I/O back-end
    #[arg(long, value_enum, default_value_t)]
    io: EchoIo,
    /// Device of --io kernel; the port is that of --listen, on all addresses of the device
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Threads, each with a socket for each address
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Processors of these threads, at least one thread on each [default: the first ones that may be used]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Receive buffer of each socket [default: 33554432]; the kernel grants at most net.core.rmem_max, unless
    /// it is forced to (CAP_NET_ADMIN)
    #[arg(long, value_name = "OCTETS")]
    receive_buffer: Option<NonZeroU32>,
    /// Processor time spent on each query before its answer, to imitate a slower server
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    work: u32,
    /// Never sleep: each thread keeps a processor busy
    #[arg(long)]
    spin: bool,
    /// Answer any datagram, unchanged; two such reflectors would keep each other busy
    #[arg(long)]
    raw: bool,
    /// Stop after so many seconds [default: at Ctrl-C or SIGTERM]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Print how evenly the queries arrived, in windows of 1, 10 and 100 ms
    #[arg(long)]
    pacing: bool,
    /// The rate that the sender was told, in q/s, for --pacing [default: the mean]
    #[arg(long, value_name = "N", value_parser = rate, requires = "pacing")]
    nominal: Option<u64>,
    /// Write the number of queries of each millisecond since the first, for --pacing
    #[arg(long, value_name = "FILE.csv", requires = "pacing")]
    series: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `--io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EchoIo {
    /// kernel where --device is given, else udp.
    #[default]
    Auto,
    /// UDP sockets with recvmmsg and sendmmsg.
    Udp,
    /// The same with segments: runs of queries and answers pass the stack as one message.
    Gso,
    /// An XDP program on a device.
    Kernel,
}

impl EchoIo {
    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Gso => "gso",
            Self::Kernel => "kernel",
        }
    }
}

/// A reflector of either kind.
enum Running {
    Sockets(Echo),
    Kernel { reflector: Box<Reflector>, device: Device, not_sent_before: u64 },
}

/// What was counted, and judged.
#[derive(Serialize)]
struct Report {
    io: &'static str,
    #[serde(flatten)]
    counters: Counters,
    pacing: Option<Pacing>,
}

/// Reflects until a signal or the end of the duration, then prints the counters.
///
/// # Errors
/// Options that do not go together, or an address, device or file that cannot be had.
pub fn run(args: &EchoArgs) -> Result<ExitCode, Failure> {
    // Before the start, so that no signal is missed.
    let stop = stop_on_signals()?;
    // A file that cannot be written is told before the load, not after it.
    let series_file = args.series.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
    let io = args.io()?;
    let running = match io {
        EchoIo::Kernel => args.start_kernel()?,
        _ => Running::Sockets(args.start_sockets(io)?),
    };
    eprintln!("sextant echo: ready: {}", args.place(&running));
    let started = Instant::now();
    let mut shown = CounterLine::new();
    while !stop.load(Ordering::Relaxed) && args.duration.is_none_or(|length| started.elapsed() < length) {
        std::thread::sleep(WATCH);
        shown.show(&running);
    }
    shown.clear();
    let (counters, series) = running.end(args.pacing);
    let pacing = Pacing::of(&series, args.nominal.map(|rate| rate as f64));
    if let Some((path, file)) = series_file {
        write_series(file, &series).map_err(|error| cannot_write(path, &error))?;
    }
    let report = Report { io: io.name(), counters, pacing };
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report, args.pacing))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl EchoArgs {
    fn io(&self) -> Result<EchoIo, Failure> {
        let usage = |text: &str| Err(Failure::new(EXIT_USAGE, text));
        let io = match (self.io, &self.device) {
            (EchoIo::Auto, None) => EchoIo::Udp,
            (EchoIo::Auto, Some(_)) => EchoIo::Kernel,
            (io, _) => io,
        };
        match io {
            EchoIo::Kernel if self.device.is_none() => usage(
                "--io kernel needs the device at which queries come in: add --device NAME ('ip link' lists them)",
            ),
            EchoIo::Kernel if self.is_for_sockets() => usage(
                "--raw, --spin, --threads, --cpus, --receive-buffer and --work are for sockets, not for --io kernel",
            ),
            EchoIo::Kernel if self.listen.iter().any(|at| at.port() != self.listen[0].port()) => {
                usage("--io kernel answers on one port: give every --listen the same")
            }
            EchoIo::Udp | EchoIo::Gso if self.device.is_some() => {
                usage("--device is for --io kernel; sockets are bound to addresses with --listen")
            }
            io => Ok(io),
        }
    }

    /// Whether there is an option that only sockets know.
    fn is_for_sockets(&self) -> bool {
        let threads = self.threads > 1 || !self.cpus.is_empty();
        self.raw || self.spin || threads || self.receive_buffer.is_some() || self.work > 0
    }

    /// The processor of each thread.
    fn processors(&self) -> Result<Vec<usize>, Failure> {
        processors(self.threads, &self.cpus, &sys::cpu::available())
    }

    fn start_sockets(&self, io: EchoIo) -> Result<Echo, Failure> {
        let cpus = self.processors()?;
        let config = EchoConfig {
            listen: self.listen.clone(),
            threads: cpus.len(),
            cpus,
            segments: io == EchoIo::Gso,
            spin: self.spin,
            rule: if self.raw { Rule::Raw } else { Rule::Query },
            receive_buffer_octets: self
                .receive_buffer
                .map_or(SOCKET_BUFFER_OCTETS, |octets| octets.get() as usize),
            work_ns: u64::from(self.work) * 1000,
            pacing: self.pacing,
        };
        Echo::start(&config).map_err(|error| Failure::new(EXIT_UNFIT, error))
    }

    fn start_kernel(&self) -> Result<Running, Failure> {
        let name = self.device.as_deref().unwrap_or_default();
        let device = Device::named(name).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
        let port = self.listen[0].port();
        if port == 0 {
            return Err(Failure::new(EXIT_USAGE, "--io kernel needs a port in --listen, not 0"));
        }
        let start = if self.pacing { Reflector::start_timed } else { Reflector::start };
        let reflector = start(device.index, port, None)
            .map_err(|error| Failure::new(EXIT_UNFIT, format!("--io kernel: {error}")))?;
        if device.driver().is_ok_and(|driver| driver == "veth") {
            eprintln!(
                "sextant echo: {name} is a veth: answers vanish unless its peer has an XDP program, too (sextant lab \
                 run --xdp-pass, or a Tester with --io xdp or kernel)"
            );
        }
        let not_sent_before = not_sent(&device);
        Ok(Running::Kernel { reflector: Box::new(reflector), device, not_sent_before })
    }

    fn place(&self, running: &Running) -> String {
        match running {
            Running::Sockets(echo) => {
                let addresses: Vec<String> = echo.local_addrs().iter().map(ToString::to_string).collect();
                let threads = usize::from(self.threads).max(self.cpus.len());
                let threads = record::number::plural(threads, "thread", "threads");
                format!("{} ({threads})", addresses.join(", "))
            }
            Running::Kernel { reflector, device, .. } => {
                format!("port {} at {} (XDP, {} mode)", self.listen[0].port(), device.name, reflector.mode())
            }
        }
    }
}

impl Running {
    fn counters(&self) -> Counters {
        match self {
            Self::Sockets(echo) => echo.counters(),
            Self::Kernel { reflector, device, not_sent_before } => {
                let counted = reflector.counters();
                let ignored = counted.responses + counted.unfit;
                let not_sent = not_sent(device).saturating_sub(*not_sent_before);
                Counters {
                    received: counted.reflected + ignored,
                    answered: counted.reflected.saturating_sub(not_sent),
                    ignored,
                    not_sent,
                    ..Counters::default()
                }
            }
        }
    }

    /// The last counters and, if they are wanted, the queries of each millisecond.
    fn end(self, pacing: bool) -> (Counters, Vec<u64>) {
        match self {
            Self::Sockets(echo) => echo.stop(),
            Self::Kernel { ref reflector, .. } => {
                (self.counters(), if pacing { reflector.series() } else { Vec::new() })
            }
        }
    }
}

/// Answers that the device's driver could not hand to its peer or ring, where it counts them.
fn not_sent(device: &Device) -> u64 {
    let statistics = device.statistics().unwrap_or_default();
    statistics.iter().filter(|(name, _)| name.ends_with("xdp_tx_errors")).map(|(_, &value)| value).sum()
}

/// The line that shows the counters on a terminal.
struct CounterLine {
    terminal: bool,
    at: Instant,
    received: u64,
}

impl CounterLine {
    fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), at: Instant::now(), received: 0 }
    }

    fn show(&mut self, running: &Running) {
        let elapsed = self.at.elapsed();
        if !self.terminal || elapsed < SHOW {
            return;
        }
        let Counters { received, answered, dropped, .. } = running.counters();
        let qps = (received - self.received.min(received)) as f64 / elapsed.as_secs_f64();
        eprint!(
            "\r\x1b[K{} q/s; {} received, {} answered, {} dropped",
            real(qps, 0),
            count(received),
            count(answered),
            count(dropped)
        );
        (self.at, self.received) = (Instant::now(), received);
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn text(report: &Report, pacing: bool) -> String {
    let Counters { received, answered, ignored, not_sent, dropped, receive_failures } = report.counters;
    let mut text = format!(
        "{} received, {} answered, {} ignored (no queries), {} not sent, {} dropped at the sockets, {} failures\n",
        count(received),
        count(answered),
        count(ignored),
        count(not_sent),
        count(dropped),
        count(receive_failures)
    );
    match &report.pacing {
        _ if !pacing => {}
        Some(pacing) => text += &pacing_text(pacing),
        None => text += "Too few queries came to judge their pacing: 30 ms of load are needed.\n",
    }
    text
}

fn pacing_text(pacing: &Pacing) -> String {
    let mut text = format!(
        "{} q/s over {} s ({} queries; {} before and after left out), nominal {} q/s, longest silence {} ms\n\
         {:>8} {:>9} {:>10} {:>10} {:>10} {:>12} {:>8} {:>8} {:>8}\n",
        real(pacing.mean_qps, 1),
        real(pacing.length_ms as f64 / 1e3, 2),
        count(pacing.queries),
        count(pacing.outside),
        real(pacing.nominal_qps, 1),
        pacing.silence_longest_ms,
        "window",
        "number",
        "cv",
        "ideal cv",
        "worst",
        "at",
        "fewest",
        "most",
        "empty"
    );
    for windows in &pacing.windows {
        let _ = writeln!(
            text,
            "{:>5} ms {:>9} {:>8.3} % {:>8.3} % {:>+8.2} % {:>10.3} s {:>8} {:>8} {:>8}",
            windows.width_ms,
            windows.windows,
            windows.cv_pct,
            windows.cv_ideal_pct,
            windows.worst_pct,
            windows.worst_at_ms as f64 / 1e3,
            windows.fewest,
            windows.most,
            windows.empty
        );
    }
    text
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(EXIT_UNFIT, format_args!("cannot write {}: {error}", path.display()))
}

fn write_series(file: File, series: &[u64]) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    writeln!(file, "ms,queries")?;
    for (ms, queries) in series.iter().enumerate() {
        writeln!(file, "{ms},{queries}")?;
    }
    file.flush()
}
