//! What a build embeds and what ends it, with a crate that has one BPF program and is built by cargo.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bpf_build::Programs;

/// A program without any header, the same changed, and one with an error in its second line.
const GOOD: &str = "int good(void)\n{ return 0; }\n";
const CHANGED: &str = "int good(void)\n{ return 1; }\n";
const BAD: &str = "int bad(void)\n{ return 0 }\n";
/// What stands for the compiled program: it is embedded as it is.
const SHIPPED: &str = "the object in the repository";

const NO_CLANG: (&str, &str) = ("CLANG", "/nonexistent/clang");
const BUILD: (&str, &str) = ("SEXTANT_BPF", "build");

/// A crate of its own in a directory, with the object of [`GOOD`].
fn write(directory: &Path) {
    for below in ["src", "bpf"] {
        fs::create_dir_all(directory.join(below)).unwrap();
    }
    let manifest = format!(
        "[workspace]\n[package]\nname = \"tried\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [build-dependencies]\nsextant-bpf-build = {{ path = {:?} }}\n",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::write(directory.join("Cargo.toml"), manifest).unwrap();
    fs::write(directory.join("build.rs"), "fn main() { bpf_build::embed(\"include_bytes\"); }\n").unwrap();
    let main = "include!(concat!(env!(\"OUT_DIR\"), \"/objects.rs\"));\n\
                fn main() { println!(\"{}\", PROGRAM.escape_ascii()); }\n";
    fs::write(directory.join("src/main.rs"), main).unwrap();
    fs::write(directory.join("bpf/program.bpf.c"), GOOD).unwrap();
    let programs = Programs::find(directory.join("bpf"), None).unwrap();
    fs::write(programs.object("program"), SHIPPED).unwrap();
    fs::write(programs.digest_file(), programs.digest().unwrap() + "\n").unwrap();
}

/// Builds and runs it with this program and this environment: whether that succeeded, and what was said.
fn run(directory: &Path, program: &str, environment: &[(&str, &str)]) -> (bool, String) {
    fs::write(directory.join("bpf/program.bpf.c"), program).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--offline"]).current_dir(directory).env("CARGO_TARGET_DIR", directory.join("target"));
    cargo.env_remove("SEXTANT_BPF").env_remove("CLANG").envs(environment.iter().copied());
    let Output { status, stdout, stderr } = cargo.output().unwrap();
    let said = [stdout, stderr].map(|octets| String::from_utf8(octets).unwrap());
    (status.success(), said.concat())
}

#[test]
fn the_object_of_the_repository_is_embedded_only_while_the_sources_are_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory);
    let (succeeded, said) = run(directory, GOOD, &[NO_CLANG]);
    assert!(succeeded && said.starts_with(SHIPPED), "{said}");

    for (program, environment, reason) in [
        (CHANGED, &[NO_CLANG][..], "a change in bpf/ needs clang and libbpf's headers"),
        (GOOD, &[NO_CLANG, BUILD], "SEXTANT_BPF=build needs clang and libbpf's headers"),
        (GOOD, &[("SEXTANT_BPF", "no")], "SEXTANT_BPF is 'no': set it to 'build', or not at all"),
    ] {
        let (succeeded, said) = run(directory, program, environment);
        assert!(!succeeded && said.contains(&format!("error: tried@0.0.0: {reason}")), "{said}");
        assert!(
            environment.len() == 1 && reason.contains("no'") || said.contains("could not be run"),
            "{said}"
        );
    }

    if !testing::has_program("clang", "clang") {
        return;
    }
    for (program, environment) in [(CHANGED, &[][..]), (GOOD, &[BUILD])] {
        let (succeeded, said) = run(directory, program, environment);
        assert!(succeeded && said.starts_with("\\x7fELF"), "{said}");
        let is_told = said.contains("warning: tried@0.0.0: bpf/ is not what its objects are of");
        assert_eq!(is_told, program == CHANGED, "{said}");
    }
    for (program, error) in
        [(BAD, "error: expected ';'"), ("#include \"ours.h\"\n", "'ours.h' file not found")]
    {
        let (succeeded, said) = run(directory, program, &[]);
        assert!(!succeeded && said.contains("program.bpf.c:") && said.contains(error), "{said}");
    }
}
