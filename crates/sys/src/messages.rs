//! The messages of the kernel (`/dev/kmsg`, Documentation/ABI/testing/dev-kmsg in the kernel).

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// A record is never longer; a shorter buffer is an error for a longer record.
const RECORD_OCTETS_MAX: usize = 8192;
/// More records than the kernel's buffer holds.
const RECORDS_MAX: usize = 200_000;

/// The records since the machine was booted, the oldest first, as far as the kernel still has them:
/// `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS[,MORE];TEXT`. None where they may not be read.
pub fn kernel_messages() -> Vec<String> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    opened.map_or_else(|_| Vec::new(), read)
}

fn read(mut file: File) -> Vec<String> {
    let mut records = Vec::new();
    let mut octets = [0; RECORD_OCTETS_MAX];
    for _ in 0..RECORDS_MAX {
        match file.read(&mut octets) {
            Ok(0) => break,
            Ok(length) => records.push(String::from_utf8_lossy(&octets[..length]).into_owned()),
            // The kernel has written over records that were not read yet.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_there_is_read_without_waiting() {
        for record in kernel_messages() {
            assert!(record.contains(';'), "{record:?}");
        }
    }
}
