//! The servers and the searches of the tables.

use engine::search::{Goal, Mode};

use crate::neighbours::{Others, Program};
use crate::server::{Nature, STALL_MS};

/// A server, whether the Tester pauses meanwhile, and who else is on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub nature: Nature,
    pub pauses: bool,
    pub others: Others,
}

const KNEE_QPS: u64 = 50_000;
/// Datagrams that a socket holds whose buffer nobody enlarged: net.core.rmem_default, 212,992 octets, of
/// which a short datagram takes 768.
const DEFAULT_BUFFER: u64 = 277;
/// A buffer that outlasts every recorded pause: 20 ms of work at the knee.
const BUFFER: u64 = 1_000;
/// What a server that stalls has, about 4 MiB.
const LARGE_BUFFER: u64 = 5_000;

const STEADY: Nature = Nature {
    knee_qps: KNEE_QPS,
    capacity_qps: KNEE_QPS,
    buffer: BUFFER,
    loss_ratio: 0.0,
    stalls: false,
    warming_ms: 0,
};

/// On a machine that nobody else uses.
const fn alone(name: &'static str, nature: Nature) -> Case {
    Case { name, nature, pauses: true, others: Others::NOBODY }
}

/// Loses a share of the queries above the knee, and all that is too much above twice the knee.
const fn lossy(name: &'static str, knee_qps: u64, loss_ratio: f64) -> Case {
    let nature = Nature { knee_qps, capacity_qps: 2 * knee_qps, loss_ratio, ..STEADY };
    alone(name, nature)
}

/// Queues so many seconds of work.
const fn queueing(name: &'static str, seconds: u64) -> Case {
    alone(name, Nature { buffer: seconds * KNEE_QPS, ..STEADY })
}

/// All servers.
pub const CASES: [Case; 13] = [
    Case { pauses: false, ..alone("steady; the Tester never pauses", STEADY) },
    alone("steady", STEADY),
    alone("small buffer", Nature { buffer: DEFAULT_BUFFER, ..STEADY }),
    lossy("loses 0.01 %", KNEE_QPS, 0.0001),
    lossy("loses 0.1 %", KNEE_QPS, 0.001),
    lossy("loses 1 %", KNEE_QPS, 0.01),
    lossy("loses 3 %", KNEE_QPS, 0.03),
    lossy("loses 0.01 %, knee 5,000", KNEE_QPS / 10, 0.0001),
    lossy("loses 0.1 %, knee 5,000", KNEE_QPS / 10, 0.001),
    queueing("queue of 1 s", 1),
    queueing("queue of 2 s", 2),
    alone(
        "stalls",
        Nature {
            // What comes in the longest stall just fits into the buffer.
            knee_qps: LARGE_BUFFER * 1000 / STALL_MS.1 as u64,
            buffer: LARGE_BUFFER,
            stalls: true,
            ..STEADY
        },
    ),
    alone("slow start", Nature { warming_ms: 10_000, ..STEADY }),
];

/// Machines that others use. The hypervisor of the recording took 0.55 % of a processor.
const MACHINES: [Others; 6] = [
    Others { name: "steal as recorded", steals: 1, program: Program::None },
    Others { name: "steal of 22 %", steals: 40, program: Program::None },
    Others { name: "a program beside the server", steals: 1, program: Program::BesideServer },
    Others { name: "a program now and then", steals: 1, program: Program::NowAndThen },
    Others { name: "a program beside the Tester", steals: 1, program: Program::BesideTester },
    Others { name: "steal of 22 %, a program now and then", steals: 40, program: Program::NowAndThen },
];

/// Some of the servers on each of these machines.
pub fn noisy_cases() -> Vec<Case> {
    let servers = [
        alone("steady", STEADY),
        alone("small buffer", Nature { buffer: DEFAULT_BUFFER, ..STEADY }),
        lossy("loses 1 %", KNEE_QPS, 0.01),
        queueing("queue of 1 s", 1),
    ];
    // The recorded steal has the Tester's pauses in it.
    let on = |others| servers.map(|case| Case { others, pauses: false, ..case });
    MACHINES.into_iter().flat_map(on).collect()
}

/// The highest rate that a search may try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ceiling {
    /// A multiple of the knee between these: what the Tester happens to be certified for.
    Certified(f64, f64),
    /// `bench-dns64`: 1.2 times what a closed loop gets, and half as much again whenever that passes.
    ClosedLoop,
    /// This multiple of the knee: of a search at one rate.
    Fixed(f64),
}

