//! What a person sees: `-q`, `-v`, `--live` and NO_COLOR, on a pseudo-terminal and without one, and `--open`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::running::{STATE_HOME, alone, auth, command, sextant, stderr, stdout};

/// What each line that a terminal draws again begins with, and what colours begin with.
const ESCAPE: char = '\x1b';
const COLOUR: &str = "\x1b[36m";

/// A search of some tenths of a second. It may have no result on a busy machine, but it ends.
fn search<'w>(server: &'w str, out: &'w Path, more: &[&'w str]) -> Vec<&'w str> {
    let options = ["--repetitions=1", "--width=50", "--min-rate=100", "--max-rate=200", "--duration=0.1"];
    let place = ["search", "--server", server, "--out", out.to_str().unwrap()];
    [&place[..], &options, more].concat()
}

/// What the instrument shows on a pseudo-terminal, which is standard output and standard error.
fn on_a_terminal(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("'{}' {}", env!("CARGO_BIN_EXE_sextant"), words.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    script.env("XDG_STATE_HOME", STATE_HOME).env("TERM", "xterm").env_remove("NO_COLOR");
    let output = script.envs(variables.iter().copied()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn quiet_verbose_and_usual_differ_in_what_is_printed() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, server) = auth();
    let run = |name: &str, more: &[&str]| sextant(&search(&server, &base.path().join(name), more));
    let [usual, quiet, verbose] =
        [run("usual", &[]), run("quiet", &["-q"]), run("verbose", &["-v"])].map(|output: Output| {
            if output.status.success() {
                assert_eq!(stderr(&output), "", "nothing but errors on a standard error that is no terminal");
            }
            assert!(stdout(&output).contains("Report: "), "{}", stdout(&output));
            stdout(&output)
        });
    let forecast = "this takes about";
    assert!(usual.contains(forecast) && verbose.contains(forecast) && !quiet.contains(forecast), "{quiet}");
    assert!(verbose.lines().count() > usual.lines().count(), "{verbose}");
    let both = sextant(&search(&server, &base.path().join("both"), &["-q", "-v"]));
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn a_terminal_shows_progress_and_a_dashboard_with_colours_unless_told_otherwise() {
    if !testing::has_program("script", "bsdutils") {
        return;
    }
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, server) = auth();
    let shown = |name: &str, more: &[&str], variables: &[(&str, &str)]| {
        on_a_terminal(&search(&server, &base.path().join(name), more), variables)
    };
    let line = shown("line", &[], &[]);
    assert!(line.contains("search 1/1") && line.contains(COLOUR), "{line}");
    let live = shown("live", &["--live"], &[]);
    for part in ["answers", "latency", "losses", "hypervisor", COLOUR] {
        assert!(live.contains(part), "{part}: {live}");
    }
    let plain = shown("plain", &["--live"], &[("NO_COLOR", "1")]);
    assert!(plain.contains("hypervisor") && !plain.contains(COLOUR), "{plain}");
    let quiet = shown("quiet", &["-q"], &[]);
    assert!(quiet.contains("Report: ") && !quiet.contains(ESCAPE), "{quiet}");
}

#[test]
fn a_dashboard_without_a_terminal_is_lines() {
    let _alone = alone();
    let base = tempfile::tempdir().unwrap();
    let (_auth, server) = auth();
    let output = sextant(&search(&server, &base.path().join("out"), &["--live"]));
    let said = stderr(&output);
    assert!(said.contains("search 1/1") && !said.contains(ESCAPE), "{said}");
}

#[test]
fn open_gives_the_page_to_the_browser_of_the_desktop() {
    let base = tempfile::tempdir().unwrap();
    let record = base.path().join("record");
    fs::create_dir(&record).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/example/results.json");
    fs::copy(example, record.join("results.json")).unwrap();
    let open = |path: &Path| {
        let mut report = command(&["report", record.to_str().unwrap(), "--open"]);
        report.env("PATH", path).output().unwrap()
    };
    let opener = base.path().join("xdg-open");
    let script = |text: &str| {
        fs::write(&opener, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    };

    script("echo \"$@\" > \"${0%/*}/opened\"");
    let output = open(base.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let opened = fs::read_to_string(base.path().join("opened")).unwrap();
    let page = record.canonicalize().unwrap().join("report.html");
    assert_eq!(opened.trim_end(), page.to_str().unwrap());
    assert!(page.is_file());

    script("exit 4");
    for (path, reason) in [(base.path(), "exit status: 4"), (&record, "No such file")] {
        let output = open(path);
        let said = stderr(&output);
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains(reason) && said.contains(page.to_str().unwrap()), "{said}");
    }
}
