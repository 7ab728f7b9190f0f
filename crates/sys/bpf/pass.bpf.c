/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Lets everything pass. A veth takes frames from its peer's XDP_TX and from redirects only with a program of
 * its own. */
#include "packet.h"

SEC("xdp")
int pass(struct xdp_md *ctx)
{
    return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
