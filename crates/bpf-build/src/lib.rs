//! The BPF programs of a crate as constants: for build scripts, and for the test that compiles them anew.
//!
//! Each crate keeps its programs in `bpf/`: `bpf/NAME.bpf.c` with its object `bpf/NAME.elf`, which becomes
//! the constant `NAME` (in capitals) of `$OUT_DIR/objects.rs`. Headers that several crates include stand in
//! `crates/sys/bpf`; Cargo hands that directory to a build script as `DEP_SEXTANT_SYS_INCLUDE`.
//!
//! The objects are in the repository, so that a build needs no compiler of BPF programs. `bpf/digest` says of
//! which sources they are. If the sources are others, the build compiles them with clang (or what `CLANG`
//! names), and ends where that cannot be done. `SEXTANT_BPF=build` compiles in any case. `make bpf` renews
//! the objects in the repository, and `tests/objects.rs` compares them with what the pinned clang makes of
//! the sources.
#![forbid(unsafe_code)]

mod clang;
mod digest;
mod programs;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

pub use clang::Clang;
pub use programs::{PINNED_CLANG, Programs};

/// Writes `$OUT_DIR/objects.rs` for the crate that is being built. `embed` is the path of the macro that
/// embeds a file at an aligned address. What is wrong with the programs ends the build.
///
/// # Panics
/// Cargo's environment is absent, or `OUT_DIR` cannot be written.
pub fn embed(embed: &str) {
    for variable in ["CLANG", "SEXTANT_BPF"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=bpf");
    let shared = env::var_os("DEP_SEXTANT_SYS_INCLUDE").map(PathBuf::from);
    if let Some(shared) = &shared {
        println!("cargo::rerun-if-changed={}", shared.display());
    }
    let [package, out] = ["CARGO_MANIFEST_DIR", "OUT_DIR"]
        .map(|variable| PathBuf::from(env::var_os(variable).expect("cargo sets its variables")));
    let programs = Programs::find(package.join("bpf"), shared).expect("the crate has a directory bpf");
    match objects(&programs, &out) {
        Ok(paths) => {
            let source = source(programs.names(), &paths, embed);
            fs::write(out.join("objects.rs"), source).expect("OUT_DIR can be written");
        }
        Err(why) => why.lines().for_each(|line| println!("cargo::error={line}")),
    }
}

/// The objects to embed: those of the repository, or of the sources as they are, compiled into `out`.
fn objects(programs: &Programs, out: &Path) -> Result<Vec<PathBuf>, String> {
    let why = match env::var("SEXTANT_BPF").as_deref() {
        Ok("build") => "SEXTANT_BPF=build",
        Ok(other) => return Err(format!("SEXTANT_BPF is '{other}': set it to 'build', or not at all")),
        // The objects in the repository are for little-endian machines.
        Err(_) if env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() == Ok("big") => "a big-endian machine",
        Err(_) if programs.are_compiled() => {
            return Ok(programs.names().iter().map(|name| programs.object(name)).collect());
        }
        Err(_) => {
            println!(
                "cargo::warning=bpf/ is not what its objects are of: clang compiles; 'make bpf' renews them"
            );
            "a change in bpf/"
        }
    };
    let clang = Clang::new(&env::var("CLANG").unwrap_or_else(|_| "clang".to_owned()));
    let compile = |name: &String| {
        let object = out.join(name).with_extension("elf");
        programs.compile(&clang, name, &object).map(|()| object)
    };
    programs.names().iter().map(compile).collect::<Result<_, _>>().map_err(|error| {
        format!("{why} needs clang and libbpf's headers (Debian: clang libbpf-dev), and no errors\n{error}")
    })
}

/// The Rust source that embeds the objects.
fn source(names: &[String], paths: &[PathBuf], embed: &str) -> String {
    let constant = |(name, path): (&String, &PathBuf)| {
        let constant = name.to_uppercase();
        format!("/// `bpf/{name}.bpf.c`, compiled.\npub static {constant}: &[u8] = {embed}!({path:?});\n")
    };
    names.iter().zip(paths).map(constant).collect()
}
