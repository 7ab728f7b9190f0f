/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which frames carry a datagram to one of the addresses that are served here. All others are the stack's:
 * also those that it would drop, and those whose form leaves a doubt. */
#pragma once

#include "datagram.h"

/* Of each family. */
#define ADDRESSES 16
/* 802.1Q, or 802.1ad and 802.1Q. */
#define VLAN_TAGS 2
#define VLAN_TAG_OCTETS 4

const volatile struct place {
    __u32 ipv6[ADDRESSES][4];
    __u32 ipv4[ADDRESSES];
    /* In network order. */
    __u16 ipv6_port[ADDRESSES];
    __u16 ipv4_port[ADDRESSES];
    __u32 ipv6_count;
    __u32 ipv4_count;
    __u16 mac[3];
    /* Send by redirecting to the same device instead of XDP_TX: a veth whose peer has no XDP program takes
     * only that. */
    __u16 redirects;
} place = {};

/* A datagram to us. */
struct datagram {
    /* Where the UDP header stands. */
    __u32 udp_at;
    /* The length that it says. */
    __u32 octets;
    /* The sum over both addresses. */
    __u64 sum;
};

static __always_inline int is_our_ipv4(__u32 address, __u16 port)
{
    for (int i = 0; i < ADDRESSES; i++) {
        if (i < place.ipv4_count && !((address ^ place.ipv4[i]) | (port ^ place.ipv4_port[i])))
            return 1;
    }
    return 0;
}

static __always_inline int is_our_ipv6(const __u32 *address, __u16 port)
{
    for (int i = 0; i < ADDRESSES; i++) {
        if (i < place.ipv6_count && port == place.ipv6_port[i] && is_same(address, place.ipv6[i]))
            return 1;
    }
    return 0;
}

static __always_inline int read_ipv4(const void *data, const void *end, __u32 at, struct datagram *datagram)
{
    const struct iphdr *ip = data + at;
    const struct udphdr *udp = (const void *)(ip + 1);
    if (!is_datagram_ipv4(ip, end) || !is_our_ipv4(ip->daddr, udp->dest))
        return 0;
    datagram->udp_at = at + sizeof(*ip);
    datagram->octets = bpf_ntohs(udp->len);
    datagram->sum = (__u64)ip->saddr + ip->daddr;
    return 1;
}

static __always_inline int read_ipv6(const void *data, const void *end, __u32 at, struct datagram *datagram)
{
    const struct ipv6hdr *ip = data + at;
    const struct udphdr *udp = (const void *)(ip + 1);
    if (!is_datagram_ipv6(ip, end) || !is_our_ipv6(ip->daddr.in6_u.u6_addr32, udp->dest))
        return 0;
    datagram->udp_at = at + sizeof(*ip);
    datagram->octets = bpf_ntohs(udp->len);
    const __u32 *from = ip->saddr.in6_u.u6_addr32, *to = ip->daddr.in6_u.u6_addr32;
    datagram->sum = 0;
    for (int i = 0; i < 4; i++)
        datagram->sum += (__u64)from[i] + to[i];
    return 1;
}

/* ETH_P_IP or ETH_P_IPV6 if the frame carries a datagram to us in one piece, with at most VLAN tags before
 * and no options or extension headers within; else 0. */
static __always_inline int datagram_of(const void *data, const void *end, struct datagram *datagram)
{
    const struct ethhdr *eth = data;
    if ((const void *)(eth + 1) > end)
        return 0;
    const __u16 *to = (const __u16 *)eth->h_dest;
    if ((to[0] ^ place.mac[0]) | (to[1] ^ place.mac[1]) | (to[2] ^ place.mac[2]))
        return 0;
    __u16 type = eth->h_proto;
    __u32 at = ETH_HLEN;
    for (int i = 0; i < VLAN_TAGS; i++) {
        if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
            break;
        if (data + at + VLAN_TAG_OCTETS > end)
            return 0;
        type = *(const __u16 *)(data + at + 2);
        at += VLAN_TAG_OCTETS;
    }
    if (type == bpf_htons(ETH_P_IP))
        return read_ipv4(data, end, at, datagram) ? ETH_P_IP : 0;
    if (type == bpf_htons(ETH_P_IPV6))
        return read_ipv6(data, end, at, datagram) ? ETH_P_IPV6 : 0;
    return 0;
}
