//! dns64d, the DNS64 forwarder. The program is [`daemon::program`], the server [`daemon::Server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::main(daemon::Server::start)
}
