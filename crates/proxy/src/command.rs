//! The command line of dns64d: the program reads it, its manual page and completions are made of it.

use std::path::PathBuf;

use clap::{CommandFactory, Parser};

/// A DNS64 forwarder: answers AAAA questions for IPv4-only names with addresses under a NAT64 prefix (RFC 6147).
#[derive(Debug, Parser)]
#[command(name = "dns64d", version)]
pub struct Options {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the configuration and exit: 0 when it is good, 2 when it is not
    #[arg(long)]
    pub check_config: bool,
}

/// The command line for programs that make manual pages and completions from it.
pub fn command() -> clap::Command {
    Options::command()
}
