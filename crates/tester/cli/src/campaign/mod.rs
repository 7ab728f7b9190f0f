//! `sextant campaign`: many measurements as a file says, and their report.

mod ab;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};

use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE, forecast};
use crate::failure::{Failure, print, print_json};
use crate::options::stop_on_signals;
use campaign::series::{Campaign, Description, Outcome, value_of, visits};
use campaign::{Store, empty_results, short_duration};
use lab::environment::Manifest;
use lab::peers::{self, Server, authoritative};
use record::Kind;
use record::campaign::{FILE, Form, SCHEMA, Series, Visit, VisitState};
use report::series::SeriesError;

/// Options of `sextant campaign`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant campaign list                                all campaigns, and how long they take
  sextant campaign run dns64-shootout                  the quick form
  sextant campaign run p003-dispersion --preset full   as the paper did it
  sextant campaign show dns64-shootout > mine.toml     its description, to change
  sextant campaign plan mine.toml                      each visit with its command and forecast
  sextant campaign run mine.toml                       your own
  sextant campaign ab 'bench --peer dns64d' 'bench --peer unbound' --rounds 4
      A and B in turns, and whether B is better, worse or the same
  sextant campaign resume results/2025-07-31T140211Z-dns64-shootout
Exit codes: 0 all measured, 1 some measurements failed, 2 bad usage or description, 3 ended early, or the disk is full")]
pub struct CampaignArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// List the campaigns that come with the program, and about how long they take
    List,
    /// Print the description of a campaign
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the measurements of a campaign in their order
    Plan(Which),
    /// Run all measurements of a campaign
    Run {
        #[command(flatten)]
        which: Which,
        /// Directory of the campaign [default: results/TIME-NAME]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        #[command(flatten)]
        shown: PrintArgs,
    },
    /// Run two measurements in turns, and say whether the second is better
    Ab(ab::AbArgs),
    /// Continue an interrupted campaign, and repeat its failed measurements
    Resume {
        /// Directory of the campaign
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        #[command(flatten)]
        shown: PrintArgs,
    },
}

/// Which campaign.
#[derive(Args, Clone, Debug)]
struct Which {
    /// A campaign that comes with the program, or a file
    #[arg(value_name = "NAME|FILE")]
    name: String,
    /// Length and number of the measurements
    #[arg(long, value_enum, default_value_t)]
    preset: Preset,
}

/// [`Form`] on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Preset {
    /// An orientation, in minutes
    #[default]
    Quick,
    /// As the paper or the RFC asks, in hours or days
    Full,
}

impl From<Preset> for Form {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Quick => Self::Quick,
            Preset::Full => Self::Full,
        }
    }
}

/// What is printed at the end.
#[derive(Args, Clone, Debug)]
struct PrintArgs {
    /// Print the cells as JSON
    #[arg(long)]
    json: bool,
}

/// Does what was asked.
///
/// # Errors
/// A campaign that does not exist or cannot be read, a directory that cannot be written.
pub fn run(args: &CampaignArgs) -> Result<ExitCode, Failure> {
    match &args.action {
        Action::List => list(),
        Action::Show { name } => {
            let (_, text) = find(name)?;
            print(&text).map(|()| ExitCode::SUCCESS)
        }
        Action::Plan(which) => plan(which),
        Action::Run { which, out, shown } => begin(which, out.as_deref(), shown),
        Action::Ab(args) => ab::run(args),
        Action::Resume { directory, shown } => resume(directory, shown),
    }
}

fn find(name: &str) -> Result<(Description, String), Failure> {
    Description::find(name).map_err(|error| Failure::new(EXIT_USAGE, error))
}

/// The visits with what each is known to take, those that cannot be made marked so.
fn prepared(name: &str, description: &Description, form: Form) -> Result<Vec<Visit>, Failure> {
    let mut visits = visits(description, form);
    // Looking for a server runs it for its version: once is enough.
    let mut looked_for: HashMap<String, Option<String>> = HashMap::new();
    for visit in &mut visits {
        let time = forecast(&visit.arguments).map_err(|reason| {
            let command = visit.arguments.join(" ");
            Failure::new(EXIT_USAGE, format!("{name}: 'sextant {command}' cannot be run: {reason}"))
        })?;
        visit.forecast_s = time.as_secs_f64();
        let server =
            SERVERS.iter().filter_map(|option| value_of(&visit.arguments, option)).collect::<String>();
        let missing = looked_for.entry(server).or_insert_with(|| missing(&visit.arguments));
        if let Some(why) = missing.clone().or_else(|| missing_processor(&visit.arguments)) {
            visit.state = VisitState::Missing(why);
        }
    }
    Ok(visits)
}

/// The options that name a server.
const SERVERS: [&str; 2] = ["--peer", "--authoritative"];

/// Why the server of a visit cannot be started here.
fn missing(arguments: &[String]) -> Option<String> {
    let server: &Server = if let Some(name) = value_of(arguments, "--authoritative") {
        let server = authoritative::find(name).ok()?;
        if let Some(why) = server.by_hand {
            return Some(why.to_owned());
        }
        server
    } else {
        let peer = peers::find(value_of(arguments, "--peer")?).ok()?;
        if peer.by_hand.is_some() {
            return Some(format!("{} must be started by hand; measure it with --dut", peer.name));
        }
        peer
    };
    peers::locate(server).err().map(|error| error.to_string())
}

