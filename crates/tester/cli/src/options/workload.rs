//! Options for queries other than RFC 8219's, and for other loads than a constant rate.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dns64::{NameSpace, Range};
use engine::pacer::{Model, Times};
use engine::tsig::Key;
use engine::workload::{Agent, Choice, EdnsOption, QueryClass, QueryOptions, Recording, TypeMix, Variation};
use record::{LoadModel, Settings};

use super::{QueryArgs, ValidityArg, load, tsig};
use crate::failure::Failure;
use crate::{EXIT_UNFIT, EXIT_USAGE};
use campaign::Target;
use measurer::workload_file::{self, FileError, Format, Source};

/// What else may be asked, and when.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// Percentage of the queries for names in the server's cache: sextant asks these names once before each
    /// trial, so the TTL of the records must exceed the length of a trial
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    cached_share: u8,
    /// Number of different names in the queries of --cached-share
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536), requires = "cached_share")]
    hot_names: u32,
    /// Type of the queries, or several with their shares: aaaa, a, mx, TYPE65, a=30,aaaa=70
    #[arg(long, value_name = "TYPES", default_value = "aaaa")]
    qtype: TypeMix,
    /// Class of the queries: in, ch, hs, none, any or CLASS65280; of another class than in any response is
    /// valid
    #[arg(long, value_name = "CLASS", default_value = "in")]
    qclass: QueryClass,
    /// Draw names from a Zipf distribution: name k of --names with probability proportional to k^-S
    #[arg(long, value_name = "S", value_parser = exponent, conflicts_with_all = ["cached_share", "random_labels", "input"])]
    zipf: Option<f64>,
    /// Begin again with the first name after the last of --names. Meant for authoritative servers: a resolver
    /// has the names in its cache by then
    #[arg(long, conflicts_with_all = ["cached_share", "zipf", "random_labels", "input"])]
    repeat: bool,
    /// Ask for random names below --suffix, each once; any response is valid
    #[arg(long, conflicts_with_all = ["cached_share", "input"])]
    random_labels: bool,
    /// Take the queries from this file, in a loop and for each trial from the start; - is standard input. Any
    /// response is valid
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cached_share", "qtype", "qclass", "agent"])]
    input: Option<PathBuf>,
    /// Format of --input
    #[arg(long, value_enum, default_value_t, requires = "input")]
    input_format: Format,
    /// Factor by which --input-format timed is replayed faster [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = speed, requires = "input")]
    speed: Option<f64>,
    /// Ask the file's queries in a random order (within 65536 of them if the file is over 256 MiB)
    #[arg(long, requires = "input")]
    shuffle: bool,
    /// Refuse a file that holds a malformed query; by default malformed queries are left out and counted
    #[arg(long, requires = "input")]
    strict_input: bool,
    /// Number of this Measurer, and number of Measurers that share the names: Measurer K asks for every N-th
    /// name from the K-th on. All of them need the same --first-name
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    agent: Agent,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Load model: constant, poisson, steps, ramp, sine, rates, burst, or a closed loop
    #[arg(long, value_name = "MODEL", default_value = "constant", help = load::HELP, value_parser = load::model)]
    load: Model,
    /// Set DO: ask for DNSSEC records
    #[arg(long)]
    dnssec_ok: bool,
    /// Set CD: ask the server not to validate
    #[arg(long)]
    cd: bool,
    /// Set AD: ask whether the answer is authentic
    #[arg(long)]
    ad: bool,
    /// Ask for the server's identifier (RFC 5001)
    #[arg(long)]
    nsid: bool,
    /// Pad queries to a multiple of so many octets (RFC 7830)
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(1..=468))]
    padding: Option<u16>,
    /// Add a client subnet of this range, a different one in each query (RFC 7871)
    #[arg(long, value_name = "PREFIX")]
    ecs: Option<Range>,
    /// Send a client cookie for each source, and the server's cookie from its last answer (RFC 7873)
    #[arg(long)]
    cookie: bool,
    /// Add an EDNS option with this code and data to each query; may be repeated
    #[arg(long = "edns-option", value_name = "CODE[:HEX]")]
    edns_options: Vec<EdnsOption>,
    /// Sign each query with the key in FILE, as tsig-keygen writes it, and verify the answers (TSIG, RFC
    /// 8945)
    #[arg(long, value_name = "FILE", value_parser = tsig::key)]
    tsig: Option<Arc<Key>>,
}

