//! `sextant lab`: Tester, DUT and AuthDNS on one machine.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use lab::network::mark::namespace;
use lab::network::plan::{SOURCES_IPV4, SOURCES_IPV6};
use lab::network::remove::{Removal, down};
use lab::network::status::{DeviceStatus, State, Status, all};
use lab::network::{End, Lab, LabSpec, Role, find_program};

/// Exit code of a program that is not there, as in shells.
const EXIT_NO_PROGRAM: u8 = 127;

/// Options of `sextant lab`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant lab up
      three network namespaces, joined by veth pairs; prints their addresses
  sextant lab run --in dut -- sextant echo --listen '[::]:53'
  sextant lab run -- sextant trial --server '[2001:2:0:12::2]:53' --rate 100000 --validity response
  sextant lab status
  sextant lab down
  sextant lab run -- dnsperf -s 198.18.12.2 -d queries
      without a lab that is up: in one of its own, removed again at the end")]
pub struct LabArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Make the namespaces and their links
    Up {
        #[command(flatten)]
        spec: SpecArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove the namespaces, also those that killed commands left
    Down {
        /// The lab
        #[arg(long, value_name = "NAME", default_value = "sextant")]
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a namespace, and exit with its exit code
    Run(RunArgs),
    /// Print the labs that exist and the counters of their devices
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Debug, Args)]
struct SpecArgs {
    /// The lab; its namespaces are NAME-tester, NAME-dut and NAME-auth
    #[arg(long, value_name = "NAME", default_value = "sextant")]
    name: String,
    /// Queues of every device, in each direction [default: one for each processor]
    #[arg(long, value_name = "N")]
    queues: Option<u16>,
    /// Whether messages of several datagrams (UDP_SEGMENT, TSO) cross a link in one piece, unlike on a real
    /// wire
    #[arg(long, value_enum, value_name = "ON|OFF", default_value_t = Switch::Off)]
    segmentation: Switch,
    /// Processor for the network stack of a role, as [ROLE=]N; may be repeated
    /// [default: the sender's processor]
    #[arg(long, value_name = "[ROLE=]N", value_parser = napi_cpu)]
    napi_cpu: Vec<(Role, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Where to run it
    #[arg(long = "in", value_enum, value_name = "ROLE", default_value_t = Role::Tester)]
    role: Role,
    /// Attach an XDP program that passes everything to the devices in the namespace while the command runs: a
    /// veth without a program drops what its peer sends by XDP_TX or redirect. Not for commands that attach a
    /// program of their own
    #[arg(long)]
    xdp_pass: bool,
    /// The command, after --
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Reads `N` (of the DUT) or `ROLE=N`.
fn napi_cpu(text: &str) -> Result<(Role, usize), String> {
    let (role, cpu) = match text.split_once('=') {
        Some((role, cpu)) => (<Role as ValueEnum>::from_str(role, false)?, cpu),
        None => (Role::Dut, text),
    };
    cpu.parse().map(|cpu| (role, cpu)).map_err(|_| format!("'{cpu}' is not the number of a processor"))
}

impl SpecArgs {
    fn spec(&self) -> LabSpec {
        LabSpec {
            name: self.name.clone(),
            queues: self.queues.unwrap_or(LabSpec::default().queues),
            segmentation: self.segmentation == Switch::On,
            napi_cpus: self.napi_cpu.clone(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::InvalidInput { EXIT_USAGE } else { EXIT_UNFIT };
        Self::new(code, error)
    }
}

/// Does it; `run` ends with the exit code of its command.
///
/// # Errors
/// What is missing, taken or wrong.
pub fn run(args: &LabArgs) -> Result<ExitCode, Failure> {
    match &args.action {
        Action::Up { spec, json } => up(&spec.spec(), *json)?,
        Action::Down { name, json } => tell_removed(name, &down(name)?, *json)?,
        Action::Run(args) => return run_inside(args),
        Action::Status { json: true } => print_json(&all()?)?,
        Action::Status { json: false } => print(&status_text(&all()?))?,
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Description {
    name: String,
    namespaces: Vec<NamespaceInfo>,
    sources: [String; 2],
}

#[derive(Serialize)]
struct NamespaceInfo {
    role: Role,
    namespace: String,
    ends: Vec<End>,
}

fn up(spec: &LabSpec, json: bool) -> Result<(), Failure> {
    let lab = Lab::up(spec)?.stay()?;
    let place = |role: Role| NamespaceInfo {
        role,
        namespace: lab.namespace(role),
        ends: role.peers().map(|towards| lab.end(role, towards)).collect(),
    };
    let description = Description {
        name: lab.name().to_owned(),
        namespaces: Role::ALL.map(place).into(),
        sources: [SOURCES_IPV4, SOURCES_IPV6].map(|network| network.to_string()),
    };
    if json { print_json(&description) } else { print(&up_text(&description)) }
}

fn up_text(lab: &Description) -> String {
    let mut text = format!("The lab '{}' is up:\n", lab.name);
    for place in &lab.namespaces {
        for end in &place.ends {
            let _ = writeln!(
                text,
                "  {:<20} {:<8} {:<15} {:<16} to {}",
                place.namespace, end.device, end.ipv4, end.ipv6, end.towards
            );
        }
    }
    let [ipv4, ipv6] = &lab.sources;
    let (dut, auth) = (End::new(Role::Dut, Role::Tester), End::new(Role::Auth, Role::Dut));
    let name =
        if lab.name == LabSpec::default().name { String::new() } else { format!(" --name {}", lab.name) };
    let _ = write!(
        text,
        "The Tester may also use any source of {ipv4} and {ipv6}.\n\
         Now for example:\n  \
         sextant lab run{name} --in dut -- sextant echo --listen '{}:53' --listen '[{}]:53'\n  \
         sextant lab run{name} --in auth -- sextant auth --listen '{}:53' --listen '[{}]:53'\n  \
         sextant lab run{name} -- sextant trial --server '[{}]:53' --rate 10000 --duration 10 --validity response\n  \
         sextant lab down{name}\n",
        dut.ipv4, dut.ipv6, auth.ipv4, auth.ipv6, dut.ipv6
    );
    text
}

fn tell_removed(name: &str, removed: &Removal, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(removed);
    }
    print(&removed_text(name, removed))?;
    for (pid, program) in &removed.left {
        eprintln!("sextant: process {pid} ({program}) was still inside; it goes on without a network");
    }
    Ok(())
}

fn removed_text(name: &str, removed: &Removal) -> String {
    let is_of_this = |inside: &String| Role::ALL.iter().any(|&role| *inside == namespace(name, role));
    let (this, others): (Vec<String>, Vec<String>) = removed.namespaces.iter().cloned().partition(is_of_this);
    let left_over = format!("Removed {}, left over from labs whose process was killed.\n", others.join(", "));
    match (this.as_slice(), others.as_slice()) {
        ([], []) => format!("There is no lab '{name}', and nothing is left over from others.\n"),
        ([], _) => format!("There is no lab '{name}'. {left_over}"),
        (this, []) => format!("Removed {} with the devices in them.\n", this.join(", ")),
        (this, _) => format!("Removed {} with the devices in them.\n{left_over}", this.join(", ")),
    }
}

fn status_text(labs: &[Status]) -> String {
    if labs.is_empty() {
        return "There is no lab; sextant lab up makes one.\n".into();
    }
    let mut text = String::new();
    for Status { name, state, devices } in labs {
        let state = match state {
            State::Up => "up".to_owned(),
            State::Temporary { pid } => format!("up as long as process {pid}"),
            State::Stale => "left over; the next up or down removes it".to_owned(),
        };
        let _ = writeln!(text, "The lab '{name}' is {state}:");
        for DeviceStatus { namespace, end, received, sent, dropped } in devices {
            let (device, ipv4, ipv6) = (&end.device, end.ipv4, end.ipv6);
            let _ = writeln!(
                text,
                "  {namespace:<20} {device:<8} {ipv4:<15} {ipv6:<16} {received} packets in, {sent} out, {dropped} dropped"
            );
        }
    }
    text
}

fn run_inside(args: &RunArgs) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::new(EXIT_USAGE, "there is no command to run"));
    };
    let spec = args.spec.spec();
    spec.check()?;
    let program = find_program(program).ok_or_else(|| no_program(program))?;
    // Before there is anything to remove: no signal may end this process without removing it.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
    let standing = Lab::find(&spec.name)?;
    if standing.is_some() && spec != (LabSpec { name: spec.name.clone(), ..LabSpec::default() }) {
        eprintln!("sextant: the lab '{}' is up already and stays as it was made", spec.name);
    }
    let lab = standing.map_or_else(|| Lab::up(&spec), Ok)?;
    let passes =
        args.role.peers().filter(|_| args.xdp_pass).map(|towards| lab.attach_pass(args.role, towards));
    let _held = passes.collect::<io::Result<Vec<_>>>()?;
    let mut command = lab.command(args.role, program);
    command.args(arguments);
    let code = supervise(&mut command, &mut signals)?;
    drop(lab);
    Ok(code)
}

fn no_program(program: &OsStr) -> Failure {
    Failure::new(EXIT_NO_PROGRAM, format_args!("there is no program '{}'", program.display()))
}

/// Runs a command to its end, passing on the signals that this process gets. The kernel kills it when this
/// process is killed.
fn supervise(command: &mut Command, signals: &mut Signals) -> io::Result<ExitCode> {
    // A terminal sends Ctrl-C and Ctrl-\ to both; elsewhere the command gets what is passed on, and nothing
    // else.
    let terminal = io::stdin().is_terminal();
    if !terminal {
        command.process_group(0);
    }
    sys::process::die_with_parent(command);
    let mut child = command.spawn().map_err(|error| {
        let text = format!("cannot run {}: {error}", command.get_program().display());
        io::Error::new(error.kind(), text)
    })?;
    let handle = signals.handle();
    let pid = child.id();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for signal in signals.forever() {
                if !(terminal && matches!(signal, SIGINT | SIGQUIT)) {
                    // It may have ended this moment.
                    let _ = sys::process::signal(pid, signal);
                }
            }
        });
        let ended = wait(&mut child);
        handle.close();
        ended
    })
}

