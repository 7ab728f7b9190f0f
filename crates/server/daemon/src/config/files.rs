//! Files that the configuration is read from.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a file that is not larger than what it should be; a device without an end is not, either.
///
/// # Errors
/// It cannot be read, or is too large.
pub(super) fn read(path: &Path, octets_max: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    File::open(path)?.take(octets_max + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > octets_max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("larger than {octets_max} octets")));
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"1234").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"1234");
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "larger than 3 octets");
        assert_eq!(read(Path::new("/dev/zero"), 3).unwrap_err().to_string(), "larger than 3 octets");
    }
}
