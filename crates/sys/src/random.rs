//! Secrets of the operating system (getrandom(2)).

use std::io;

/// A secret of 32 octets from the kernel's generator, which takes in new entropy all the time, also after a
/// virtual machine went on from a snapshot (vmgenid). It needs no file, so a process without files has it.
///
/// # Errors
/// The kernel does not have the call (before 3.17).
pub fn secret() -> io::Result<[u8; 32]> {
    let mut secret = [0; 32];
    let mut filled = 0;
    while filled < secret.len() {
        let rest = &mut secret[filled..];
        // SAFETY: the kernel writes at most `rest.len()` octets into the slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => filled += got,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_like_another() {
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one != other && one != [0; 32]);
    }
}
