//! Compiles the XDP programs of `bpf/` with clang and embeds them. Without clang or libbpf's headers the crate builds
//! all the same, and `net::bpf::available()` says what was missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs: `bpf/NAME.bpf.c` becomes the constant `NAME` in capitals.
const PROGRAMS: [&str; 7] = ["authority", "bypass", "measurer", "pass", "redirect", "reflector", "service"];
/// Included by all programs.
const HEADERS: [&str; 8] =
    ["checksum.h", "generator.h", "measurer.h", "packet.h", "repeat.h", "reply.h", "service.h", "sink.h"];

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    for file in HEADERS.iter().map(ToString::to_string).chain(PROGRAMS.iter().map(|name| source(name))) {
        println!("cargo:rerun-if-changed=bpf/{file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let built = PROGRAMS.iter().try_for_each(|name| compile(name, &out));
    if let Err(missing) = &built {
        println!("cargo:warning=without XDP programs: {missing}");
        // A file that never is there: what is missing may have come by the next build, though nothing here has changed.
        println!("cargo:rerun-if-changed={}", out.join("always").display());
    }
    std::fs::write(out.join("objects.rs"), objects(&built)).expect("OUT_DIR can be written");
}

fn source(name: &str) -> String {
    format!("{name}.bpf.c")
}

/// Compiles one program; the error says what is missing in one line.
fn compile(name: &str, out: &Path) -> Result<(), String> {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"]);
    if let Some(directory) = multiarch_include() {
        command.arg("-I").arg(directory);
    }
    command.arg("-c").arg(Path::new("bpf").join(source(name)));
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
    Err(format!("{clang} could not compile bpf/{}: {first}", source(name)))
}

/// Debian and its descendants keep `asm/types.h` in a directory that clang does not search for the target bpf.
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
fn objects(built: &Result<(), String>) -> String {
    let missing = built.as_ref().err();
    let mut source = format!(
        "/// What was missing when the crate was built.\npub const MISSING: Option<&str> = {missing:?};\n"
    );
    for name in PROGRAMS {
        let octets = match built {
            Ok(()) => format!("aya::include_bytes_aligned!(concat!(env!(\"OUT_DIR\"), \"/{name}.o\"))"),
            Err(_) => "&[]".to_owned(),
        };
        let constant = name.to_uppercase();
        source += &format!("/// `bpf/{name}.bpf.c`, compiled.\npub static {constant}: &[u8] = {octets};\n");
    }
    source
}
