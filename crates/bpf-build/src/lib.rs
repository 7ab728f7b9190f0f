//! Compiles the BPF programs of a crate with clang and embeds the objects: for build scripts alone.
//!
//! Each crate keeps its programs in `bpf/`: `bpf/NAME.bpf.c` becomes the constant `NAME` (in capitals) of
//! `$OUT_DIR/objects.rs`. Headers that several crates include stand in `crates/sys/bpf`; Cargo hands that
//! directory to a build script as `DEP_SEXTANT_SYS_INCLUDE`.
//!
//! Without clang or libbpf's headers the crates are built without the programs, and `sys::bpf::available()`
//! says what is missing; with `SEXTANT_REQUIRE=1`, as in CI, the build ends there. A program that clang does
//! not accept always ends the build, with what clang says.
#![forbid(unsafe_code)]

mod clang;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clang::{Clang, Failure};

/// Compiles every `bpf/*.bpf.c` of the crate that is being built, and writes `$OUT_DIR/objects.rs`. `embed`
/// is the path of the macro that embeds a file at an aligned address.
///
/// # Panics
/// A program has an error; something is missing and `SEXTANT_REQUIRE` is 1; Cargo's environment is absent, or
/// `OUT_DIR` cannot be written.
pub fn compile(embed: &str) {
    for variable in ["CLANG", "SEXTANT_REQUIRE"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=bpf");
    let include = env::var_os("DEP_SEXTANT_SYS_INCLUDE").map(PathBuf::from);
    if let Some(include) = &include {
        println!("cargo:rerun-if-changed={}", include.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let (clang, names) = (Clang::new(include), programs());
    let built = names.iter().try_for_each(|name| {
        let source = Path::new("bpf").join(format!("{name}.bpf.c"));
        clang.compile(&source, &out.join(name).with_extension("o"))
    });
    if let Err(failure) = &built {
        end_or_warn(failure, &out);
    }
    fs::write(out.join("objects.rs"), objects(&names, &built, embed)).expect("OUT_DIR can be written");
}

/// Ends the build, or warns where it can go on without the programs.
fn end_or_warn(failure: &Failure, out: &Path) {
    let is_required = env::var_os("SEXTANT_REQUIRE").is_some_and(|value| value == "1");
    match failure {
        Failure::Program(said) => panic!("clang does not accept a BPF program of this crate:\n{said}"),
        Failure::Missing(what) if is_required => panic!("SEXTANT_REQUIRE=1 wants the BPF programs: {what}"),
        Failure::Missing(what) => {
            println!("cargo:warning=without XDP programs: {what}");
            // A file that never exists makes cargo try again at the next build: what is missing may have been
            // installed.
            println!("cargo:rerun-if-changed={}", out.join("always").display());
        }
    }
}

/// The programs of the crate: the names before `.bpf.c`, sorted.
fn programs() -> Vec<String> {
    let directory = fs::read_dir("bpf").expect("the crate has a directory bpf");
    let files = directory.filter_map(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        files.filter_map(|file| file.strip_suffix(".bpf.c").map(str::to_owned)).collect();
    names.sort();
    names
}

/// The Rust source that embeds the objects, or says why there are none.
fn objects(names: &[String], built: &Result<(), Failure>, embed: &str) -> String {
    let missing = built.as_ref().err().map(Failure::words);
    let mut source = format!(
        "/// What was missing when the crate was built.\n#[allow(dead_code, reason = \"one crate asks for all\")]\n\
         pub const MISSING: Option<&str> = {missing:?};\n"
    );
    for name in names {
        let octets = match built {
            Ok(()) => format!("{embed}!(concat!(env!(\"OUT_DIR\"), \"/{name}.o\"))"),
            Err(_) => "&[]".to_owned(),
        };
        let constant = name.to_uppercase();
        source += &format!("/// `bpf/{name}.bpf.c`, compiled.\npub static {constant}: &[u8] = {octets};\n");
    }
    source
}
