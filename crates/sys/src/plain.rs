//! Structs that pass to and from the kernel as octets.

/// A type of numbers only, which may be read from and handed out as plain memory.
///
/// # Safety
/// Any octets are a value of the type, and there is no padding: all octets of any value are initialized.
pub(crate) unsafe trait Plain: Copy {
    /// The value whose octets are all zero.
    fn zeroed() -> Self {
        // SAFETY: any octets are a value.
        unsafe { std::mem::zeroed() }
    }
}

/// Implements [`Plain`] for structs, whose members stand without gaps: the sizes of the types named add up to
/// the struct's.
macro_rules! plain {
    ($($type:ty: [$($member:ty),* $(,)?]),* $(,)?) => {$(
        const _: () = assert!(size_of::<$type>() == 0 $(+ size_of::<$member>())*);
        // SAFETY: numbers only, and the assertion shows that nothing stands between them.
        unsafe impl Plain for $type {}
    )*};
}

pub(crate) use plain;

type RingOffset = libc::xdp_ring_offset;

plain! {
    u32: [u32],
    u64: [u64],
    libc::xdp_desc: [u64, u32, u32],
    RingOffset: [u64, u64, u64, u64],
    libc::xdp_mmap_offsets: [RingOffset, RingOffset, RingOffset, RingOffset],
    libc::xdp_statistics: [u64, u64, u64, u64, u64, u64],
    libc::xdp_options: [u32],
    libc::xdp_umem_reg: [u64, u64, u32, u32, u32, u32],
}
