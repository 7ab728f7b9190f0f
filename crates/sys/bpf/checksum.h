/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The Internet checksum (RFC 1071), always computed in full: frames from local sockets carry partial ones.
 * Sums are of 32-bit words as they stand in memory, which is right in either byte order (RFC 1071 2 B). */
#pragma once

#include "packet.h"

static __always_inline __u16 fold(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

/* An UDP checksum of zero would mean that there is none (RFC 768). */
static __always_inline __u16 fold_udp(__u64 sum)
{
    __u16 folded = fold(sum);
    return folded ? folded : 0xffff;
}

static __always_inline __u16 ipv4_checksum(const struct iphdr *ip)
{
    const __u32 *word = (const void *)ip;
    return fold((__u64)word[0] + word[1] + word[2] + word[3] + word[4]);
}

/* The two halves of eight octets, as the sum takes them. */
static __always_inline __u64 halves(__u64 word)
{
    return (word & 0xffffffff) + (word >> 32);
}
