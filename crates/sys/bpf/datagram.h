/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Which packets carry a datagram that may be answered in its own frame: in one piece, without options or
 * extension headers, whole, from a source that is one. All others are the stack's, also those that it would
 * drop. */
#pragma once

#include "checksum.h"

/* The checksum of UDP is not looked at. */
static __always_inline int is_datagram_ipv4(const struct iphdr *ip, const void *end)
{
    if (!is_udp_ipv4(ip, end))
        return 0;
    const struct udphdr *udp = (const void *)(ip + 1);
    /* Nobody's address, loopback, multicast and broadcast get no answer (RFC 1122 3.2.1.3); nor do we talk to
     * us. */
    __u32 network = bpf_ntohl(ip->saddr) >> 24;
    if (!network || network == 127 || network >= 224 || ip->saddr == ip->daddr || ipv4_checksum(ip))
        return 0;
    return udp->source && bpf_ntohs(ip->tot_len) == sizeof(*ip) + bpf_ntohs(udp->len);
}

static __always_inline int is_datagram_ipv6(const struct ipv6hdr *ip, const void *end)
{
    if (!is_udp_ipv6(ip, end))
        return 0;
    const struct udphdr *udp = (const void *)(ip + 1);
    const __u32 *from = ip->saddr.in6_u.u6_addr32;
    /* Neither `::` nor `::1` nor multicast asks (RFC 4291 2.5.2, 2.5.3, 2.7); nor do we. */
    if (!(from[0] | from[1] | from[2]) || ip->saddr.in6_u.u6_addr8[0] == 0xff ||
        is_same(from, ip->daddr.in6_u.u6_addr32))
        return 0;
    /* Over IPv6 there must be a checksum (RFC 8200 8.1). */
    return udp->source && udp->check && ip->payload_len == udp->len;
}
