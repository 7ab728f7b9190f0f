//! Where dns64d spends its time on names that are not cached: `make profile`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;
use lab::peers::Server;

use crate::book::MISSES;
use crate::place::Placement;
use crate::trial::Ask;

/// How long is sampled.
const LENGTH: Duration = Duration::from_secs(5);
/// Samples for each second: no divisor of what timers like.
const FREQUENCY_HZ: &str = "499";
/// Load before and after the samples.
const MARGIN: Duration = Duration::from_secs(1);
/// Functions that are listed.
const LISTED: usize = 15;
/// What the picture shows.
const TITLE: &str = "dns64d, names that are not cached, closed loop";

/// Samples the server under the lab's load, writes the flame graph, and lists the functions that take most.
///
/// # Errors
/// perf is missing or may not sample; what a trial says.
pub fn run(place: &mut Placement, server: &Server, out: &Path) -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("perf.data");
    let running = place.start(server, 1)?;
    let mut perf = record(running.pid(), &data)?;
    let asked = Ask { cell: MISSES, rate_qps: None, length: LENGTH + MARGIN * 2 }.run(place);
    let recorded = perf.wait()?;
    let told = asked?;
    if !recorded.success() {
        return Err(io::Error::other("perf record failed; see its words above"));
    }
    // The server's program may be a copy that goes with it.
    let folded = fold(&data)?;
    running.stop();
    if let Some(parent) = out.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut options = flamegraph::Options::default();
    options.title = TITLE.into();
    options.count_name = "ns".into();
    flamegraph::from_lines(&mut options, folded.lines(), File::create(out)?).map_err(io::Error::other)?;
    println!(
        "{:.0} q/s, {:.2} us per answer, with perf beside it; {}",
        told.answered_qps,
        told.cpu_us,
        out.display()
    );
    print!("{}", hottest(&folded));
    Ok(())
}

/// Starts to sample a process, a moment after the load begins.
fn record(pid: u32, data: &Path) -> io::Result<Child> {
    let script = format!("sleep {}; exec \"$0\" \"$@\"", MARGIN.as_secs());
    // The clock of the kernel: virtual machines often have no counter of cycles. Stacks by the unwinding
    // tables, as nothing is built with frame pointers.
    let mut command = Command::new("sh");
    command.args(["-c", &script, "perf", "record", "-q", "-N", "-e", "cpu-clock", "-F", FREQUENCY_HZ]);
    command.args(["--call-graph", "dwarf,8192", "-p", &pid.to_string(), "-o"]).arg(data);
    command.args(["--", "sleep", &LENGTH.as_secs().to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// Whether perf is there.
///
/// # Errors
/// It is not, and what installs it.
pub fn check() -> io::Result<()> {
    let found = Command::new("perf").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(io::Error::other("perf is not installed; install it with: apt-get install linux-perf")),
    }
}

/// The stacks, each in a line with the number of its samples.
fn fold(data: &Path) -> io::Result<String> {
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "-i"]).arg(data).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = script.stderr(Stdio::null()).spawn()?;
    let mut folded = Vec::new();
    if let Some(stacks) = script.stdout.take() {
        Folder::default().collapse(io::BufReader::new(stacks), &mut folded)?;
    }
    if !script.wait()?.success() || folded.is_empty() {
        return Err(io::Error::other(
            "perf script found no samples: may this user sample others' processes?",
        ));
    }
    Ok(String::from_utf8_lossy(&folded).into_owned())
}

/// The functions in which most samples were taken, in percent.
fn hottest(folded: &str) -> String {
    let mut by_function = BTreeMap::<&str, u64>::new();
    for (stack, samples) in folded.lines().filter_map(|line| line.rsplit_once(' ')) {
        let function = stack.rsplit(';').next().unwrap_or(stack);
        *by_function.entry(function).or_default() += samples.parse().unwrap_or(0);
    }
    let all: u64 = by_function.values().sum();
    let mut sorted: Vec<_> = by_function.into_iter().collect();
    sorted.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    let percent = |samples: u64| samples as f64 * 100.0 / all.max(1) as f64;
    let line = |(function, samples): &(&str, u64)| format!("{:5.1} %  {function}\n", percent(*samples));
    sorted.iter().take(LISTED).map(line).collect()
}
