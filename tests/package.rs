//! The Debian packages: made of these programs, installed, used, removed, and nothing of them left.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/assets.rs"]
#[allow(dead_code, reason = "the main function of the example")]
mod assets;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The exit code with which a script says that this machine cannot run it.
const EXIT_UNFIT: i32 = 3;

fn in_repository(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn run(program: &str, arguments: &[&OsStr]) -> Output {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env("DEB_BUILD_OPTIONS", "noautodbgsym")
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    sys::process::die_with_parent(&mut command);
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Makes the packages and has a script of `dist` test them.
fn the_packages_pass(script: &str) {
    if !testing::has_program("dh", "debhelper") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (assets, packages) = (directory.path().join("assets"), directory.path().join("packages"));
    assets::write_all(&assets).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_dns64d")).parent().unwrap();
    let made = run(&in_repository("dist/package"), &[programs.as_ref(), assets.as_ref(), packages.as_ref()]);
    assert!(made.status.success(), "{}", words(&made));

    let tested = run(&in_repository(&format!("dist/{script}")), &[packages.as_ref()]);
    let said = words(&tested);
    if tested.status.code() == Some(EXIT_UNFIT) {
        let reason = said.lines().find(|line| line.starts_with("SKIPPED: "));
        testing::skip(script, reason.unwrap_or_else(|| panic!("no reason: {said}")));
        return;
    }
    assert!(tested.status.success(), "{said}");
}

#[test]
fn the_packages_install_run_answer_and_leave_nothing() {
    the_packages_pass("package-test");
}

#[test]
fn systemd_starts_reloads_and_restarts_dns64d_as_its_units_say() {
    the_packages_pass("unit-test");
}

#[test]
fn systemd_finds_nothing_to_say_about_the_units() {
    if !testing::has_program("systemd-analyze", "systemd") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut arguments = vec!["verify".into(), "--man=no".into()];
    for place in ["dist", "debian"] {
        for path in fs::read_dir(in_repository(place)).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "service" || extension == "socket") {
                // systemd looks whether the program is there.
                let unit = fs::read_to_string(&path).unwrap();
                let unit = unit.replace("/usr/sbin/dns64d", env!("CARGO_BIN_EXE_dns64d"));
                let copy = directory.path().join(path.file_name().unwrap());
                fs::write(&copy, unit).unwrap();
                arguments.push(copy.into_os_string());
            }
        }
    }
    assert_eq!(arguments.len(), 4, "{arguments:?}");
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let verified = run("systemd-analyze", &arguments);
    // It ends with 0 where it ignores a line.
    assert!(verified.status.success() && words(&verified).is_empty(), "{}", words(&verified));
}

#[test]
fn the_package_has_the_version_of_the_programs() {
    let changelog = fs::read_to_string(in_repository("debian/changelog")).unwrap();
    let expected = format!("sextant ({}) ", env!("CARGO_PKG_VERSION"));
    assert!(changelog.starts_with(&expected), "{changelog}");
}

#[test]
fn every_command_has_a_manual_page_and_every_program_its_completions() {
    let directory = tempfile::tempdir().unwrap();
    assets::write_all(directory.path()).unwrap();
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    assert!(read("man/dns64d.8").contains("check\\-config"));
    for page in ["sextant.1", "sextant-bench.1", "sextant-peers-run.1"] {
        assert!(read(&format!("man/{page}")).starts_with(".ie"), "{page}");
    }
    for program in ["dns64d", "sextant"] {
        for file in [format!("bash/{program}"), format!("zsh/_{program}"), format!("fish/{program}.fish")] {
            assert!(read(&format!("completions/{file}")).contains(program), "{file}");
        }
    }
}