fn speed(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times| (0.001..=1000.0).contains(times));
    times.ok_or_else(|| "must be a number from 0.001 to 1000".to_owned())
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.01..=20.0).contains(exponent));
    exponent.ok_or_else(|| "must be a number from 0.01 to 20".to_owned())
}

impl WorkloadArgs {
    /// How the queries lie in time; that of a Poisson process without a seed of its own follows `--seed`.
    pub fn load(&self) -> Model {
        match self.load {
            Model::Poisson { seed: 0 } => Model::Poisson { seed: self.seed },
            load => load,
        }
    }

    /// Whether queries are asked at the times that their file has.
    fn replays(&self) -> bool {
        self.input.is_some() && self.input_format == Format::Timed
    }

    /// Refuses what changes the times of a replay, or has none.
    fn check_replay(&self) -> Result<(), Failure> {
        let (replays, paced) = (self.replays(), self.load != Model::Constant);
        let wrong = [
            (replays && self.shuffle, "--shuffle: a replay asks in the order of its times; leave it out"),
            (replays && paced, "--load: a replay has its own times; leave it out"),
            (!replays && self.speed.is_some(), "--speed is for --input-format timed"),
        ];
        let found = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
        found.map_or(Ok(()), |(_, message)| Err(Failure::new(EXIT_USAGE, message)))
    }

    /// Whether the names of the range are asked one after another.
    pub(crate) fn asks_in_turn(&self) -> bool {
        self.zipf.is_none() && !self.random_labels && self.input.is_none()
    }

    /// Whether nobody knows the answers to the queries.
    pub(crate) fn expects_any_response(&self) -> bool {
        self.random_labels || self.input.is_some() || self.qclass != QueryClass::default()
    }

