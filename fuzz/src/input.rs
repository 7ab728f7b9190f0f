//! An input, taken apart from its front. Where it ends, there are zeros.

/// What is left of an input.
#[derive(Clone, Copy)]
pub struct Input<'i>(pub &'i [u8]);

impl<'i> Input<'i> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn octet(&mut self) -> u8 {
        let [octet] = self.array();
        octet
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub fn array<const OCTETS: usize>(&mut self) -> [u8; OCTETS] {
        let mut array = [0; OCTETS];
        let taken = self.take(OCTETS);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// So many octets, or those that are left.
    pub fn take(&mut self, octets: usize) -> &'i [u8] {
        let (taken, rest) = self.0.split_at(octets.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Octets behind their number in 16 bits.
    pub fn counted(&mut self) -> &'i [u8] {
        let octets = self.word();
        self.take(octets.into())
    }
}
