/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Turning a query's headers into those of its answer, in the same frame. */
#pragma once

#include "checksum.h"

#define IPV4_DO_NOT_FRAGMENT bpf_htons(0x4000)
#define HOPS 64

static __always_inline void swap_macs(struct ethhdr *eth)
{
    __u16 *to = (__u16 *)eth->h_dest, *from = (__u16 *)eth->h_source;
    for (int i = 0; i < ETH_ALEN / 2; i++) {
        __u16 kept = to[i];
        to[i] = from[i];
        from[i] = kept;
    }
}

static __always_inline void swap_ports(struct udphdr *udp)
{
    __u16 kept = udp->source;
    udp->source = udp->dest;
    udp->dest = kept;
}

/* Swaps the addresses and returns the sum over both; all else but the hop count and the checksum stays. */
static __always_inline __u64 swap_ipv4(struct iphdr *ip)
{
    __u32 kept = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = kept;
    ip->ttl = HOPS;
    ip->check = 0;
    ip->check = ipv4_checksum(ip);
    return (__u64)ip->saddr + ip->daddr;
}

static __always_inline __u64 swap_ipv6(struct ipv6hdr *ip)
{
    __u32 *from = ip->saddr.in6_u.u6_addr32, *to = ip->daddr.in6_u.u6_addr32;
    __u64 sum = 0;
    for (int i = 0; i < 4; i++) {
        __u32 kept = from[i];
        from[i] = to[i];
        to[i] = kept;
        sum += (__u64)from[i] + to[i];
    }
    ip->hop_limit = HOPS;
    return sum;
}

/* The headers of an answer whose datagram has so many octets and this sum, with its pseudo-header: as a
 * socket would write them that allows no fragments (RFC 6864 4.1), whatever class, label or identification
 * the query had. */
static __always_inline void turn(struct ethhdr *eth, struct udphdr *udp, __u32 octets, __u64 sum,
    const int is_ipv6)
{
    swap_ports(udp);
    udp->len = bpf_htons(octets);
    udp->check = fold_udp(sum);
    swap_macs(eth);
    if (is_ipv6) {
        struct ipv6hdr *ip = (void *)udp - sizeof(*ip);
        *(__u32 *)ip = bpf_htonl(6 << 28);
        ip->payload_len = bpf_htons(octets);
        swap_ipv6(ip);
    } else {
        struct iphdr *ip = (void *)udp - sizeof(*ip);
        *(__u16 *)ip = bpf_htons(IPV4_PLAIN << 8);
        ip->tot_len = bpf_htons(sizeof(*ip) + octets);
        ip->id = 0;
        ip->frag_off = IPV4_DO_NOT_FRAGMENT;
        swap_ipv4(ip);
    }
}
