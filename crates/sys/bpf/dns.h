/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Numbers of DNS messages that programs look into. */
#pragma once

#include "packet.h"

#define DNS_HEADER_OCTETS 12
/* The label nnn-nnn-nnn-nnn. */
#define LABEL_OCTETS 15
/* An OPT record without options (RFC 6891 6.1.2). */
#define OPT_OCTETS 11

/* Flags of a DNS header, in host order. */
#define DNS_QR 0x8000
#define DNS_OPCODE 0x7800
#define DNS_AA 0x0400
#define DNS_TC 0x0200
#define DNS_RD 0x0100
#define DNS_RCODE 0x000f

#define A_TYPE 1
#define AAAA_TYPE 28
#define CLASS_IN 1

/* Whether the name of an address is among so many of 100: `dns64::names::has_aaaa`. */
static __always_inline int is_among(__u64 address, __u64 percent)
{
    __u64 hash = (__u32)(address * 0x9e3779b1);
    return hash * 100 >> 32 < percent;
}