/// Why the server of a visit cannot have its processors.
fn missing_processor(arguments: &[String]) -> Option<String> {
    let usable = sys::cpu::available();
    let mut cpus = value_of(arguments, "--dut-cpus")?.split(',').filter_map(|cpu| cpu.parse().ok());
    let missing: usize = cpus.find(|cpu| !usable.contains(cpu))?;
    Some(format!("there is no processor {missing} for it"))
}

fn time_of(visits: &[Visit]) -> Duration {
    let open = visits.iter().filter(|visit| visit.state == VisitState::Pending);
    Duration::from_secs_f64(open.map(|visit| visit.forecast_s).sum())
}

fn list() -> Result<ExitCode, Failure> {
    for (name, description) in Description::shipped() {
        let times = [Form::Quick, Form::Full].map(|form| {
            let visits = prepared(name, &description, form)?;
            Ok(format!("{} {}", form.name(), short_duration(time_of(&visits))))
        });
        let times = times.into_iter().collect::<Result<Vec<_>, Failure>>()?.join(", ");
        print(&format!("{name:<18} {} ({times})\n", description.title))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(which: &Which) -> Result<ExitCode, Failure> {
    let (description, _) = find(&which.name)?;
    let visits = prepared(&which.name, &description, which.preset.into())?;
    for visit in &visits {
        let words = match &visit.state {
            VisitState::Missing(why) => format!("left out: {why}"),
            _ => short_duration(Duration::from_secs_f64(visit.forecast_s)),
        };
        print(&format!("sextant {}   # round {}, {words}\n", visit.arguments.join(" "), visit.round))?;
    }
    let count = visits.iter().filter(|visit| visit.state == VisitState::Pending).count();
    print(&format!("# {count} measurements, about {}\n", short_duration(time_of(&visits))))?;
    Ok(ExitCode::SUCCESS)
}

fn begin(which: &Which, out: Option<&Path>, shown: &PrintArgs) -> Result<ExitCode, Failure> {
    start(find(&which.name)?, which.preset.into(), out, shown).map(|(_, code)| code)
}

/// Makes all visits; returns the campaign's directory too.
fn start(
    (description, text): (Description, String),
    form: Form,
    out: Option<&Path>,
    shown: &PrintArgs,
) -> Result<(PathBuf, ExitCode), Failure> {
    let visits = prepared(&description.name, &description, form)?;
    if let Some(directory) = out.filter(|directory| directory.join(FILE).exists()) {
        let directory = directory.display();
        let message =
            format!("{directory} holds a campaign already: go on with 'sextant campaign resume {directory}'");
        return Err(Failure::new(EXIT_USAGE, message));
    }
    let unfit = |error: std::io::Error| Failure::new(EXIT_UNFIT, error);
    let store =
        Store::create(Path::new("results"), out, &description.name, SystemTime::now()).map_err(unfit)?;
    let before = Manifest::take();
    store.save_json("manifest.json", &before).map_err(unfit)?;
    let empty = empty_results(Kind::Campaign);
    let series = Series {
        schema: SCHEMA,
        name: description.name,
        title: description.title,
        about: description.about,
        form,
        tool: empty.tool,
        started_utc: empty.started_utc,
        finished_utc: None,
        machine: machine(&before),
        figures: description.figure,
        published: description.published,
        visits,
        description: text,
    };
    let directory = store.directory().to_path_buf();
    conduct(series, store, shown).map(|code| (directory, code))
}

/// The machine in a few words.
fn machine(manifest: &Manifest) -> String {
    let model = manifest.processor.model.as_deref().unwrap_or("an unknown processor");
    format!("{} x {model}, Linux {}", sys::cpu::available().len(), manifest.kernel_release)
}

fn resume(directory: &Path, shown: &PrintArgs) -> Result<ExitCode, Failure> {
    let mut series =
        report::series::load(directory).map_err(|error: SeriesError| Failure::new(EXIT_USAGE, error))?;
    // What was missing may have come.
    for visit in &mut series.visits {
        let gone = || missing(&visit.arguments).or_else(|| missing_processor(&visit.arguments));
        if matches!(visit.state, VisitState::Missing(_)) && gone().is_none() {
            visit.state = VisitState::Pending;
        }
    }
    conduct(series, Store::at(directory), shown)
}

fn conduct(series: Series, store: Store, shown: &PrintArgs) -> Result<ExitCode, Failure> {
    let directory = store.directory().to_path_buf();
    let unfit = |error: std::io::Error| {
        let directory = directory.display();
        Failure::new(
            EXIT_UNFIT,
            format!(
                "{error}; what was measured is in {directory}, go on with 'sextant campaign resume {directory}'"
            ),
        )
    };
    let stop = stop_on_signals()?;
    let campaign = Campaign::new(series, store, stop, shown.json);
    campaign.announce();
    let (series, outcome) = campaign.run().map_err(unfit)?;
    let table = report::series::table(&series, &directory);
    report::series::write_all(&series, &table, &directory).map_err(unfit)?;
    if shown.json {
        print_json(&table)?;
    } else {
        let page = directory.join("report.html");
        print(&format!("{}\nReport: {}\n", report::series::text(&series, &table), page.display()))?;
    }
    match outcome {
        Outcome::Finished { failed: 0 } => Ok(ExitCode::SUCCESS),
        Outcome::Finished { failed } => {
            let message = format!(
                "{failed} of {} measurements failed; try them again with 'sextant campaign resume {}'",
                series.visits.len(),
                directory.display()
            );
            Err(Failure::new(EXIT_FAILED, message))
        }
        Outcome::Interrupted => {
            let message =
                format!("interrupted; go on with 'sextant campaign resume {}'", directory.display());
            Err(Failure::new(EXIT_UNFIT, message))
        }
    }
}
