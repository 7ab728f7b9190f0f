//! Both halves of the Tester in the kernel, on one processor and on more: `lanes` and `held`.
//!
//! The AuthDNS answers in the lab's third namespace, as in a self-test. A lab has a queue for each processor
//! here, unlike that of the other benchmarks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use figures::Sample;
use figures::tester::{Lanes, ProgramCost, Try};
use lab::network::{Lab, LabSpec, Role};
use serde_json::Value;
use sys::process;

/// More than a lane can send, in q/s, so that it never waits.
const FLOOD_QPS: u64 = 6_000_000;
/// Likewise while the kernel counts the programs' time, which makes them slower.
const COUNTED_QPS: u64 = 4_000_000;
/// Length of a flood and of a run for evenness, in seconds.
const FLOOD_S: u64 = 1;
const EVENNESS_S: u64 = 4;
/// The rate whose evenness is looked at, in q/s.
const EVENNESS_QPS: u64 = 2_000_000;
/// How far a window of 10 ms may be off there, in percent.
const EVEN_PCT: f64 = 1.0;
/// Answers count within this time: none of a flood is late, those of a rate that is held are those of a
/// self-test.
const FLOOD_TIMEOUT_S: &str = "10";
const TIMEOUT_S: &str = "0.25";
/// How often the programs' statistics are read while they run.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The port of AuthDNS and reflector.
const PORT: u16 = 53;

/// The lab with an AuthDNS or a reflector.
struct Place {
    lab: Lab,
    server: Option<Child>,
}

/// What a trial sends.
struct Load {
    lanes: usize,
    rate_qps: u64,
    duration_s: u64,
    timeout_s: &'static str,
    reflected: bool,
}

/// Measures what so many lanes as there are processors answer, what each program costs, and how even they
/// send.
///
/// # Errors
/// No privileges, or a tool is missing.
pub fn measure(rounds: usize) -> io::Result<Lanes> {
    let lanes_max = sys::cpu::available().len();
    // For all that is started here: nothing else shall have the lanes' processors, as in a self-test.
    sys::cpu::prioritize();
    let place = Place::new()?;
    let mut measured = Lanes { answered_qps: vec![Sample::default(); lanes_max], ..Lanes::default() };
    for round in 1..=rounds {
        for (lanes, answered) in (1..).zip(&mut measured.answered_qps) {
            let qps = flood(&place, lanes)?;
            answered.push(qps);
            eprintln!("round {round}: {lanes} lanes answer {qps:.0} q/s");
        }
        for (name, query_ns) in costs(&place)? {
            match measured.costs.iter_mut().find(|cost| cost.program == name) {
                Some(cost) => cost.query_ns.push(query_ns),
                None => measured.costs.push(ProgramCost { program: name, query_ns: vec![query_ns].into() }),
            }
        }
    }
    drop(place);
    measured.even_qps = EVENNESS_QPS;
    for round in 1..=rounds {
        for lanes in 1..=lanes_max {
            let even_pct = evenness(lanes)?;
            measured.even_pct.resize(lanes_max, Sample::default());
            measured.even_pct[lanes - 1].push(even_pct);
            eprintln!(
                "round {round}: {lanes} lanes, {even_pct:.2} % of the windows of 10 ms within {EVEN_PCT} %"
            );
        }
    }
    Ok(measured)
}

/// Tries once whether so many lanes hold a rate: a self-test's deciding trial, judged like a trial of a
/// server.
///
/// # Errors
/// No privileges, or a tool is missing.
pub fn hold(lanes: usize, rate_qps: u64, duration_s: u64) -> io::Result<Try> {
    let stolen_before_s = stolen_s()?;
    let mut trial = Command::new(env!("CARGO_BIN_EXE_sextant"));
    trial.args(["trial", "--json", "--looped", "--path", "lab", "--io", "kernel", "--auth-io", "kernel"]);
    trial.args(["--names", "0.0.0.0/0", "--rate", &rate_qps.to_string()]);
    trial.args(["--duration", &duration_s.to_string(), "--threads", &lanes.to_string()]);
    let trial = ended(trial)?;
    let stolen_pct = (stolen_s()? - stolen_before_s) / duration_s as f64 * 100.0;
    let number = |at: &str| trial.pointer(at).and_then(Value::as_f64).ok_or_else(|| lacks(at, &trial));
    Ok(Try {
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        lanes,
        rate_qps,
        duration_s,
        answered_all: number("/valid")? == number("/scheduled")?,
        valid: trial["outcome"] == "pass",
        why: trial["void"].as_str().unwrap_or_default().to_owned(),
        late_ms: number("/schedule_error_ns/max")? / 1e6,
        uneven_10_ms_pct: number("/windows/ms10/off_pct")?,
        stolen_pct,
    })
}

