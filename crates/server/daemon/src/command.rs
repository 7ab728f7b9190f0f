//! The command line of dns64d, from which its manual page and completions are made, too.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::{Level, Words};

/// Where the control socket is if nobody says so.
pub const CONTROL_SOCKET: &str = "/run/dns64d/control.sock";

const SERVING: &str = "\
Examples:
  dns64d --config /etc/dns64d/dns64d.toml
  dns64d --config /etc/dns64d/dns64d.toml --check-config
      before a restart or a reload";

const ASKING: &str = "\
Examples:
  dns64d control status
  dns64d control upstreams --json
  dns64d control reload                      after its configuration was changed
  dns64d control flush below example.com     also: all, failures, or a name
  dns64d control log debug                   until the next reload
  dns64d control --config ./dns64d.toml stats
  dns64d control cache";

/// A DNS64 forwarder: answers AAAA questions for IPv4-only names with addresses under a NAT64 prefix
/// (RFC 6147).
///
/// Exit codes: 0 done, 1 the server refused a control command, 2 bad usage or configuration, 3 the machine
/// does not allow it, or no server answers on the control socket.
#[derive(Clone, Debug, Parser)]
#[command(name = "dns64d", version, subcommand_negates_reqs = true, args_conflicts_with_subcommands = true,
          after_help = SERVING)]
pub struct CommandLine {
    /// The configuration file (TOML); SIGHUP reads it again
    #[arg(long, value_name = "FILE", required = true)]
    pub config: Option<PathBuf>,
    /// Check the configuration and exit: 0 when it is good, 2 when it is not
    #[arg(long)]
    pub check_config: bool,
    /// What to do instead of serving.
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// What to do instead of serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Task {
    /// Query or control a running dns64d over its control socket
    Control(Control),
}

/// What to ask a running server.
#[derive(Args, Clone, Debug)]
#[command(after_help = ASKING)]
pub struct Control {
    /// Control socket of the running dns64d; without this and --config, /run/dns64d/control.sock
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file of the running dns64d, to find the control socket
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The command that is sent to the running server.
    #[command(subcommand)]
    pub command: ControlCommand,
}

/// A command of the control socket.
#[derive(Clone, Debug, Subcommand)]
pub enum ControlCommand {
    /// Version, process, user, addresses and time since the start
    Status,
    /// All counters since the start
    Stats,
    /// Contents and counters of the cache
    Cache,
    /// Each upstream server: up or down, queries, answers, timeouts, round-trip time
    Upstreams,
    /// Read the configuration file again; if the file has an error, the old configuration stays in force
    Reload,
    /// Remove entries from the cache
    Flush {
        /// `all`, `failures`, a NAME (all its types), or `below NAME` (the name and all names below);
        /// write a NAME that is one of these words with a final dot
        #[arg(required = true, num_args = 1..=2, value_name = "WHAT")]
        what: Vec<String>,
    },
    /// Change how much is logged, until the next reload
    Log {
        /// The new level
        level: Level,
    },
}

impl ControlCommand {
    /// The command as the control socket reads it.
    pub fn line(&self) -> String {
        match self {
            Self::Status => "status".to_owned(),
            Self::Stats => "stats".to_owned(),
            Self::Cache => "cache".to_owned(),
            Self::Upstreams => "upstreams".to_owned(),
            Self::Reload => "reload".to_owned(),
            Self::Flush { what } => format!("flush {}", what.join(" ")),
            Self::Log { level } => format!("log {}", level.word()),
        }
    }
}

/// The command line for programs that make manual pages and completions from it.
pub fn command() -> clap::Command {
    CommandLine::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<CommandLine, clap::error::ErrorKind> {
        CommandLine::try_parse_from([&["dns64d"], words].concat()).map_err(|error| error.kind())
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_configuration_or_a_command_is_needed() {
        use clap::error::ErrorKind::MissingRequiredArgument;
        assert_eq!(parse(&[]).unwrap_err(), MissingRequiredArgument);
        assert_eq!(parse(&["--check-config"]).unwrap_err(), MissingRequiredArgument);
        let line = parse(&["--config", "a.toml", "--check-config"]).unwrap();
        assert!(line.check_config && line.task.is_none() && line.config == Some("a.toml".into()));
    }

    #[test]
    fn control_commands_become_lines() {
        let line = |words: &[&str]| match parse(&[&["control"], words].concat()).map(|line| line.task) {
            Ok(Some(Task::Control(control))) => (control.command.line(), control.json),
            other => panic!("{other:?}"),
        };
        assert_eq!(line(&["status"]), ("status".into(), false));
        assert_eq!(line(&["stats", "--json"]), ("stats".into(), true));
        assert_eq!(line(&["--json", "cache"]), ("cache".into(), true));
        assert_eq!(line(&["flush", "below", "example.com"]), ("flush below example.com".into(), false));
        assert_eq!(line(&["log", "debug"]), ("log debug".into(), false));
        assert!(parse(&["control", "flush"]).is_err());
        assert!(parse(&["control", "log", "loud"]).is_err());
        assert!(parse(&["control", "--socket", "a", "--config", "b", "status"]).is_err());
    }
}