    /// Refuses what a self-test does not do: it asks each name once at a constant rate (RFC 8219 9.2.1).
    ///
    /// # Errors
    /// The option.
    pub(crate) fn check_selftest(&self) -> Result<(), Failure> {
        let options = [
            (self.load != Model::Constant, "--load"),
            (self.cached_share > 0, "--cached-share"),
            (self.zipf.is_some(), "--zipf"),
            (self.random_labels, "--random-labels"),
            (self.repeat, "--repeat"),
            (self.input.is_some(), "--input"),
            (self.qclass != QueryClass::default(), "--qclass"),
            (self.tsig.is_some(), "--tsig"),
        ];
        let Some((_, option)) = options.iter().find(|(given, _)| *given) else { return Ok(()) };
        let message = format!(
            "a self-test asks each name once at a constant rate (RFC 8219 9.2.1): leave out {option}"
        );
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// Refuses experiments that so many threads cannot share: each runs whole ones.
    ///
    /// # Errors
    /// Their number is no multiple of the threads.
    pub(crate) fn check_threads(&self, threads: usize) -> Result<(), Failure> {
        match self.load {
            Model::Experiments { count: Some(count), .. }
                if !(count as usize).is_multiple_of(threads.max(1)) =>
            {
                let message = format!(
                    "--load {}: {threads} threads cannot share {count} experiments equally: use a multiple of {threads}",
                    self.load
                );
                Err(Failure::new(EXIT_USAGE, message))
            }
            _ => Ok(()),
        }
    }

    /// Refuses flags and options where the file holds whole messages, which leave as they stand.
    fn check_messages(&self, edns: bool) -> Result<(), Failure> {
        let asked = edns || self.options() != QueryOptions::default();
        if self.input_format != Format::Wire || !asked {
            return Ok(());
        }
        let message =
            "--input-format wire: whole messages are sent as they stand; leave out flags and EDNS options";
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// Flags and EDNS options of the queries.
    fn options(&self) -> QueryOptions {
        QueryOptions {
            dnssec_ok: self.dnssec_ok,
            checking_disabled: self.cd,
            authentic_data: self.ad,
            nsid: self.nsid,
            padding_octets: self.padding,
            ecs: self.ecs,
            cookie: self.cookie,
            others: self.edns_options.clone(),
        }
    }

    /// The load where a rate is searched for.
    ///
    /// # Errors
    /// A load that has rates of its own, or none.
    pub(crate) fn load_for_search(&self) -> Result<Model, Failure> {
        if self.replays() {
            let message = "--input-format timed: a replay has no rate to search for; use sextant trial";
            return Err(Failure::new(EXIT_USAGE, message));
        }
        let load = self.load();
        if load.needs_rate() {
            return Ok(load);
        }
        let message =
            format!("--load {load} has no rate to search for: use constant, poisson or burst:QUERIES");
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// The rate of a trial in q/s; 1 where the load has rates of its own.
    ///
    /// # Errors
    /// There is none and the load needs one, or the other way round.
    pub fn rate_qps(&self, rate_qps: Option<u64>) -> Result<u64, Failure> {
        if self.replays() {
            let message = "--rate: a replay has its own times; leave it out, --speed makes it faster";
            return rate_qps.map_or(Ok(1), |_| Err(Failure::new(EXIT_USAGE, message)));
        }
        match (self.load.needs_rate(), rate_qps) {
            (true, Some(rate_qps)) => Ok(rate_qps),
            (false, None) => Ok(1),
            (true, None) => Err(Failure::new(EXIT_USAGE, format!("--load {} needs a --rate", self.load))),
            (false, Some(_)) => {
                let why = if self.load.is_closed() { "answers set its pace" } else { "it has its own rates" };
                Err(Failure::new(EXIT_USAGE, format!("--load {} takes no --rate: {why}", self.load)))
            }
        }
    }

    /// Adds what these options ask for to a target; reads the query file.
    ///
    /// # Errors
    /// A file that cannot be used, or agents that would not know their names.
    pub fn apply(&self, query: &QueryArgs, target: &mut Target) -> Result<(), Failure> {
        if self.agent != Agent::default() && query.first_name.is_none() {
            let message = "--agent: the Measurers share names only if all are given the same --first-name";
            return Err(Failure::new(EXIT_USAGE, message));
        }
        if let Some(beyond) = query.first_name.filter(|first| *first >= query.places()) {
            let last = query.places() - 1;
            let message = format!("--first-name {beyond}: the names are numbered from 0 to {last}");
            return Err(Failure::new(EXIT_USAGE, message));
        }
        self.check_messages(query.edns.is_some())?;
        self.check_replay()?;
        let (choice, times_ns) = self.choice(query.names)?;
        target.load = self.load();
        if self.replays() {
            let (first_ns, speed) = (times_ns.first().copied().unwrap_or(0), self.speed.unwrap_or(1.0));
            let faster = |time_ns: &u64| ((time_ns - first_ns) as f64 / speed) as u64;
            let times = Times::new(times_ns.iter().map(faster).collect())
                .ok_or_else(|| Failure::new(EXIT_USAGE, "--input: no times"))?;
            target.load = Model::Replay(times);
        }
        target.workload.variation = Variation {
            choice,
            agent: self.agent,
            types: self.qtype,
            class: self.qclass,
            options: self.options(),
            tsig: self.tsig.clone(),
            any_response: query.validity == ValidityArg::Response || self.expects_any_response(),
            seed: self.seed,
        };
        Ok(())
    }

    /// What is asked, and when, where the queries have times.
    fn choice(&self, names: NameSpace) -> Result<(Choice, Vec<u64>), Failure> {
        if self.repeat {
            let names = u32::try_from(names.size()).unwrap_or(u32::MAX);
            return Ok((Choice::OverAndOver { names }, Vec::new()));
        }
        if let Some(path) = &self.input {
            let source = Source {
                path: path.clone(),
                format: self.input_format,
                shuffle: self.shuffle.then_some(self.seed),
                strict: self.strict_input,
            };
            return recorded(&source);
        }
        let choice = match (self.zipf, self.random_labels, self.cached_share) {
            (Some(exponent), ..) => Choice::Zipf { exponent },
            (None, true, _) => Choice::RandomLabels,
            (None, false, 0) => Choice::Each,
            (None, false, share_pct) => Choice::Cached { share_pct, hot_names: self.hot_names },
        };
        Ok((choice, Vec::new()))
    }

    /// Refuses records that would leave the cache before a trial with a cached share ends.
    ///
    /// # Errors
    /// The TTL is too short.
    pub(crate) fn check_ttl(&self, ttl_s: u32, trial_ns: u64) -> Result<(), Failure> {
        // The names are asked some seconds before the trial begins.
        let needed_s = trial_ns.div_ceil(1_000_000_000) + 10;
        if self.cached_share == 0 || u64::from(ttl_s) >= needed_s {
            return Ok(());
        }
        let message = format!(
            "--cached-share: with a TTL of {ttl_s} s the names leave the cache before the trial ends: use --ttl {needed_s} or more"
        );
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// The part of the record's settings that these options fix.
    pub fn settings(&self, base: Settings) -> Settings {
        Settings {
            cached_share_pct: self.cached_share,
            load: if self.replays() {
                LoadModel::Replay { speed: Some(self.speed.unwrap_or(1.0)) }
            } else {
                self.load().into()
            },
            workload: self.words().join(", "),
            ..base
        }
    }

    /// What differs from a AAAA query for each name.
    fn words(&self) -> Vec<String> {
        let Agent { index, agents } = self.agent;
        let flag = |set: bool, name: &str| set.then(|| name.to_owned());
        let shuffled = if self.shuffle { ", shuffled" } else { "" };
        let random = self.zipf.is_some()
            || self.random_labels
            || self.shuffle
            || self.ecs.is_some()
            || self.cookie
            || matches!(self.load, Model::Poisson { .. });
        let words = [
            (self.cached_share > 0).then(|| {
                format!("{} % of the queries for {} cached names", self.cached_share, self.hot_names)
            }),
            (self.qtype != TypeMix::default()).then(|| format!("types {}", self.qtype)),
            (self.qclass != QueryClass::default()).then(|| format!("class {}", self.qclass)),
            self.zipf.map(|exponent| format!("Zipf {exponent}")),
            flag(self.random_labels, "random labels"),
            flag(self.repeat, "names over and over"),
            self.input.as_deref().map(|path| format!("queries of {}{shuffled}", path.display())),
            (agents > 1).then(|| format!("agent {} of {agents}", index + 1)),
            flag(self.dnssec_ok, "DO"),
            flag(self.cd, "CD"),
            flag(self.ad, "AD"),
            flag(self.nsid, "NSID"),
            self.padding.map(|octets| format!("padding {octets}")),
            self.ecs.map(|range| format!("ECS {range}")),
            flag(self.cookie, "cookie"),
            (!self.edns_options.is_empty()).then(|| {
                let options: Vec<String> = self.edns_options.iter().map(ToString::to_string).collect();
                format!("EDNS options {}", options.join(" "))
            }),
            self.tsig.as_ref().map(|key| format!("TSIG {} {}", key.algorithm().name(), key.name())),
            random.then(|| format!("seed {}", self.seed)),
        ];
        words.into_iter().flatten().collect()
    }
}

/// Reads the file, and says which lines were left out.
fn recorded(source: &Source) -> Result<(Choice, Vec<u64>), Failure> {
    let loaded = workload_file::load(source).map_err(|error| {
        let code = if matches!(error, FileError::Changed(_)) { EXIT_UNFIT } else { EXIT_USAGE };
        Failure::new(code, format!("--input: {error}"))
    })?;
    if let Some(first) = &loaded.first_skipped {
        let (path, skipped) = (source.path.display(), loaded.skipped);
        // The rest of a large file is read while it is asked.
        let of = if matches!(loaded.recording, Recording::Stream(_)) {
            "of what was read so far"
        } else {
            "in all"
        };
        eprintln!("sextant: {path}: {first}; {skipped} left out {of} (--strict-input refuses them)");
    }
    let whole_messages = source.format == Format::Wire;
    Ok((Choice::Recorded { recording: loaded.recording, whole_messages }, loaded.times_ns))
}
