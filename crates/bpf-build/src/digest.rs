//! Octets as a short text that shows whether they have changed.

/// FNV-1a of 64 bits: it need not withstand an attacker, for who changes sources changes digests as well.
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds octets with their number, so that it is seen where they end.
    pub(crate) fn add(&mut self, octets: &[u8]) {
        for &octet in (octets.len() as u64).to_le_bytes().iter().chain(octets) {
            self.0 = (self.0 ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_octet_and_each_end_counts() {
        let of = |parts: &[&str]| {
            let mut digest = Digest::new();
            parts.iter().for_each(|part| digest.add(part.as_bytes()));
            digest.text()
        };
        let all = [of(&[]), of(&[""]), of(&["ab"]), of(&["ac"]), of(&["a", "b"]), of(&["b", "a"])];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 16, "{one}");
            assert!(!all[..index].contains(one), "{all:?}");
        }
        assert_eq!(of(&["ab"]), of(&["ab"]));
    }
}
