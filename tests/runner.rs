//! `tests/run` with a cargo that is played by the test: what is run again, what fails, what is listed at the
//! end; and `tests/attacks`, which prints before and after of each attack.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// What cargo prints of a program with a property and a test of time, each of which passes or fails.
fn told(property: bool, time: bool) -> String {
    told_of(&[("property", property), ("bench::rate", time)])
}

/// What cargo prints of a program with these tests.
fn told_of(tests: &[(&str, bool)]) -> String {
    let end = |passes| if passes { "ok" } else { "FAILED" };
    let mut text = "     Running tests/one/main.rs (target/debug/deps/one-0123456789abcdef)\n\n".to_owned();
    for (name, passes) in tests {
        text += &format!("test {name} ... {}\n", end(*passes));
    }
    let failed: Vec<_> = tests.iter().filter(|test| !test.1).collect();
    if !failed.is_empty() {
        text += "\nfailures:\n\n---- words\n    words\n\nfailures:\n";
        for (name, _) in &failed {
            text += &format!("    {name}\n");
        }
    }
    let (count, end) = (failed.len(), if failed.is_empty() { "ok" } else { "FAILED" });
    text += &format!("\ntest result: {end}. {} passed; {count} failed; 0 ignored\n", tests.len() - count);
    if count > 0 {
        text += "error: 1 target failed:\n    `-p sextant --test one`\n";
    }
    text
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A document of attacks with one row.
const ATTACKS: &str = "## Guessing\n\n| Attack | What dns64d does | Test | Before | After |\n|---|---|---|---|---|\n\
                       | Ports are learnt | they are new | `property`, review | 64 | 1,000 |\n\n\
                       | Others | a | b | c | d |\n";

/// Runs `tests/run --workspace` with a cargo that says these things one after the other. It fails where it
/// says FAILED.
fn run(says: &[String], more: &str) -> Output {
    run_script("run", &["--workspace"], says, more, false)
}

/// Runs a script of `tests` with these arguments, with or without `SEXTANT_REQUIRE=1`.
fn run_script(script: &str, arguments: &[&str], says: &[String], more: &str, required: bool) -> Output {
    // A program that a thread still writes cannot be started, and whatever another thread starts meanwhile
    // holds the file open, too.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write(here, "tests/run", include_str!("run"));
    write(here, "tests/attacks", include_str!("attacks"));
    write(here, "docs/security.md", ATTACKS);
    write(here, "tests/timing.txt", "# comment\n\none::bench\none::gone\n");
    write(
        here,
        "tests/skips.txt",
        "always peer totd: none\nsometimes busy machine: others\nalways xdp: none\n",
    );
    for (round, text) in says.iter().enumerate() {
        write(here, &format!("said-{round}"), text);
    }
    let cargo = format!(
        "#!/bin/sh\necho \"$@\" >> calls\nround=$(($(wc -l < calls) - 1))\n{more}\ncat said-$round\n\
         ! grep -q FAILED said-$round\n"
    );
    write(here, "bin/cargo", &cargo);
    // The wait for a quiet machine is no part of this.
    write(here, "bin/sleep", "#!/bin/sh\n");
    let path = format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap());
    let mut script = Command::new(here.join("tests").join(script));
    script.args(arguments).env("PATH", path).current_dir(here).stdin(Stdio::null());
    let output = script.env("SEXTANT_REQUIRE", if required { "1" } else { "0" }).output().unwrap();
    assert_eq!(fs::read_to_string(here.join("calls")).unwrap().lines().count(), says.len(), "{output:?}");
    output
}

fn last_words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_test_of_time_is_run_again_and_both_ends_are_told() {
    let output = run(&[told(true, false), told(true, true)], "");
    let words = last_words(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("run again:\n  one::bench::rate: failed, passed\n"), "{words}");
    let output = run(&[told(true, false), told(true, false), told(true, false)], "");
    let words = last_words(&output);
    assert!(!output.status.success(), "{words}");
    assert!(words.contains("one::bench::rate: failed, failed, failed\n"), "{words}");
}

