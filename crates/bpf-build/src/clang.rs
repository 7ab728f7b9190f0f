//! The compiler clang, and what is missing or wrong if it does not compile.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is no object.
pub enum Failure {
    /// This machine cannot compile BPF programs; what is missing, in one line.
    Missing(String),
    /// The program is wrong; all that clang says of it.
    Program(String),
}

impl Failure {
    /// What is missing or wrong.
    pub fn words(&self) -> &str {
        match self {
            Self::Missing(words) | Self::Program(words) => words,
        }
    }
}

/// clang, or what `CLANG` names, and the directories of headers.
pub struct Clang {
    program: String,
    include: Vec<PathBuf>,
}

impl Clang {
    /// `include` is the directory of our headers.
    pub fn new(include: Option<PathBuf>) -> Self {
        let program = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        Self { program, include: include.into_iter().chain(multiarch_include()).collect() }
    }

    /// Compiles one program.
    pub fn compile(&self, source: &Path, object: &Path) -> Result<(), Failure> {
        let clang = &self.program;
        let mut command = Command::new(clang);
        command.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"]);
        for directory in &self.include {
            command.arg("-I").arg(directory);
        }
        command.arg("-c").arg(source).arg("-o").arg(object);
        let output = command.output();
        let output =
            output.map_err(|error| Failure::Missing(format!("{clang} could not be run ({error})")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(match missing(&said) {
            Some(what) => Failure::Missing(what.to_owned()),
            None => Failure::Program(format!("{clang} {}: {}\n{said}", source.display(), output.status)),
        })
    }
}

/// What clang lacks, if that and no error of the program is why it ended.
fn missing(said: &str) -> Option<&'static str> {
    let has = |words: &[&str]| said.lines().any(|line| words.iter().all(|one| line.contains(one)));
    let has_no = |directory: &str| has(&[&format!("'{directory}/"), "file not found"]);
    if has_no("bpf") {
        Some("libbpf's headers were not found (Debian: libbpf-dev)")
    } else if has_no("linux") || has_no("asm") {
        Some("the kernel's headers were not found (Debian: linux-libc-dev)")
    } else if has(&["unable to create target", "bpf"]) || has(&["unknown target triple", "bpf"]) {
        Some("this clang has no target bpf (Debian's has)")
    } else {
        None
    }
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
