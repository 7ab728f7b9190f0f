//! The programs of a crate, and whether their objects in the repository are those of the sources.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::clang::{Clang, FLAGS};
use crate::digest::Digest;

/// The compiler of the objects in the repository, as `clang --version` says it: Debian 12's.
pub const PINNED_CLANG: &str = "Debian clang version 14.0.6";

/// The programs in a directory: each `NAME.bpf.c`, compiled as `NAME.elf`. The name of the objects does not
/// end as usual, because much software leaves `*.o` out of what it packs.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
    shared: Option<PathBuf>,
    names: Vec<String>,
}

impl Programs {
    /// The programs in `directory`; `shared` is the directory of headers that several crates include.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn find(directory: PathBuf, shared: Option<PathBuf>) -> io::Result<Self> {
        let names = files(&directory, ".bpf.c")?.into_iter();
        let names = names.filter_map(|name| name.strip_suffix(".bpf.c").map(str::to_owned)).collect();
        Ok(Self { directory, shared, names })
    }

    /// The names before `.bpf.c`, sorted.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The directory that they are in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the object of a program is in the repository.
    pub fn object(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.elf"))
    }

    /// The file that says of which sources the objects in the repository are.
    pub fn digest_file(&self) -> PathBuf {
        self.directory.join("digest")
    }

    /// The digest of all from which the objects follow: sources, headers, options, compiler.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn digest(&self) -> io::Result<String> {
        let mut digest = Digest::new();
        [PINNED_CLANG].iter().chain(FLAGS).for_each(|part| digest.add(part.as_bytes()));
        let own = [".c", ".h"].map(|end| (&self.directory, end));
        for (directory, end) in own.into_iter().chain(self.shared.as_ref().map(|shared| (shared, ".h"))) {
            for name in files(directory, end)? {
                digest.add(name.as_bytes());
                digest.add(&fs::read(directory.join(&name))?);
            }
        }
        Ok(digest.text())
    }

    /// Whether the objects in the repository are there, and those of the sources.
    pub fn are_compiled(&self) -> bool {
        let noted = fs::read_to_string(self.digest_file()).unwrap_or_default();
        self.digest().is_ok_and(|digest| digest == noted.trim_end())
            && self.names.iter().all(|name| self.object(name).exists())
    }

    /// Compiles a program.
    ///
    /// # Errors
    /// clang cannot be run, or does not accept the program: what it says.
    pub fn compile(&self, clang: &Clang, name: &str, object: &Path) -> Result<(), String> {
        let source = self.directory.join(format!("{name}.bpf.c"));
        let include = [Some(&self.directory), self.shared.as_ref()];
        let include: Vec<&Path> = include.into_iter().flatten().map(PathBuf::as_path).collect();
        clang.compile(&source, &include, object)
    }
}

/// The names of the files in a directory that end so, sorted.
fn files(directory: &Path, end: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| name.ends_with(end)));
    }
    names.sort();
    Ok(names)
}
