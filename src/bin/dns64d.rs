//! dns64d, the DNS64 forwarder: the program is in the crate [`daemon`].

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::main(daemon::Server::start)
}
