/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Sends a frame by a device, to see whether frames of programs leave there. */
#include "packet.h"

const volatile __u32 device = 0;

SEC("xdp")
int probe(struct xdp_md *ctx)
{
    return bpf_redirect(device, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