/// How a measurement searches.
#[derive(Clone, Debug)]
pub struct Search {
    pub name: &'static str,
    pub mode: Mode,
    pub trial_ms: u64,
    pub width_pct: f64,
    /// Searches of a measurement.
    pub runs: usize,
    pub listen_ms: u64,
    pub settle_ms: u64,
    pub ceiling: Ceiling,
}

/// What can be said of the results of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// They exceed the knee by more than the width in at most 5 % of the measurements.
    Result,
    /// The server's queue swallows what is too much for as long as a trial lasts. The rate that the server
    /// kept up exceeds the knee by more than the width in at most 5 %.
    KeptUp,
    /// What fails the server happens too seldom for a trial to meet it.
    Nothing,
}

/// An answer is late after this (RFC 8219 9.2), in ms.
pub const TIMEOUT_MS: u32 = 1000;
/// Fewer losses than this in a trial are missed by one trial in twenty or more (the rule of three).
const LOSSES: f64 = 3.0;

impl Search {
    /// Whether its trials last 60 s.
    pub fn is_long(&self) -> bool {
        self.trial_ms > 10_000
    }
}

impl Claim {
    pub fn of(search: &Search, Case { nature, .. }: &Case) -> Self {
        let trial_ms = search.trial_ms as f64;
        let losses = nature.knee_qps as f64 * trial_ms / 1000.0 * nature.loss_ratio;
        let queue_ms = nature.buffer as f64 * 1000.0 / nature.capacity_qps as f64;
        let swallowed_pct = queue_ms.min(f64::from(TIMEOUT_MS)) * 100.0 / trial_ms;
        match nature.loss_ratio > 0.0 {
            _ if nature.stalls => Self::Nothing,
            true if losses < LOSSES => Self::Nothing,
            false if swallowed_pct > search.width_pct => Self::KeptUp,
            _ => Self::Result,
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Those that are tried on noisy machines; the last one is not offered (docs/method.md says why).
pub fn noisy_searches() -> Vec<Search> {
    let named = |name: &str| searches().into_iter().find(|search| search.name == name);
    let [quick, mlr, long] = ["quick", "quick --search mlr", "rfc8219"].map(|name| named(name).unwrap());
    let shorter = Search { name: "quick, trials of 0.5 s", trial_ms: 500, ..quick.clone() };
    vec![quick, mlr, long, shorter]
}

/// All searches.
pub fn searches() -> Vec<Search> {
    let quick = |name, mode| Search {
        name,
        mode,
        trial_ms: 2000,
        width_pct: 2.0,
        runs: 3,
        listen_ms: 1200,
        settle_ms: 250,
        ceiling: Ceiling::Certified(1.2, 4.0),
    };
    let long = |name, mode| Search {
        trial_ms: 60_000,
        width_pct: 0.5,
        runs: 1,
        listen_ms: 2000,
        settle_ms: 5000,
        ..quick(name, mode)
    };
    let dns64 = Search {
        trial_ms: 1000,
        width_pct: 5.0,
        listen_ms: 1000,
        settle_ms: 150,
        ceiling: Ceiling::ClosedLoop,
        ..quick("bench-dns64", Mode::Verify)
    };
    let fixed = |name, share| Search {
        runs: 1,
        ceiling: Ceiling::Fixed(share),
        ..quick(name, Mode::Fixed { trials: 1 })
    };
    vec![
        quick("quick", Mode::Verify),
        quick("quick --search rfc8219", Mode::Rfc8219),
        quick("quick --search mlr", Mode::Mlr(Goal::ladder(2 * SECOND_NS, 2.0))),
        fixed("quick --search fixed, at 0.95 of the knee", 0.95),
        fixed("quick --search fixed, at 1.05 of the knee", 1.05),
        dns64,
        long("rfc8219", Mode::Rfc8219),
        long("rfc8219 --search verify", Mode::Verify),
        long("rfc8219 --search mlr", Mode::Mlr(Goal::ladder(60 * SECOND_NS, 0.5))),
        long("rfc8219 --goals rfc2544", Mode::Mlr(Goal::rfc2544(0.5))),
        long("rfc8219 --goals tst009", Mode::Mlr(Goal::tst009(0.5))),
        Search { trial_ms: 1000, ..long("rfc8219 --goals csit", Mode::Mlr(Goal::csit(0.5))) },
    ]
}
