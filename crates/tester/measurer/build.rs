//! Compiles the XDP programs of this crate.

fn main() {
    bpf_build::compile("sys::bpf::include_bytes_aligned");
}
