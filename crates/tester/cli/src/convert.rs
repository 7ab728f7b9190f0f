//! `sextant convert`: a capture as a compact file, to replay it from disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::failure::{Failure, print};
use crate::{EXIT_UNFIT, EXIT_USAGE};
use capture::{ConvertError, Converted, DNS_PORT, convert};
use record::number::{count, octets, seconds};

/// Options of `sextant convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant convert peak.pcap peak.sxt
      then: sextant trial --server '[::1]:53' --input peak.sxt
  zstdcat day.pcap.zst | sextant convert - day.sxt
      memory is bounded, however long the capture is")]
pub struct ConvertArgs {
    /// The capture: a pcap or pcapng file; - is standard input
    capture: PathBuf,
    /// The file to write; it must not be there yet
    file: PathBuf,
    /// Port whose queries are taken
    #[arg(long, value_name = "PORT", default_value_t = DNS_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Refuse a capture that is cut off or malformed; by default the queries before the place are taken
    #[arg(long)]
    strict_input: bool,
}

/// Converts the capture and prints what is in the file and what is not.
///
/// # Errors
/// A capture that cannot be read or holds no query, a file that is there already or cannot be written.
pub fn run(args: &ConvertArgs) -> Result<ExitCode, Failure> {
    let (from, to) = (args.capture.display(), args.file.display());
    let input: Box<dyn Read + Send> = if args.capture == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let opened = File::open(&args.capture);
        Box::new(opened.map_err(|error| Failure::new(EXIT_USAGE, format!("cannot read {from}: {error}")))?)
    };
    let output = File::create_new(&args.file)
        .map_err(|error| Failure::new(EXIT_USAGE, format!("cannot write {to}: {error}")))?;
    // What is of no use is not left behind.
    let discard = |failure: Failure| {
        let _ = std::fs::remove_file(&args.file);
        failure
    };
    let converted = convert(input, output, args.port).map_err(|error| {
        discard(match error {
            ConvertError::Output(error) => Failure::new(EXIT_UNFIT, format!("cannot write {to}: {error}")),
            error => Failure::new(EXIT_USAGE, format!("{from}: {error}")),
        })
    })?;
    if let Some(stopped) = &converted.stopped {
        if args.strict_input {
            return Err(discard(Failure::new(EXIT_USAGE, format!("{from}: {stopped}"))));
        }
        eprintln!("sextant: {from}: {stopped}; the queries before are used (--strict-input refuses this)");
    }
    print(&told(&args.file, &converted))?;
    Ok(ExitCode::SUCCESS)
}

/// What is in the file, and what of the capture is not.
fn told(file: &Path, converted: &Converted<File>) -> String {
    let header = &converted.header;
    let mut text = format!(
        "{}: {} queries of {} clients in {}, {}\n",
        file.display(),
        count(header.queries),
        count(header.clients),
        seconds(header.length_ns as f64 / 1e9),
        octets(header.octets),
    );
    for (why, left_out) in header.left_out.iter() {
        text += &format!("  left out: {} {}\n", why.in_words(), count(left_out));
    }
    text
}
