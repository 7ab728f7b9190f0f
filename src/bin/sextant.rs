//! sextant, the instrument.

use std::process::ExitCode;

fn main() -> ExitCode {
    sextant::cli::main()
}
