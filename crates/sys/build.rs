//! Embeds the XDP program that passes everything, and tells dependents where the shared headers are.

fn main() {
    let directory = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::metadata=include={directory}/bpf");
    bpf_build::embed("aya::include_bytes_aligned");
}
