//! One visit: this program again, with the visit's command line.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use report::series::VisitRecord;

/// How often a visit is looked at.
const POLL: Duration = Duration::from_millis(50);
/// A visit that was asked to end may write down what it has for so long.
const ENDING: Duration = Duration::from_secs(30);

pub(super) enum VisitEnd {
    Complete,
    /// Without; why.
    Failed(String),
    /// With a trial that the Tester or the machine spoilt: how. Another one may be better.
    Void(String),
    /// The user ended the campaign.
    Interrupted,
}

/// Makes a visit: its results go to a directory, its words to a log. `tick` is called while it runs; one that
/// takes longer than `longest` is ended.
///
/// # Errors
/// The log cannot be written, or the process cannot be started.
pub(super) fn visit(
    arguments: &[String],
    directory: &Path,
    log: &Path,
    longest: Duration,
    stop: &AtomicBool,
    tick: impl FnMut(),
) -> io::Result<VisitEnd> {
    let words = File::create(log)?;
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments).arg("--out").arg(directory);
    command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
    // An interrupt at the terminal comes to us alone; we pass it on once, for a second one would end it at
    // once.
    command.process_group(0);
    let mut child = sys::process::die_with_parent(&mut command).spawn()?;
    let status = wait(&mut child, longest, stop, tick)?;
    let Some(status) = status else {
        return Ok(VisitEnd::Failed(format!("it was ended, as it took longer than {} s", longest.as_secs())));
    };
    // A failed trial is a measured one, and a ladder has something to say then; a failed search found no
    // rate.
    let may_fail = arguments.first().is_some_and(|command| command == "trial" || command == "preflight");
    let measured = status.success() || (may_fail && status.code() == Some(1));
    match VisitRecord::load(arguments, directory).map(|visited| visited.check()) {
        Ok(Ok(())) if measured => return Ok(VisitEnd::Complete),
        Ok(Err(Some(why))) if !stop.load(Ordering::Relaxed) => return Ok(VisitEnd::Void(why)),
        _ => {}
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(VisitEnd::Interrupted);
    }
    Ok(VisitEnd::Failed(reason(status, &fs::read_to_string(log).unwrap_or_default())))
}

/// Waits until it has ended; `None` if it had to be made to.
fn wait(
    child: &mut Child,
    longest: Duration,
    stop: &AtomicBool,
    mut tick: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    let (started, mut asked): (_, Option<Instant>) = (Instant::now(), None);
    let mut too_long = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!too_long).then_some(status));
        }
        too_long |= started.elapsed() > longest;
        match asked {
            None if too_long || stop.load(Ordering::Relaxed) => {
                // One that has just ended is found by the next look.
                let _ = sys::process::terminate(child.id());
                asked = Some(Instant::now());
            }
            Some(asked) if asked.elapsed() > ENDING => child.kill()?,
            _ => {}
        }
        tick();
        std::thread::sleep(POLL);
    }
}

/// The last words of a visit that failed.
fn reason(status: ExitStatus, log: &str) -> String {
    let last = log.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let complaint = last.strip_prefix("sextant: ").map(report::one_line);
    match (status.signal(), complaint) {
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (None, Some(complaint)) => complaint,
        // A measurement that came to its end without a rate complains of nothing.
        (None, None) if status.code() == Some(1) => "no rate passed".to_owned(),
        (None, None) => format!("exit code {}", status.code().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_visit_said_last_is_the_reason() {
        let ended = |code: i32| ExitStatus::from_raw(code);
        assert_eq!(reason(ended(9), "x"), "it was ended by signal 9");
        assert_eq!(reason(ended(3 << 8), "a\nsextant: port 53 is taken\n\n"), "port 53 is taken");
        assert_eq!(reason(ended(1 << 8), "sextant: nobody answers"), "nobody answers");
        assert_eq!(reason(ended(1 << 8), "Report: x"), "no rate passed");
        assert_eq!(reason(ended(2 << 8), ""), "exit code 2");
    }
}
