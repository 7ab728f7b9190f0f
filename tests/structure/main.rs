//! The structure that ARCHITECTURE.md states: which crate may depend on which, and no circle between modules.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod documents;
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What each crate of the workspace may name in its code. Everything else is a wrong edge.
const MAY_DEPEND_ON: [(&str, &[&str]); 20] = [
    // The foundation of both products.
    ("sextant-dns64", &[]),
    ("sextant-streams", &["sextant-dns64"]),
    ("sextant-sys", &[]),
    ("sextant-bpf-build", &[]),
    // Nobody's code names it: a dev-dependency alone.
    ("sextant-testing", &[]),
    // The Tester.
    ("sextant-record", &["sextant-dns64"]),
    ("sextant-engine", &["sextant-dns64", "sextant-record"]),
    ("sextant-capture", &["sextant-engine"]),
    (
        "sextant-measurer",
        &["sextant-capture", "sextant-dns64", "sextant-engine", "sextant-record", "sextant-sys"],
    ),
    ("sextant-authdns", &["sextant-dns64", "sextant-record", "sextant-streams", "sextant-sys"]),
    ("sextant-lab", &["sextant-dns64", "sextant-record", "sextant-sys"]),
    ("sextant-report", &["sextant-record"]),
    // For the benchmarks alone.
    ("sextant-figures", &[]),
    (
        "sextant-campaign",
        &[
            "sextant-authdns",
            "sextant-dns64",
            "sextant-engine",
            "sextant-lab",
            "sextant-measurer",
            "sextant-record",
            "sextant-report",
            "sextant-sys",
        ],
    ),
    (
        "sextant-cli",
        &[
            "sextant-authdns",
            "sextant-campaign",
            "sextant-capture",
            "sextant-dns64",
            "sextant-engine",
            "sextant-lab",
            "sextant-measurer",
            "sextant-record",
            "sextant-report",
            "sextant-sys",
        ],
    ),
    // The server.
    ("dns64d-core", &["sextant-dns64"]),
    ("dns64d-validation", &["sextant-dns64", "sextant-streams"]),
    (
        "dns64d-daemon",
        &["dns64d-core", "dns64d-validation", "sextant-dns64", "sextant-streams", "sextant-sys"],
    ),
    // The two programs, a few lines each.
    ("sextant", &["dns64d-daemon", "sextant-cli"]),
    ("sextant-fuzz", &[]),
];

/// The crates that know no clock, socket, thread, file or environment.
const PURE: [&str; 6] = [
    "crates/dns64",
    "crates/server/core",
    "crates/tester/capture",
    "crates/tester/engine",
    "crates/tester/figures",
    "crates/tester/record",
];

fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]).current_dir(ROOT);
    let output = command.output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The workspace's packages that each depends on, for code and build scripts (`normal`) or for tests (`dev`).
fn edges(metadata: &Value, kind: &str) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let of = |package: &Value| {
        let named = package["dependencies"].as_array().unwrap().iter();
        let wanted = named.filter(|one| one["kind"].as_str().unwrap_or("normal") == kind);
        wanted.map(name).filter(|one| ours.contains(one)).collect()
    };
    packages.iter().map(|package| (name(package), of(package))).collect()
}

fn is_server(package: &str) -> bool {
    package.starts_with("dns64d-")
}

fn is_foundation(package: &str) -> bool {
    matches!(
        package,
        "sextant-dns64" | "sextant-streams" | "sextant-sys" | "sextant-bpf-build" | "sextant-testing"
    )
}

#[test]
fn no_crate_depends_on_one_that_it_may_not() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.into_iter().collect();
    for (package, dependencies) in edges(&metadata(), "normal") {
        let may = allowed.get(package.as_str());
        let may =
            may.unwrap_or_else(|| panic!("{package} is new: say in tests/structure what it may depend on"));
        let wrong: Vec<_> = dependencies.iter().filter(|one| !may.contains(&one.as_str())).collect();
        assert!(
            wrong.is_empty(),
            "{package} depends on {wrong:?}; ARCHITECTURE.md says what it may depend on"
        );
    }
}

#[test]
fn the_products_share_only_the_foundation_in_their_tests_too() {
    for kind in ["normal", "dev", "build"] {
        for (package, dependencies) in edges(&metadata(), kind) {
            if package == "sextant" {
                continue;
            }
            for one in dependencies.iter().filter(|one| !is_foundation(one)) {
                assert!(!is_foundation(&package), "{package} of the foundation depends ({kind}) on {one}");
                assert_eq!(is_server(&package), is_server(one), "{package} depends ({kind}) on {one}");
            }
        }
    }
}

#[test]
fn each_program_names_its_own_product() {
    let bin = |name: &str| fs::read_to_string(Path::new(ROOT).join("src/bin").join(name)).unwrap();
    let (sextant, dns64d) = (bin("sextant.rs"), bin("dns64d.rs"));
    assert!(sextant.contains("cli::main()") && !sextant.contains("daemon"), "{sextant}");
    assert!(dns64d.contains("daemon::main(") && !dns64d.contains("cli"), "{dns64d}");
}

/// The sources of a crate, tests left out.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.join("src")];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match (path.is_dir(), path.extension()) {
                (true, _) if !path.ends_with("tests") => open.push(path),
                (false, Some(end)) if end == "rs" && !path.ends_with("tests.rs") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The directories of the workspace's packages but the root.
fn crates() -> Vec<PathBuf> {
    let packages = metadata()["packages"].as_array().unwrap().clone();
    let manifests = packages.iter().map(|package| PathBuf::from(package["manifest_path"].as_str().unwrap()));
    manifests
        .map(|manifest| manifest.parent().unwrap().to_owned())
        .filter(|path| path != Path::new(ROOT))
        .collect()
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    for directory in crates() {
        let lib = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
        let forbids = lib.contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !directory.ends_with("crates/sys"), "{}", directory.display());
    }
}

#[test]
fn the_pure_crates_ban_the_same_things() {
    let of =
        |directory: &str| fs::read_to_string(Path::new(ROOT).join(directory).join("clippy.toml")).unwrap();
    let first = of(PURE[0]);
    for needed in
        ["Instant::now", "net::UdpSocket", "thread::spawn", "fs::File", "env::var", "process::Command"]
    {
        assert!(first.contains(needed), "clippy.toml of the pure crates does not ban {needed}");
    }
    for directory in PURE {
        assert!(of(directory) == first, "{directory}/clippy.toml differs from {}/clippy.toml", PURE[0]);
    }
}

#[test]
fn no_two_modules_of_a_crate_need_each_other() {
    for directory in crates() {
        let circles = modules::circles(&directory.join("src"), &sources(&directory));
        assert!(circles.is_empty(), "{}: modules need each other: {circles:#?}", directory.display());
    }
}
