//! Embeds the XDP programs of this crate.

fn main() {
    bpf_build::embed("sys::bpf::include_bytes_aligned");
}