fn wait(child: &mut Child) -> io::Result<ExitCode> {
    let status = child.wait()?;
    // wait(2) gives one or the other; 128 and the signal is the code that shells give.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lb_processors_are_given_with_or_without_a_role() {
        assert_eq!(napi_cpu("1"), Ok((Role::Dut, 1)));
        assert_eq!(napi_cpu("tester=0"), Ok((Role::Tester, 0)));
        assert!(napi_cpu("one").unwrap_err().contains("'one' is not the number"));
        assert!(napi_cpu("server=1").is_err());
    }

    #[test]
    fn lb_what_was_removed_is_told_apart_from_what_was_left_over() {
        let told = |namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(ToString::to_string).collect();
            removed_text("mine", &Removal { namespaces, left: Vec::new() })
        };
        assert_eq!(told(&[]), "There is no lab 'mine', and nothing is left over from others.\n");
        let text = told(&["killed-dut"]);
        assert!(text.starts_with("There is no lab 'mine'. Removed killed-dut, left over"), "{text}");
        assert_eq!(told(&["mine-dut"]), "Removed mine-dut with the devices in them.\n");
        let text = told(&["killed-auth", "mine-tester", "mine-dut"]);
        assert!(text.starts_with("Removed mine-tester, mine-dut with") && text.contains("killed-auth, left"));
    }
}
