//! The objects in the repository are what the pinned clang makes of the sources, octet for octet, with the
//! headers of either architecture. With `RENEW_BPF=1` they become so (`make bpf`).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bpf_build::{Clang, PINNED_CLANG, Programs};

const CLANG: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";
/// What no loader reads: DWARF, labels of jumps, and relocations of BTF, whose offsets are in place already.
const STRIPPED: [&str; 6] =
    ["--strip-debug", "-w", "-N", "LBB*", "--remove-section=.rel.BTF*", "--remove-section=.llvm_addrsig"];

/// Architectures for which there are programs: as Rust calls them, and Debian.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

/// The programs of all crates.
fn all() -> Vec<Programs> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let below = |directory: &Path| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let one: Vec<PathBuf> = below(crates).filter(|path| path.is_dir()).collect();
    let two = one.iter().flat_map(|path| below(path)).filter(|path| path.is_dir());
    let shared = crates.join("sys/bpf");
    let directories =
        one.iter().cloned().chain(two).map(|path| path.join("bpf")).filter(|path| path.is_dir());
    let programs = directories.map(|path| {
        let shared = (path != shared).then(|| shared.clone());
        Programs::find(path, shared).unwrap()
    });
    programs.filter(|programs| !programs.names().is_empty()).collect()
}

/// Whether the compiler is there.
fn has_compiler() -> bool {
    if !testing::has_program(CLANG, "clang-14") || !testing::has_program(STRIP, "llvm-14") {
        return false;
    }
    let said = Command::new(CLANG).arg("--version").output().unwrap().stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let is_pinned = said.lines().next() == Some(PINNED_CLANG);
    if !is_pinned {
        testing::skip("pinned clang", format!("the objects are of {PINNED_CLANG}, and this is {said}"));
    }
    is_pinned
}

/// What the compiler makes of a program, without what only debuggers read.
fn compiled(programs: &Programs, name: &str, clang: &Clang) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("object");
    programs.compile(clang, name, &object).unwrap_or_else(|error| panic!("{error}"));
    let status = Command::new(STRIP).args(STRIPPED).arg(&object).status().unwrap();
    assert!(status.success(), "{STRIP}: {status}");
    fs::read(object).unwrap()
}

fn renew(programs: &Programs) {
    for name in programs.names() {
        let object = compiled(programs, name, &Clang::new(CLANG));
        fs::write(programs.object(name), object).unwrap();
    }
    fs::write(programs.digest_file(), programs.digest().unwrap() + "\n").unwrap();
}

/// The headers of the kernel for an architecture; if they are missing, says so.
fn headers((rust, debian): (&str, &str)) -> Option<PathBuf> {
    if rust == env::consts::ARCH {
        return Some(format!("/usr/include/{rust}-linux-gnu").into());
    }
    let cross = PathBuf::from(format!("/usr/{rust}-linux-gnu/include"));
    let package = format!("linux-libc-dev-{debian}-cross");
    if !cross.join("asm/types.h").exists() {
        testing::skip("headers of another architecture", format!("apt-get install {package}"));
        return None;
    }
    Some(cross)
}

#[test]
fn the_objects_are_those_of_the_sources() {
    let (all, is_renewing) = (all(), env::var_os("RENEW_BPF").is_some());
    let programs: usize = all.iter().map(|programs| programs.names().len()).sum();
    assert!(programs >= 7, "{all:?}");
    if !has_compiler() {
        assert!(!is_renewing, "make bpf needs {PINNED_CLANG}");
        return;
    }
    if is_renewing {
        all.iter().for_each(renew);
    }
    let headers = ARCHITECTURES.map(headers);
    for programs in &all {
        assert!(programs.are_compiled(), "{programs:?} is not compiled: 'make bpf'");
        for (name, headers) in
            programs.names().iter().flat_map(|name| headers.iter().flatten().map(move |one| (name, one)))
        {
            let clang = Clang::new(CLANG).with_headers(headers.clone());
            let same = fs::read(programs.object(name)).unwrap() == compiled(programs, name, &clang);
            assert!(same, "{name} is another program with {}: 'make bpf'", headers.display());
        }
    }
}

#[test]
fn the_objects_are_in_the_packages() {
    for programs in all() {
        let package = programs.directory().parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(package);
        let output = cargo.output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let objects = programs.names().iter().map(|name| programs.object(name));
        for file in objects.chain([programs.digest_file()]) {
            let file = file.strip_prefix(package).unwrap().to_str().unwrap();
            assert!(listed.lines().any(|line| line == file), "{file} is not in the package: {listed}");
        }
    }
}
