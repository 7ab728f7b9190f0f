//! The licences and the sources of all dependencies are those that deny.toml allows: what
//! `make deny` checks in more depth, with nothing but cargo.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    /// None of a package of the workspace.
    source: Option<String>,
}

/// Whether an SPDX expression can be met by licences that are allowed. The `/` of old packages means OR.
fn is_met(expression: &str, is_allowed: &impl Fn(&str) -> bool) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut words = expression.replace('(', " ( ").replace(')', " ) ");
    // Alternatives in parentheses become one word.
    while let Some(close) = words.find(')') {
        let open = words[..close].rfind('(').unwrap();
        let word = if is_met_flat(&words[open + 1..close], is_allowed) { "yes" } else { "no" };
        words.replace_range(open..=close, word);
    }
    is_met_flat(&words, is_allowed)
}

fn is_met_flat(expression: &str, is_allowed: &impl Fn(&str) -> bool) -> bool {
    let is_met = |licence: &str| licence.trim() == "yes" || is_allowed(licence.trim());
    expression.split(" OR ").any(|alternative| alternative.split(" AND ").all(is_met))
}

fn read<T: for<'t> Deserialize<'t>>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    toml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn sources_are_allowed() {
    let (rules, lock): (Rules, Lock) = (read("deny.toml"), read("Cargo.lock"));
    assert!(lock.package.len() > 100, "{} packages", lock.package.len());
    for Locked { name, source } in lock.package {
        let Some(source) = source else { continue };
        let registry = source.strip_prefix("registry+").unwrap_or(&source);
        assert!(rules.sources.allow_registry.iter().any(|own| own == registry), "{name}: {source}");
    }
}

#[test]
fn licences_are_allowed() {
    let rules: Rules = read("deny.toml");
    let arguments = ["tree", "--workspace", "--all-features", "--locked", "--prefix", "none"];
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).args(["--format", "{p}\t{l}"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let tree = cargo.output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let packages = tree.lines().filter_map(|line| line.split_once('\t'));
    assert!(packages.clone().count() > 100, "{tree}");
    for (package, licence) in packages {
        let name = package.split(' ').next().unwrap();
        let exception = rules.licenses.exceptions.iter().find(|exception| exception.name == name);
        let is_allowed = |licence: &str| {
            let own = exception.map_or(&[][..], |exception| &exception.allow);
            rules.licenses.allow.iter().chain(own).any(|allowed| allowed == licence)
        };
        // A package that was shown before has a mark behind its licence.
        let licence = licence.trim_end_matches(" (*)");
        assert!(is_met(licence, &is_allowed), "{name}: deny.toml does not allow the licence '{licence}'");
    }
}

#[test]
fn expressions_are_read_as_spdx_has_them() {
    let is_allowed = |licence: &str| ["MIT", "ISC"].contains(&licence);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 AND MIT) OR LGPL-2.1", false),
        ("ISC AND (MIT OR (GPL-3.0 AND LGPL-2.1))", true),
    ] {
        assert_eq!(is_met(expression, &is_allowed), met, "{expression}");
    }
}
