/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Hands the datagrams to our addresses to the AF_XDP socket of the queue they arrive on; where there is none,
 * and whatever else arrives, passes. */
#include "service.h"

/* Longer datagrams are no queries, and their answers might not fit: for the sockets. */
#define MAX_OCTETS (sizeof(struct udphdr) + 1232)

enum { TAKEN, WRONG_QUEUE, COUNTERS };
PER_CPU_COUNTERS(counters, COUNTERS);

AF_XDP_SOCKETS(sockets);

SEC("xdp")
int service(struct xdp_md *ctx)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct datagram datagram = {};
    if (!datagram_of(data, end, &datagram) || datagram.octets > MAX_OCTETS)
        return XDP_PASS;
    long action = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
    COUNT(counters, action == XDP_REDIRECT ? TAKEN : WRONG_QUEUE);
    return action;
}

char _license[] SEC("license") = "Dual MIT/GPL";
