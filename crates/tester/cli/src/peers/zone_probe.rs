//! A question whose answer is in a zone file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::Path;

use dns64::names::{LABEL_LENGTH, parse_label};
use dns64::wire::Name;

use super::Error;
use lab::peers::Probe;

/// Longer lines are no records of the benchmark.
const LINE_OCTETS: u64 = 1024;

/// Asks for the first name of the benchmark that has an address in the file.
///
/// # Errors
/// The file cannot be read, or there is no such name in it.
pub(super) fn first_name(zone_file: &Path, suffix: &Name) -> Result<Probe, Error> {
    let said = |error: io::Error| Error::Zone(format!("cannot read {}: {error}", zone_file.display()));
    let mut lines = BufReader::new(File::open(zone_file).map_err(said)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut lines, LINE_OCTETS).read_until(b'\n', &mut line).map_err(said)?;
        if read == 0 {
            return Err(Error::Zone(format!(
                "no name of the benchmark, such as 010-000-000-001, has an A record in {}; 'sextant zone' writes such files",
                zone_file.display()
            )));
        }
        if let Some(address) = std::str::from_utf8(&line).ok().and_then(named_address) {
            return Probe::a(address, suffix).map_err(Error::Suffix);
        }
    }
}

/// The address of a line `NNN-NNN-NNN-NNN… [TTL] [IN] A`.
fn named_address(line: &str) -> Option<Ipv4Addr> {
    let mut words = line.split_ascii_whitespace();
    let label = words.next()?.as_bytes().get(..LABEL_LENGTH)?;
    let is_a = words.next_back()?.parse::<Ipv4Addr>().is_ok() && words.next_back()? == "A";
    parse_label(label).filter(|_| is_a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_of_a_name_of_the_benchmark_is_asked_for() {
        let address = Some(Ipv4Addr::new(10, 0, 0, 7));
        assert_eq!(named_address("010-000-000-007 A 10.0.0.7\n"), address);
        assert_eq!(named_address("010-000-000-007.dns64perf.test. 60 IN A 10.0.0.7"), address);
        for other in
            ["", "ns A 127.0.0.1", "010-000-000-007 AAAA ::1", "010-000-000-007", "010-000-000-999 A 1.2.3.4"]
        {
            assert_eq!(named_address(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_without_one_is_refused_in_one_line() {
        let suffix = Name::from_text("dns64perf.test").unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "$ORIGIN example.\n@ SOA a. b. 1 2 3 4 5\n").unwrap();
        let error = first_name(file.path(), &suffix).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains("010-000-000-001"), "{error}");
        std::fs::write(file.path(), "010-000-000-007 A 10.0.0.7").unwrap();
        assert_eq!(
            first_name(file.path(), &suffix).unwrap().name.to_string(),
            "010-000-000-007.dns64perf.test."
        );
        assert!(first_name(Path::new("/no/such"), &suffix).unwrap_err().to_string().contains("/no/such"));
    }
}
