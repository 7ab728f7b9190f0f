//! dns64d, the DNS64 forwarder. The program is [`proxy::daemon`], the server [`proxy::Server`].

use std::process::ExitCode;

fn main() -> ExitCode {
    proxy::daemon::main(proxy::Server::start)
}
