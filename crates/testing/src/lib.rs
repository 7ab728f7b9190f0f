//! How a test says that it cannot run here: for tests alone.
//!
//! A test that lacks something (a program, a privilege, a quiet machine) calls [`skip`] and returns. With
//! `SEXTANT_REQUIRE=1`, as in CI, a skip is a failure unless `tests/skips.txt` has its key, with the reason.
//! With `SEXTANT_SKIPS=FILE` each skip becomes a line of that file, from which `tests/run` prints the list.
#![forbid(unsafe_code)]

mod allowed;

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::Path;

use allowed::Allowed;

/// The checked-in list of what may be skipped where everything is required.
const LIST: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/skips.txt"));

/// Says that the test that calls, or the rest of it, does not run. The key names what is missing, and is the
/// same wherever it is missing: `xdp`, `program dnsperf`. The reason tells a reader what to do about it.
///
/// # Panics
/// `SEXTANT_REQUIRE` is 1, and `tests/skips.txt` has no such key; or the file that `SEXTANT_SKIPS` names
/// cannot be written.
#[track_caller]
pub fn skip(key: &str, reason: impl Display) {
    let test = test(Location::caller());
    println!("SKIPPED: {test}: {reason}");
    if let Some(file) = env::var_os("SEXTANT_SKIPS") {
        note(Path::new(&file), key, &test, &reason.to_string());
    }
    let is_required = env::var_os("SEXTANT_REQUIRE").is_some_and(|value| value == "1");
    if is_required && !Allowed::parse(LIST).contains(key) {
        panic!(
            "{test} must run, as SEXTANT_REQUIRE=1 says, and tests/skips.txt has no key '{key}': {reason}"
        );
    }
}

/// Whether a program is in one of the directories of `PATH` or where Debian has its daemons; if not, says
/// so, with the package that has the program.
#[track_caller]
pub fn has_program(program: &str, package: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = directories.any(|directory| directory.join(program).is_file());
    if !found {
        skip(&format!("program {program}"), format!("{program} is not installed: apt-get install {package}"));
    }
    found
}

/// The test that runs. Its thread has its name, unless the tests run one after the other.
fn test(caller: &Location<'_>) -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => caller.file().to_owned(),
    }
}

/// Adds a line to the file. One write, because many test programs add to it at once.
fn note(file: &Path, key: &str, test: &str, reason: &str) {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{}\t{}\t{}\n", words(key), words(test), words(reason));
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("SEXTANT_SKIPS={}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_of_the_file() {
        let file = env::temp_dir().join(format!("sextant-skips-{}", std::process::id()));
        note(&file, "program x", "a::test", "two\nlines\tof a reason");
        note(&file, "xdp", "b", "none");
        let text = std::fs::read_to_string(&file);
        std::fs::remove_file(&file).expect("it was written");
        assert_eq!(text.expect("text"), "program x\ta::test\ttwo lines of a reason\nxdp\tb\tnone\n");
    }

    #[test]
    fn the_test_has_the_name_of_its_thread() {
        let here = Location::caller();
        let named = std::thread::Builder::new().name("module::test".into()).spawn(move || test(here));
        assert_eq!(named.expect("a thread").join().expect("its name"), "module::test");
    }

    #[test]
    fn programs_are_looked_for_where_they_are() {
        assert!(has_program("sh", "dash"));
    }

    /// Skips where the variable is set, as it is in the process of the test below.
    #[test]
    fn skips_what_it_is_told() {
        if let Ok(key) = env::var("SEXTANT_TEST_SKIP") {
            skip(&key, "told so");
        }
    }

    #[test]
    fn where_everything_is_required_only_what_is_listed_may_skip() {
        for (key, required, passes) in
            [("program nobody has", "1", false), ("program nobody has", "0", true), ("peer totd", "1", true)]
        {
            let mut again = std::process::Command::new(env::current_exe().expect("the test's program"));
            again.args(["--exact", "tests::skips_what_it_is_told", "--nocapture"]);
            again.env("SEXTANT_TEST_SKIP", key).env("SEXTANT_REQUIRE", required).env_remove("SEXTANT_SKIPS");
            let output = again.output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.success(), passes, "{key}: {said}");
            assert!(said.contains("1 passed") == passes && said.contains("SKIPPED: "), "{key}: {said}");
        }
    }

    #[test]
    fn the_list_is_whole() {
        let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!(Allowed::parse(LIST).len(), lines, "tests/skips.txt: each line is WHEN KEY: REASON, once");
    }
}
