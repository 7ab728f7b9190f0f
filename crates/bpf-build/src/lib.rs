//! Compiles the BPF programs of a crate with clang and embeds the objects: for build scripts alone.
//!
//! Each crate keeps its programs in `bpf/`: `bpf/NAME.bpf.c` becomes the constant `NAME` (in capitals) of
//! `$OUT_DIR/objects.rs`. Headers that several crates include stand in `crates/sys/bpf`; Cargo hands that
//! directory to a build script as `DEP_SEXTANT_SYS_INCLUDE`. Without clang or libbpf's headers the crates
//! build all the same, and `sys::bpf::available()` says what is missing.
#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles every `bpf/*.bpf.c` of the crate that is being built, and writes `$OUT_DIR/objects.rs`. `embed`
/// is the path of the macro that embeds a file at an aligned address.
///
/// # Panics
/// Cargo's environment is absent, or `OUT_DIR` cannot be written.
pub fn compile(embed: &str) {
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed=bpf");
    let include = env::var_os("DEP_SEXTANT_SYS_INCLUDE").map(PathBuf::from);
    if let Some(include) = &include {
        println!("cargo:rerun-if-changed={}", include.display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let names = programs();
    let built = names.iter().try_for_each(|name| compile_program(name, include.as_deref(), &out));
    if let Err(missing) = &built {
        println!("cargo:warning=without XDP programs: {missing}");
        // A file that never exists makes cargo try again at the next build: what is missing may have been
        // installed.
        println!("cargo:rerun-if-changed={}", out.join("always").display());
    }
    fs::write(out.join("objects.rs"), objects(&names, &built, embed)).expect("OUT_DIR can be written");
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

/// Compiles one program; the error says what is missing in one line.
fn compile_program(name: &str, include: Option<&Path>, out: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let source = format!("{name}.bpf.c");
    let mut command = Command::new(&clang);
    command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"]);
    for directory in include.map(Path::to_path_buf).into_iter().chain(multiarch_include()) {
        command.arg("-I").arg(directory);
    }
    command.arg("-c").arg(Path::new("bpf").join(&source));
    command.arg("-o").arg(out.join(name).with_extension("o"));
    let output = command.output().map_err(|error| format!("{clang} could not be run ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    if complaints.lines().any(|line| line.contains("'bpf/") && line.contains("file not found")) {
        return Err("libbpf's headers were not found (Debian: libbpf-dev)".to_owned());
    }
    let first = complaints.lines().find(|line| line.contains("error")).unwrap_or("it gave no reason");
    Err(format!("{clang} could not compile bpf/{source}: {first}"))
}

/// Debian and its descendants keep `asm/types.h` in a directory that clang does not search for the target
/// bpf.
fn multiarch_include() -> Option<PathBuf> {
    let host = env::var("HOST").ok()?;
    let arch = host.split('-').next()?;
    let environment = if host.contains("musl") { "musl" } else { "gnu" };
    let directories = [format!("{arch}-linux-{environment}"), format!("{arch}-linux-gnu")];
    directories
        .iter()
        .map(|name| Path::new("/usr/include").join(name))
        .find(|path| path.join("asm/types.h").exists())
}

/// The Rust source that embeds the objects, or says why there are none.
fn objects(names: &[String], built: &Result<(), String>, embed: &str) -> String {
    let missing = built.as_ref().err();
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
