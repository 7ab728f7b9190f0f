//! The program around the server: command line, start, signals, reload, control commands, end.
//!
//! One loop owns the server. Signals, the control socket, the metrics page and threads that end send it
//! events; nothing else touches the server, so nothing needs a lock.

mod answers;
mod events;
mod run;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use sys::given::GivenSocket;

use crate::command::{CONTROL_SOCKET, CommandLine, Control, Task};
use crate::config::Config;
use crate::control::{self, ClientError};
use crate::runtime::{OnEnd, Service, Services, Settle};

/// The server refused a control command.
const EXIT_REFUSED: u8 = 1;
/// Bad usage, or a bad configuration.
const EXIT_BAD_CONFIG: u8 = 2;
/// The machine does not allow it.
const EXIT_ENVIRONMENT: u8 = 3;

/// The program: reads the command line and does what it says. `start` opens the sockets, settles, and starts
/// the server.
pub fn main<S, F>(start: F) -> ExitCode
where
    S: Service,
    F: FnOnce(&Config, Vec<GivenSocket>, &Services, &OnEnd, Settle<'_>) -> Result<S, S::Error>,
{
    let CommandLine { config: file, check_config, task } = CommandLine::parse();
    if let Some(Task::Control(control)) = task {
        return control_command(&control);
    }
    // Without a task the command line has a file.
    let file = file.unwrap_or_default();
    let config = match Config::load(&file) {
        Ok(config) => config,
        Err(error) => return fail(EXIT_BAD_CONFIG, &error),
    };
    if check_config {
        return good(&config, &file);
    }
    match run::run(config, file, start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_ENVIRONMENT, &error),
    }
}

/// The answer to `--check-config`.
fn good(config: &Config, file: &Path) -> ExitCode {
    for warning in &config.warnings {
        say(format_args!("warning: {warning}"));
    }
    match writeln!(io::stdout(), "dns64d: {} is good", file.display()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_ENVIRONMENT, &format_args!("cannot print: {error}")),
    }
}

fn control_command(control: &Control) -> ExitCode {
    let socket = match control_socket(control) {
        Ok(socket) => socket,
        Err(error) => return fail(EXIT_BAD_CONFIG, &error),
    };
    let line = format!("{}{}", control.command.line(), if control.json { " --json" } else { "" });
    match control::ask(&socket, &line) {
        Ok(answer) => match io::stdout().write_all(answer.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(EXIT_ENVIRONMENT, &format_args!("cannot print: {error}")),
        },
        Err(error @ ClientError::Refused(_)) => fail(EXIT_REFUSED, &error),
        Err(error @ ClientError::Unreachable(..)) => fail(EXIT_ENVIRONMENT, &error),
    }
}

/// Where the control socket is, by the option, the configuration file, or the habit.
fn control_socket(control: &Control) -> Result<PathBuf, String> {
    if let Some(socket) = &control.socket {
        return Ok(socket.clone());
    }
    let Some(file) = &control.config else { return Ok(CONTROL_SOCKET.into()) };
    let config = Config::load(file).map_err(|error| error.to_string())?;
    config.control.ok_or_else(|| format!("{}: control.socket: not there; add it", file.display()))
}

fn fail(code: u8, error: &dyn Display) -> ExitCode {
    say(format_args!("{error}"));
    ExitCode::from(code)
}

/// Tells whoever called the program. Without a stderr to write to there is nobody to tell.
fn say(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "dns64d: {words}");
}

#[cfg(test)]
mod tests;
