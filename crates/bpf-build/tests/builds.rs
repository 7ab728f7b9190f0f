//! What ends a build and what does not, with a crate that has one BPF program and is built by cargo.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A program without any header, and one with an error in its second line.
const GOOD: &str = "int good(void)\n{ return 0; }\n";
const BAD: &str = "int bad(void)\n{ return 0 }\n";

/// A crate of its own in a directory.
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
    fs::write(directory.join("build.rs"), "fn main() { bpf_build::compile(\"include_bytes\"); }\n").unwrap();
    let main = "include!(concat!(env!(\"OUT_DIR\"), \"/objects.rs\"));\n\
                fn main() { println!(\"{} {MISSING:?}\", PROGRAM.len()); }\n";
    fs::write(directory.join("src/main.rs"), main).unwrap();
}

/// Builds and runs it with this program and this environment.
fn run(directory: &Path, program: &str, environment: &[(&str, &str)]) -> Output {
    fs::write(directory.join("bpf/program.bpf.c"), program).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--offline"]).current_dir(directory);
    cargo.env("CARGO_TARGET_DIR", directory.join("target")).env_remove("SEXTANT_REQUIRE").env_remove("CLANG");
    cargo.envs(environment.iter().copied()).output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_missing_clang_is_told_and_an_error_in_a_program_ends_the_build() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory);
    let no_clang = ("CLANG", "/nonexistent/clang");
    let without = run(directory, GOOD, &[no_clang]);
    let told = words(&without);
    assert!(
        without.status.success() && told.contains("0 Some(\"/nonexistent/clang could not be run"),
        "{told}"
    );
    let required = run(directory, GOOD, &[no_clang, ("SEXTANT_REQUIRE", "1")]);
    let told = words(&required);
    assert!(
        !required.status.success() && told.contains("SEXTANT_REQUIRE=1 wants the BPF programs"),
        "{told}"
    );

    if !testing::has_program("clang", "clang") {
        return;
    }
    let built = run(directory, GOOD, &[("SEXTANT_REQUIRE", "1")]);
    let told = words(&built);
    assert!(built.status.success() && told.contains(" None") && !told.starts_with("0 "), "{told}");
    let wrong = run(directory, BAD, &[]);
    let told = words(&wrong);
    assert!(!wrong.status.success() && told.contains("program.bpf.c:2:"), "{told}");
    assert!(told.contains("error: expected ';'"), "{told}");
    let headless = run(directory, "#include \"ours.h\"\n", &[]);
    let told = words(&headless);
    assert!(!headless.status.success() && told.contains("'ours.h' file not found"), "{told}");
}
