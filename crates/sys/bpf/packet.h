/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What all programs share: headers, bounds, counters. */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* More fragments follow, or this is not the first one (RFC 791 3.1). */
#define FRAGMENT bpf_htons(0x3fff)
/* Version 4 and a header without options. */
#define IPV4_PLAIN 0x45

#define PER_CPU_COUNTERS(name, count)                                                                        \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                             \
        __uint(max_entries, count);                                                                          \
        __type(key, __u32);                                                                                  \
        __type(value, __u64);                                                                                \
    } name SEC(".maps")

/* The AF_XDP socket of each queue; the loader sets how many. */
#define AF_XDP_SOCKETS(name)                                                                                 \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_XSKMAP);                                                                   \
        __uint(max_entries, 64);                                                                             \
        __type(key, __u32);                                                                                  \
        __type(value, __u32);                                                                                \
    } name SEC(".maps")

#define COUNT(map, index)                                                                                    \
    do {                                                                                                     \
        __u32 count_index = (index);                                                                         \
        __u64 *counter = bpf_map_lookup_elem(&map, &count_index);                                            \
        if (counter)                                                                                         \
            *counter += 1;                                                                                   \
    } while (0)

static __always_inline int is_same(const volatile __u32 *one, const volatile __u32 *other)
{
    return !((one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) | (one[3] ^ other[3]));
}

/* The octets of a datagram with its header. The mask changes nothing, and the compiler would leave it out; it
 * tells older verifiers (Linux 6.1) that the number has 16 bits, which they do not know of a number whose
 * octets have changed places. */
static __always_inline __u64 udp_octets(const struct udphdr *udp)
{
    __u64 octets = bpf_ntohs(udp->len);
    asm volatile("%0 &= 0xffff" : "+r"(octets));
    return octets;
}

/* Whether a packet is a UDP datagram in one piece without options, and its headers are within the frame. */
static __always_inline int is_udp_ipv4(const struct iphdr *ip, const void *end)
{
    return (const void *)(ip + 1) + sizeof(struct udphdr) <= end && *(const __u8 *)ip == IPV4_PLAIN &&
           ip->protocol == IPPROTO_UDP && !(ip->frag_off & FRAGMENT);
}

/* The same without extension headers. */
static __always_inline int is_udp_ipv6(const struct ipv6hdr *ip, const void *end)
{
    return (const void *)(ip + 1) + sizeof(struct udphdr) <= end && ip->version == 6
        && ip->nexthdr == IPPROTO_UDP;
}

/* Where the UDP header of an unfragmented datagram stands; 0 if this is none. Datagrams behind IPv4 options
 * or IPv6 extension headers are left to the kernel. */
static __always_inline __u32 udp_offset(const void *data, const void *end)
{
    const struct ethhdr *eth = data;
    if ((const void *)(eth + 1) > end)
        return 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return is_udp_ipv4((const void *)(eth + 1), end) ? sizeof(*eth) + sizeof(struct iphdr) : 0;
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return is_udp_ipv6((const void *)(eth + 1), end) ? sizeof(*eth) + sizeof(struct ipv6hdr) : 0;
    return 0;
}
