//! What a kernel that refuses a program lacks.

use aya::maps::MapType;
use aya::programs::ProgramType;
use aya::sys::{BpfHelper, is_helper_supported, is_map_supported};

/// What programs use that not every kernel with XDP links (Linux 5.9) has, and where it comes from.
enum Feature {
    Map(MapType, &'static str),
    Helper(BpfHelper, &'static str),
}

const FEATURES: [Feature; 3] = [
    Feature::Map(MapType::XskMap, "AF_XDP (CONFIG_XDP_SOCKETS)"),
    Feature::Map(MapType::RingBuf, "ring buffers of BPF programs (Linux 5.8)"),
    Feature::Helper(BpfHelper::BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes (Linux 5.18)"),
];

impl Feature {
    /// Its words, if this kernel lacks it. A kernel that cannot be asked lacks nothing.
    fn lacking(&self) -> Option<&'static str> {
        let (is_there, words) = match *self {
            Self::Map(map, words) => (is_map_supported(map).unwrap_or(true), words),
            Self::Helper(helper, words) => {
                (is_helper_supported(ProgramType::Xdp, helper).unwrap_or(true), words)
            }
        };
        (!is_there).then_some(words)
    }
}

/// The features that programs use and this kernel lacks, each with the kernel that has it.
pub(super) fn lacking() -> Vec<&'static str> {
    FEATURES.iter().filter_map(Feature::lacking).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_lacks_only_what_no_kernel_has() {
        assert_eq!(lacking(), [""; 0]);
        assert_eq!(Feature::Map(MapType::Unspecified, "nothing").lacking(), Some("nothing"));
    }
}
