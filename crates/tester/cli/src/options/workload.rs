//! Options for queries other than RFC 8219's, and for other loads than a constant rate.

use std::sync::Arc;

use clap::Args;
use dns64::{NameSpace, Range};
use engine::pacer::Model;
use engine::tsig::Key;
use engine::workload::{
    Activity, Agent, Choice, EdnsOption, Generator, QueryClass, QueryOptions, Template, TypeMix, Variation,
};
use record::Settings;

use super::{InputArgs, QueryArgs, ValidityArg, load, tsig};
use crate::EXIT_USAGE;
use crate::failure::Failure;
use campaign::Target;

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
    /// Make names from a template: text, {walk:FROM-TO} (counts up, starts over), {draw:FROM-TO} (drawn),
    /// {random:OCTETS} (letters and digits). May be repeated, with shares; without TYPE, --qtype holds. Any
    /// response is valid
    #[arg(
        long = "generate",
        value_name = "[SHARE=]NAME [TYPE]",
        conflicts_with_all = ["cached_share", "zipf", "repeat", "random_labels", "input"]
    )]
    templates: Vec<Template>,
    #[command(flatten)]
    pub input: InputArgs,
    /// Number of this Measurer, and number of Measurers that share the names: Measurer K asks for every N-th
    /// name from the K-th on. All of them need the same --first-name
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    agent: Agent,
    /// Activity of the clients, which are the ports (--ports) or --connections: in-turn, or zipf:S for a
    /// client k of each thread that asks in proportion to k^-S
    #[arg(long, value_name = "LAW", default_value_t)]
    client_activity: Activity,
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
    pub tsig: Option<Arc<Key>>,
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

    /// Whether the names of the range are asked one after another.
    pub(crate) fn asks_in_turn(&self) -> bool {
        self.zipf.is_none() && !self.has_names_of_its_own()
    }

    /// Whether the names are none of the range.
    fn has_names_of_its_own(&self) -> bool {
        self.random_labels || !self.templates.is_empty() || self.input.is_given()
    }

    /// Whether nobody knows the answers to the queries.
    pub(crate) fn expects_any_response(&self) -> bool {
        self.has_names_of_its_own() || self.qclass != QueryClass::default()
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
            (!self.templates.is_empty(), "--generate"),
            (self.repeat, "--repeat"),
            (self.client_activity != Activity::InTurn, "--client-activity"),
            (self.input.is_given(), "--input"),
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
        if !asked || !self.input.has_messages() {
            return Ok(());
        }
        let message = "--input: whole messages (wire, capture) are sent as they stand; leave out flags and EDNS options";
        Err(Failure::new(EXIT_USAGE, message))
    }

    /// Refuses a law for clients where something else tells who asks.
    fn check_activity(&self) -> Result<(), Failure> {
        let refused = match () {
            () if self.client_activity == Activity::InTurn => return Ok(()),
            () if self.input.has_clients() => "the clients of a capture ask as they did; leave it out",
            () if self.load.is_closed() => "in a closed loop answers set the pace; leave it out",
            () => return Ok(()),
        };
        Err(Failure::new(EXIT_USAGE, format!("--client-activity: {refused}")))
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
        if self.input.replays() {
            let message = "--input: a replay has no rate to search for; use sextant trial";
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
        if self.input.replays() {
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

    /// Adds what these options ask for to a target; reads the query file, for trials of that length.
    ///
    /// # Errors
    /// A file that cannot be used, or agents that would not know their names.
    pub fn apply(&self, query: &QueryArgs, target: &mut Target, trial_ns: u64) -> Result<(), Failure> {
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
        self.input.check(self.load)?;
        self.check_activity()?;
        target.load = self.load();
        let choice = match self.input.read(self.seed, trial_ns)? {
            Some(input) => {
                target.load = input.load.unwrap_or(target.load);
                target.replay = input.replay;
                input.choice
            }
            None => self.choice(query.names)?,
        };
        target.workload.variation = Variation {
            choice,
            activity: self.client_activity,
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

    /// What is asked, where no file has it.
    fn choice(&self, names: NameSpace) -> Result<Choice, Failure> {
        if self.repeat {
            return Ok(Choice::OverAndOver { names: u32::try_from(names.size()).unwrap_or(u32::MAX) });
        }
        if !self.templates.is_empty() {
            let generator = Generator::new(self.templates.clone(), self.seed)
                .map_err(|error| Failure::new(EXIT_USAGE, format!("--generate: {error}")))?;
            return Ok(Choice::Generated(Arc::new(generator)));
        }
        Ok(match (self.zipf, self.random_labels, self.cached_share) {
            (Some(exponent), ..) => Choice::Zipf { exponent },
            (None, true, _) => Choice::RandomLabels,
            (None, false, 0) => Choice::Each,
            (None, false, share_pct) => Choice::Cached { share_pct, hot_names: self.hot_names },
        })
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
            load: self.input.load().unwrap_or_else(|| self.load().into()),
            workload: self.words().join(", "),
            ..base
        }
    }

    /// What differs from a AAAA query for each name.
    fn words(&self) -> Vec<String> {
        let Agent { index, agents } = self.agent;
        let flag = |set: bool, name: &str| set.then(|| name.to_owned());
        let random = self.zipf.is_some()
            || self.random_labels
            || !self.templates.is_empty()
            || self.input.shuffle
            || self.ecs.is_some()
            || self.cookie
            || self.client_activity != Activity::InTurn
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
            (!self.templates.is_empty()).then(|| {
                let texts: Vec<&str> = self.templates.iter().map(Template::text).collect();
                format!("names like '{}'", texts.join("', '"))
            }),
            self.input.words(),
            (self.client_activity != Activity::InTurn)
                .then(|| format!("activity of clients {}", self.client_activity)),
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
            self.tsig.as_ref().map(|key| format!("TSIG {key}")),
            random.then(|| format!("seed {}", self.seed)),
        ];
        words.into_iter().flatten().collect()
    }
}