/// Answers per second of lanes that never wait.
fn flood(place: &Place, lanes: usize) -> io::Result<f64> {
    let rate_qps = FLOOD_QPS * lanes as u64;
    let load = Load { lanes, rate_qps, duration_s: FLOOD_S, timeout_s: FLOOD_TIMEOUT_S, reflected: false };
    let trial = ended(place.trial(&load))?;
    let number = |at: &str| trial.pointer(at).and_then(Value::as_f64).ok_or_else(|| lacks(at, &trial));
    // The last query is the latest.
    let sending_s = number("/duration_s")? + number("/schedule_error_ns/max")? / 1e9;
    Ok(number("/valid")? / sending_s)
}

/// The time of each program for a query in ns, while one lane never waits.
fn costs(place: &Place) -> io::Result<Vec<(String, f64)>> {
    let _counted = sys::bpf::count_run_time()?;
    let auth: Vec<u32> = place.server.as_ref().map(Child::id).into_iter().collect();
    let before = runs(&auth);
    let load = Load {
        lanes: 1,
        rate_qps: COUNTED_QPS,
        duration_s: FLOOD_S,
        timeout_s: FLOOD_TIMEOUT_S,
        reflected: false,
    };
    let mut trial = place.trial(&load).stdout(Stdio::null()).spawn()?;
    let mut own = BTreeMap::<u64, Run>::new();
    while trial.try_wait()?.is_none() {
        for (id, run) in runs(&[trial.id()]) {
            // At its end, a trial takes the sink from the device before the program itself is gone.
            let known = own.entry(id).or_default();
            *known = Run { attached: known.attached || run.attached, ..run };
        }
        thread::sleep(LOOK_EVERY);
    }
    let of_auth = runs(&auth).into_iter().map(|(id, run)| (id, run.since(before.get(&id))));
    let named = |run: &Run, name: &str| {
        // Others are only tried.
        let is_one = run.count >= COUNTED_QPS * FLOOD_S / 2;
        is_one.then(|| (name.to_owned(), run.ns as f64 / (COUNTED_QPS * FLOOD_S) as f64))
    };
    let measurer = own.values().filter_map(|run| named(run, if run.attached { "sink" } else { "generator" }));
    let authority = of_auth.filter_map(|(_, run)| named(&run, "AuthDNS"));
    let mut costs: Vec<_> = measurer.chain(authority).collect();
    costs.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(costs)
}

/// How often a program ran, how long in all, and whether it is attached to a device.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    ns: u64,
    count: u64,
    attached: bool,
}

impl Run {
    fn since(self, before: Option<&Self>) -> Self {
        let before = before.copied().unwrap_or_default();
        Self { ns: self.ns - before.ns, count: self.count - before.count, ..self }
    }
}

/// The programs of processes by their IDs, as `/proc/PID/fdinfo` shows them.
fn runs(processes: &[u32]) -> BTreeMap<u64, Run> {
    let (mut runs, mut attached) = (BTreeMap::<u64, Run>::new(), Vec::new());
    for process in processes {
        let directory = Path::new("/proc").join(process.to_string()).join("fdinfo");
        // A process that has just ended has none.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let number = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|value| value.trim().parse::<u64>().ok())
            };
            match (number("prog_id"), number("run_time_ns"), number("run_cnt")) {
                (Some(id), Some(ns), Some(count)) => {
                    runs.insert(id, Run { ns, count, attached: false });
                }
                (Some(id), ..) if text.contains("link_type") => attached.push(id),
                _ => {}
            }
        }
    }
    for id in attached {
        if let Some(run) = runs.get_mut(&id) {
            run.attached = true;
        }
    }
    runs
}

