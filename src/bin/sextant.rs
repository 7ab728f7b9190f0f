//! sextant, the instrument.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
