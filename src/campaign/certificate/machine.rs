//! Which machine and which program this is, told by hashes: nobody can find the machine by its certificate.

use std::fs::{self, File};
use std::io::{self, Read};

use ring::digest::{Context, SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::lab::environment::Manifest;

/// A machine, and how it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// A hash of its identity (`machine-id(5)`), which is confidential; empty where it has none.
    pub id: String,
    /// A hash of the identity of this boot.
    pub boot: String,
    /// The processors' model.
    pub processor: String,
    /// How many are on line.
    pub processors: usize,
    /// Those that this process may use.
    pub usable: Vec<usize>,
    /// The kernel's release.
    pub kernel: String,
    /// What virtualizes the machine; empty where nothing seems to.
    pub hypervisor: String,
}

/// Where the identities stand; of the first, the one that is there counts.
const IDENTITIES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The program of this process (`proc(5)`).
const PROGRAM: &str = "/proc/self/exe";
/// An identity in hexadecimal digits, with or without hyphens.
const IDENTITY_DIGITS: usize = 32;
/// Octets of a hash that are kept.
const HASH_OCTETS: usize = 16;

impl Machine {
    /// This one. What is unknown is empty.
    pub fn this() -> Self {
        let manifest = Manifest::take();
        let read = |path: &str| fs::read_to_string(path).ok();
        Self {
            id: IDENTITIES.into_iter().find_map(|path| hashed("machine", &read(path)?)).unwrap_or_default(),
            boot: read(BOOT).and_then(|boot| hashed("boot", &boot)).unwrap_or_default(),
            processor: manifest.processor.model.unwrap_or_default(),
            processors: manifest.processor.online,
            usable: manifest.processor.usable,
            kernel: manifest.kernel_release,
            hypervisor: manifest.hypervisor.unwrap_or_default(),
        }
    }
}

/// The hash of an identity for this purpose; `None` if the text is none.
fn hashed(purpose: &str, text: &str) -> Option<String> {
    let identity = text.trim().to_ascii_lowercase().replace('-', "");
    let is_one = identity.len() == IDENTITY_DIGITS && identity.bytes().all(|octet| octet.is_ascii_hexdigit());
    is_one.then(|| sha256(&format!("sextant certificate {purpose} {identity}"))[..2 * HASH_OCTETS].to_owned())
}

/// The hash of the file that this process runs, also where another has taken its name; empty if it cannot be read.
pub(super) fn program() -> String {
    const PIECE_OCTETS: usize = 1 << 16;
    let hash = || {
        let (mut file, mut piece) = (File::open(PROGRAM)?, vec![0; PIECE_OCTETS]);
        let mut context = Context::new(&SHA256);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok::<_, io::Error>(hexadecimal(context.finish().as_ref())),
                length => context.update(&piece[..length]),
            }
        }
    };
    hash().map(|hash| hash[..2 * HASH_OCTETS].to_owned()).unwrap_or_default()
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The SHA-256 digest of a text as lower-case hexadecimal digits.
pub(super) fn sha256(text: &str) -> String {
    hexadecimal(digest(&SHA256, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_hashed_and_nothing_else_is_one() {
        let identity = "0123456789abcdef0123456789abcdef";
        let hash = hashed("machine", &format!("{identity}\n")).unwrap();
        assert_eq!(hash.len(), 2 * HASH_OCTETS);
        assert_ne!(hashed("boot", identity).unwrap(), hash);
        assert_eq!(hashed("machine", "01234567-89AB-CDEF-0123-456789abcdef"), Some(hash.clone()));
        assert!(!identity.contains(&hash[..8]));
        for other in ["", "uninitialized", "0123", &"g".repeat(32)] {
            assert_eq!(hashed("machine", other), None, "{other}");
        }
        assert_eq!(Machine::this().boot.len(), 2 * HASH_OCTETS);
    }

    #[test]
    fn the_program_is_known_by_its_file() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(program(), hexadecimal(digest(&SHA256, &own).as_ref())[..2 * HASH_OCTETS]);
    }
}
