//! The compiler.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What every object is compiled with. Without `-g` there is no BTF, from which the loader has the maps.
pub(crate) const FLAGS: &[&str] = &["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"];

/// A clang, and the headers of a kernel for it.
#[derive(Clone, Debug)]
pub struct Clang {
    program: String,
    headers: PathBuf,
}

impl Clang {
    /// A program; the headers are this machine's. Debian and its descendants keep `asm/types.h` in a
    /// directory that clang does not search for the target bpf.
    pub fn new(program: &str) -> Self {
        let headers = Path::new("/usr/include").join(format!("{}-linux-gnu", env::consts::ARCH));
        Self { program: program.to_owned(), headers }
    }

    /// With headers of another machine.
    pub fn with_headers(self, headers: PathBuf) -> Self {
        Self { headers, ..self }
    }

    /// Compiles a program; `include` are the directories of our headers. In the object, all are `/bpf`, so
    /// that the object does not depend on where they are.
    pub(crate) fn compile(&self, source: &Path, include: &[&Path], object: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(FLAGS);
        for directory in include {
            command.arg("-I").arg(directory).arg(format!("-fdebug-prefix-map={}=/bpf", directory.display()));
        }
        command.arg("-I").arg(&self.headers).arg("-c").arg(source).arg("-o").arg(object);
        let output =
            command.output().map_err(|error| format!("{} could not be run: {error}", self.program))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{} {}: {}\n{said}", self.program, source.display(), output.status))
    }
}
