//! Writes what a package holds beside the programs, made of the same command lines that the programs read:
//! `assets DIR` makes `DIR/man/` (manual pages) and `DIR/completions/` (bash, zsh, fish).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

/// A program with the section of the manual that it belongs to.
struct Program {
    command: Command,
    section: &'static str,
}

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: assets DIR");
        return ExitCode::from(2);
    };
    match write_all(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("assets: cannot write to {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes everything below `directory`, which is made.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(directory: &Path) -> io::Result<()> {
    let (manual, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&manual)?;
    for program in programs() {
        write_completions(program.command.clone(), &completions)?;
        let mut command = program.command.disable_help_subcommand(true);
        command.build();
        write_pages(&command, program.section, &manual)?;
    }
    fs::write(manual.join("dns64d.toml.5"), daemon::config::manual())?;
    Ok(())
}

fn programs() -> [Program; 2] {
    [
        Program { command: daemon::command(), section: "8" },
        Program { command: cli::Cli::command(), section: "1" },
    ]
}

/// One page for the command and one for each of its subcommands.
fn write_pages(command: &Command, section: &str, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand, section, directory)?;
    }
    let page = Man::new(command.clone()).section(section).manual("Sextant");
    page.generate_to(directory).map(|_| ())
}

/// A directory for each shell, with files named as that shell looks for them.
fn write_completions(mut command: Command, directory: &Path) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let files = [
        (Shell::Bash, format!("bash/{name}")),
        (Shell::Zsh, format!("zsh/_{name}")),
        (Shell::Fish, format!("fish/{name}.fish")),
    ];
    for (shell, path) in files {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        clap_complete::generate(shell, &mut command, &name, &mut File::create(&path)?);
    }
    Ok(())
}
