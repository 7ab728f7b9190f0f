//! How much room a disk has.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Octets that this user may still write to the file system of a path (statvfs(3)).
///
/// # Errors
/// There is nothing at that path, or its file system does not tell.
pub fn free_octets(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends in a zero; the kernel fills the struct, and all zeros are a valid one.
    let answer = unsafe {
        crate::check(libc::statvfs(path.as_ptr(), answer.as_mut_ptr()))?;
        answer.assume_init()
    };
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_tells_its_room() {
        assert!(free_octets(Path::new("/")).is_ok());
        assert_eq!(free_octets(Path::new("/no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