#[test]
fn a_test_that_passed_again_is_not_asked_for_a_third_time() {
    let (rate, other) = ("bench::rate", "bench::other");
    let output = run(
        &[
            told_of(&[(rate, false), (other, false)]),
            told_of(&[(rate, false), (other, true)]),
            told_of(&[(rate, true)]),
        ],
        "",
    );
    let words = last_words(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("one::bench::other: failed, passed\n"), "{words}");
    assert!(words.contains("one::bench::rate: failed, failed, passed\n"), "{words}");
}

#[test]
fn any_other_failure_is_final() {
    for time in [true, false] {
        let output = run(&[told(false, time)], "");
        let words = last_words(&output);
        assert!(!output.status.success(), "{words}");
        assert!(words.contains("failed, and no test of time (tests/timing.txt): one::property\n"), "{words}");
    }
    let crashed = "     Running tests/one/main.rs (target/debug/deps/one-0123456789abcdef)\n\
                   error: 1 target failed:\n    `-p sextant --test one` (signal: 11) FAILED\n";
    assert!(!run(&[crashed.into()], "").status.success());
}

#[test]
fn skips_and_entries_too_many_are_listed() {
    let skips = "printf 'peer totd\\ta::test\\tnot there\\n' >> $SEXTANT_SKIPS";
    let output = run(&[told(true, true)], skips);
    let words = last_words(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("1 skips, for want of 1:\n  peer totd: a::test: not there\n"), "{words}");
    assert!(words.contains("nothing skipped for 'xdp' of tests/skips.txt\n"), "{words}");
    assert!(words.contains("no test is 'one::gone' of tests/timing.txt\n"), "{words}");
    for listed in ["'peer totd'", "'busy machine'", "'one::bench'"] {
        assert!(!words.contains(listed), "{words}");
    }
}

#[test]
fn a_run_without_tests_is_a_failure() {
    let none = "     Running tests/one/main.rs (target/debug/deps/one-0123456789abcdef)\n\n\
                test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out\n";
    let output = run(&[none.into()], "");
    assert!(!output.status.success());
    assert!(last_words(&output).contains("tests/run: no test ran\n"), "{output:?}");
    let again = run(&[told(true, false), none.into()], "");
    assert!(!again.status.success());
    let words = last_words(&again);
    assert!(words.contains("one::bench::rate: failed, not run\n"), "{words}");
    assert!(words.contains("not every test that failed was run again\n"), "{words}");
}

#[test]
fn many_skips_for_a_busy_machine_are_a_failure_where_everything_is_required() {
    let skips = |tests: u32| {
        format!(
            "for i in $(seq {tests}); do \
             printf \"busy machine\\ttest$i\\tothers\\n\" >> $SEXTANT_SKIPS; done"
        )
    };
    for (tests, required, passes) in [(12, true, true), (13, true, false), (13, false, true)] {
        let output = run_script("run", &["--workspace"], &[told(true, true)], &skips(tests), required);
        assert_eq!(output.status.success(), passes, "{tests} {required}: {output:?}");
    }
}

#[test]
fn new_counter_examples_are_printed() {
    let kept = "mkdir -p crates/x/proptest-regressions; echo '# header' > crates/x/proptest-regressions/a.txt; \
                echo 'cc 12 # shrinks to n = 3' >> crates/x/proptest-regressions/a.txt";
    let words = last_words(&run(&[told(false, true)], kept));
    assert!(words.contains("./crates/x/proptest-regressions/a.txt:cc 12 # shrinks to n = 3\n"), "{words}");
}

#[test]
fn attacks_are_told_with_before_and_after() {
    let asked = "[ \"$*\" = 'test --no-fail-fast --workspace -- attack property' ] || exit 9";
    let output = run_script("attacks", &[], &[told(true, true)], asked, false);
    let words = String::from_utf8_lossy(&output.stdout);
    let row = "Guessing: Ports are learnt\n  before: 64\n  after:  1,000\n  passed: property\n";
    assert!(output.status.success() && words.ends_with(row), "{output:?}");
    let output = run_script("attacks", &[], &[told(false, true)], asked, false);
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && words.ends_with("  failed: property\n"), "{output:?}");
    let output = run_script("attacks", &[], &["nothing was run\n".into()], asked, false);
    assert!(!output.status.success() && last_words(&output).contains("not there"), "{output:?}");
}
