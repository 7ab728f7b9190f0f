//! A line of the control socket as a command.

use dns64::wire::Name;
use server_core::cache::Flush;

use crate::config::{Level, Words};

/// A control command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Version, process, user, addresses, time since the start.
    Status,
    /// All counters since the start.
    Stats,
    /// Sizes and counters of the cache.
    Cache,
    /// State and counters of each upstream server.
    Upstreams,
    /// Read the configuration file again.
    Reload,
    /// Forget what the cache holds.
    Flush(Box<Flush>),
    /// Change the level of the log.
    Log(Level),
}

/// A command and how its answer is to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command to carry out.
    pub command: Command,
    /// Whether the answer is JSON; otherwise it is text for people.
    pub json: bool,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what there is.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (flags, words): (Vec<&str>, Vec<&str>) =
            line.split_ascii_whitespace().partition(|word| *word == "--json");
        let command = match words[..] {
            ["status"] => Command::Status,
            ["stats"] => Command::Stats,
            ["cache"] => Command::Cache,
            ["upstreams"] => Command::Upstreams,
            ["reload"] => Command::Reload,
            ["flush", ref what @ ..] => Command::Flush(Box::new(flush(what)?)),
            ["log", level] => Command::Log(self::level(level)?),
            _ => {
                return Err(
                    "no such command; there are status, stats, cache, upstreams, reload, flush all, \
                            flush NAME, flush below NAME, flush failures, log LEVEL"
                        .to_owned(),
                );
            }
        };
        Ok(Self { command, json: !flags.is_empty() })
    }
}

fn flush(what: &[&str]) -> Result<Flush, String> {
    let name =
        |text: &str| Name::from_text(text).map_err(|_| format!("'{}' is no name", text.escape_debug()));
    match what {
        ["all"] => Ok(Flush::All),
        ["failures"] => Ok(Flush::Failures),
        ["below", text] => name(text).map(Flush::Below),
        [text] if *text != "below" => name(text).map(Flush::Name),
        _ => Err("flush what? all, failures, NAME or below NAME".to_owned()),
    }
}

fn level(text: &str) -> Result<Level, String> {
    Level::of(text).ok_or_else(|| format!("no such level; there are {}", Level::WORDS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(line: &str) -> Command {
        Request::parse(line).unwrap().command
    }

    #[test]
    fn each_command_is_read() {
        let name = |text| Name::from_text(text).unwrap();
        assert_eq!(Request::parse("stats --json"), Ok(Request { command: Command::Stats, json: true }));
        assert_eq!(Request::parse(" status \r"), Ok(Request { command: Command::Status, json: false }));
        assert_eq!(command("flush all"), Command::Flush(Box::new(Flush::All)));
        assert_eq!(command("flush all."), Command::Flush(Box::new(Flush::Name(name("all")))));
        assert_eq!(
            command("flush below example.com"),
            Command::Flush(Box::new(Flush::Below(name("example.com"))))
        );
        assert_eq!(command("flush failures"), Command::Flush(Box::new(Flush::Failures)));
        assert_eq!(command("log debug"), Command::Log(Level::Debug));
        for command in ["cache", "upstreams", "reload"] {
            assert!(Request::parse(command).is_ok());
        }
    }

    #[test]
    fn errors_say_what_there_is() {
        let error = |line: &str| Request::parse(line).unwrap_err();
        assert!(error("").contains("there are status"));
        assert!(error("status now").contains("there are status"));
        assert!(error("flush").contains("all, failures"));
        assert!(error("flush below").contains("all, failures"));
        assert_eq!(error("flush a..b"), "'a..b' is no name");
        assert!(error("log loud").ends_with("error, warning, info, debug"));
    }

    proptest! {
        #[test]
        fn any_line_is_a_command_or_a_sentence(line in any::<String>(), flush in any::<bool>()) {
            let line = if flush { format!("flush {line}") } else { line };
            if let Err(reason) = Request::parse(&line) {
                prop_assert!(!reason.contains('\n'));
            }
        }
    }
}