/// The share of the windows of 10 ms in which an XDP reflector receives what is due, in percent.
fn evenness(lanes: usize) -> io::Result<f64> {
    const WINDOW_MS: usize = 10;
    let mut place = Place::empty()?;
    let series = tempfile::NamedTempFile::new()?;
    let device = place.lab.end(Role::Auth, Role::Tester).device;
    let mut reflector = place.sextant(Role::Auth);
    reflector.args(["echo", "--io", "kernel", "--device", &device, "--listen", &place.address()]);
    reflector.args(["--pacing", "--nominal", &EVENNESS_QPS.to_string(), "--series"]).arg(series.path());
    place.start(reflector)?;
    let load =
        Load { lanes, rate_qps: EVENNESS_QPS, duration_s: EVENNESS_S, timeout_s: TIMEOUT_S, reflected: true };
    ended(place.trial(&load))?;
    place.stop();
    let text = fs::read_to_string(series.path())?;
    let counts = text.lines().filter_map(|line| line.rsplit(',').next()?.parse::<f64>().ok());
    let counts: Vec<f64> = counts.collect();
    let due = EVENNESS_QPS as f64 * WINDOW_MS as f64 / 1e3;
    let windows: Vec<f64> = counts.chunks_exact(WINDOW_MS).map(|window| window.iter().sum()).collect();
    // Before the load is a probe; the first and the last window of the load are filled in part.
    let loaded = |count: &f64| *count >= due / 2.0;
    let edges = windows.iter().position(loaded).zip(windows.iter().rposition(loaded));
    let whole = edges.and_then(|(first, last)| windows.get(first + 1..last)).unwrap_or_default();
    let even = whole.iter().filter(|count| (**count - due).abs() <= due * EVEN_PCT / 100.0).count();
    Ok(even as f64 / whole.len().max(1) as f64 * 100.0)
}

impl Place {
    /// A lab with an AuthDNS that has a AAAA record for every name.
    fn new() -> io::Result<Self> {
        let mut place = Self::empty()?;
        let mut auth = place.sextant(Role::Auth);
        auth.args(["auth", "--io", "kernel", "--listen", &place.address(), "--aaaa-share", "100"]);
        auth.args(["--aaaa-prefix", "2001:db8:64::/96"]);
        place.start(auth)?;
        Ok(place)
    }

    fn empty() -> io::Result<Self> {
        let lab = Lab::up(&LabSpec { name: "bench-lanes".into(), ..LabSpec::default() })?;
        Ok(Self { lab, server: None })
    }

    /// The address of AuthDNS or reflector, over IPv6 as in a self-test.
    fn address(&self) -> String {
        format!("[{}]:{PORT}", self.lab.end(Role::Auth, Role::Tester).ipv6)
    }

    fn sextant(&self, role: Role) -> Command {
        self.lab.command(role, env!("CARGO_BIN_EXE_sextant"))
    }

    /// Starts a server and waits until it says that it is ready.
    fn start(&mut self, mut command: Command) -> io::Result<()> {
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let errors = server.stderr.take().map(BufReader::new);
        let ready = errors.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
        let said = ready.into_iter().find(|line| line.contains("ready:"));
        self.server = Some(server);
        said.map(drop).ok_or_else(|| io::Error::other("the server did not start"))
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It writes its files at the end.
            let _ = process::signal(server.id(), signal_hook::consts::SIGTERM);
            let _ = server.wait();
        }
    }

    fn trial(&self, load: &Load) -> Command {
        let mut command = self.sextant(Role::Tester);
        command.args([
            "trial",
            "--json",
            "--io",
            "kernel",
            "--names",
            "0.0.0.0/0",
            "--server",
            &self.address(),
        ]);
        command.args(["--rate", &load.rate_qps.to_string(), "--duration", &load.duration_s.to_string()]);
        command.args(["--timeout", load.timeout_s, "--threads", &load.lanes.to_string()]);
        if load.reflected {
            command.args(["--validity", "response"]);
        }
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a trial to its end; what it printed.
fn ended(mut trial: Command) -> io::Result<Value> {
    let output = trial.output()?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        io::Error::other(format!("sextant trial: {}", String::from_utf8_lossy(&output.stderr).trim()))
    })
}

fn lacks(field: &str, trial: &Value) -> io::Error {
    io::Error::other(format!("the trial lacks {field}: {trial}"))
}

/// Seconds that the hypervisor has taken from all processors since the machine started.
fn stolen_s() -> io::Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find(|line| line.starts_with("cpu "));
    let ticks = line.and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
    ticks.map(|ticks| ticks / TICKS_PER_SECOND).ok_or_else(|| io::Error::other("no steal in /proc/stat"))
}
