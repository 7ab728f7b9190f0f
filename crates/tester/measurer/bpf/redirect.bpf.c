/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Hands the server's answers to the AF_XDP socket of the queue they arrive on; everything else passes. */
#include "packet.h"

/* The server: its address (the first 4 octets if IPv4) and its port, in network order. */
const volatile __u32 server_address[4] = {0};
const volatile __u16 server_port = 0;
const volatile __u8 server_is_ipv6 = 0;
/* The destination ports of our answers, in host order, both included. */
const volatile __u16 first_port = 0;
const volatile __u16 last_port = 0xffff;

enum { TAKEN, WRONG_QUEUE, COUNTERS };
PER_CPU_COUNTERS(counters, COUNTERS);

AF_XDP_SOCKETS(sockets);

static __always_inline int is_from_server(const void *data, const void *end, __u32 offset)
{
    const struct udphdr *udp = data + offset;
    if (server_is_ipv6) {
        const struct ipv6hdr *ip = data + sizeof(struct ethhdr);
        if (offset != sizeof(struct ethhdr) + sizeof(*ip))
            return 0;
        udp = (const void *)(ip + 1);
        if ((const void *)(udp + 1) > end)
            return 0;
        if (!is_same(ip->saddr.in6_u.u6_addr32, server_address))
            return 0;
    } else {
        const struct iphdr *ip = data + sizeof(struct ethhdr);
        if (offset != sizeof(struct ethhdr) + sizeof(*ip))
            return 0;
        udp = (const void *)(ip + 1);
        if ((const void *)(udp + 1) > end || ip->saddr != server_address[0])
            return 0;
    }
    __u16 to = bpf_ntohs(udp->dest);
    return udp->source == server_port && to >= first_port && to <= last_port;
}

/* Puts the time of arrival (CLOCK_MONOTONIC) before the frame, where the driver leaves room for it. */
static __always_inline void stamp(struct xdp_md *ctx)
{
    if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(__u64)))
        return;
    __u64 *at = (void *)(long)ctx->data_meta;
    if ((void *)(at + 1) <= (void *)(long)ctx->data)
        *at = bpf_ktime_get_ns();
}

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 offset = udp_offset(data, end);
    if (!offset || !is_from_server(data, end, offset))
        return XDP_PASS;
    stamp(ctx);
    long action = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
    /* Nobody else waits for it: passed on, it would only provoke an ICMP error to the server. */
    COUNT(counters, action == XDP_REDIRECT ? TAKEN : WRONG_QUEUE);
    return action;
}

char _license[] SEC("license") = "Dual MIT/GPL";
