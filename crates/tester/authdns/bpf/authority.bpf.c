/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The AuthDNS in the kernel: answers A and AAAA of the names nnn-nnn-nnn-nnn.SUFFIX, with at most an OPT
 * record that is plain or brings a client cookie (RFC 7873; BIND and dns64d send one with every query, and
 * this AuthDNS knows no cookies), and passes everything else to the sockets on the same port. All that it
 * says comes from user space as parameters, so that its answers are those of the sockets, octet by octet. */
#include "dns.h"
#include "reply.h"
#include "service.h"

/* The longest suffix has 64 octets in wire format; type and class follow it. */
#define QUESTION_WORDS 8
/* A record without OPT has 8 to 64 octets. */
#define RECORD_WORDS 7

/* Code, length and client cookie (RFC 7873 4). */
#define COOKIE_OCTETS 12
#define COOKIE_HEAD bpf_htonl(10 << 16 | 8)
/* Length and label, two words. */
#define LABEL_AT DNS_HEADER_OCTETS
#define SUFFIX_AT (LABEL_AT + 1 + LABEL_OCTETS)
/* In an address record whose owner is a pointer. */
#define RDATA_AT 12

/* In the third octet of OPT's TTL (RFC 6891 6.1.3). */
#define DNSSEC_OK 0x80

/* Eight octets that must be `want` where the bits of `any` are clear; there, `want` is set. */
struct masked {
    __u64 any;
    __u64 want;
};

/* What follows the question. Where there are two values, the second is for answers with OPT. */
struct record {
    /* The counts of the header. */
    __u64 counts[2];
    /* The checksum's sum over all that does not change. */
    __u64 sum[2];
    /* What DO adds to it. */
    __u64 dnssec_ok_sum;
    __u64 words[RECORD_WORDS];
    /* The last eight octets. */
    __u64 last;
    __u32 octets;
    __u32 whole_words;
};

const volatile struct zone {
    struct record a;
    struct record aaaa;
    struct record no_data;
    /* Suffix, type and class; then the last eight octets of them. */
    struct masked question[QUESTION_WORDS];
    struct masked question_last;
    /* The counts of a query, without and with OPT. */
    __u64 counts[2];
    /* The first eight octets of OPT in answers. */
    __u64 opt;
    /* How an IPv4 address is cut into the halves of an IPv6 address (RFC 6052 2.2). */
    __u64 high_shift;
    __u64 low_shift;
    __u64 low_mask;
    __u64 aaaa_percent;
    /* The names that exist. */
    __u64 names_mask;
    __u64 names_first;
    /* Queries whose draw is below are for the sockets, which let faults befall their answers. */
    __u64 fault_threshold;
    __u64 fault_seed;
    /* The octets of suffix, type and class, and their words. */
    __u32 question_octets;
    __u32 question_words;
    /* 8 where the record stands at an odd offset: its part of the sum is turned by one octet. */
    __u32 turn;
    /* Queries with DO are for the sockets. */
    __u32 passes_dnssec_ok;
} zone = {};

enum { A, AAAA, NO_DATA, PASSED, NO_ROOM, COUNTERS };
PER_CPU_COUNTERS(counters, COUNTERS);

/* A query that was understood. */
struct query {
    /* Where the UDP header stands. */
    __u32 udp_at;
    __u32 octets;
    /* The address that the name stands for, in host order. */
    __u32 address;
    __u16 type;
    __u8 has_opt;
    __u8 dnssec_ok;
    /* The sum over ID, RD, question, ports and addresses. */
    __u64 sum;
};

/* Two numbers, "?ddd?ddd" as the first octet is the highest, of which the digits are already taken off '0';
 * in `wrong` anything that is none, or larger than an octet. */
static __always_inline __u64 two_octets(__u64 digits, __u64 *wrong)
{
    *wrong |= (digits | (digits + 0x0076767600767676)) & 0xff808080ff808080;
    const __u64 octet = 0x000000ff000000ff;
    __u64 numbers = (digits >> 16 & octet) * 100 + (digits >> 8 & octet) * 10 + (digits & octet);
    *wrong |= numbers & 0xffffff00ffffff00;
    return numbers >> 24 | (numbers & 0xff);
}

/* Compares suffix and class and returns the sum over suffix, type and class; in `wrong` what differs. */
static __always_inline __u64 check_suffix(const __u8 *suffix, __u64 *wrong)
{
    __u64 sum = 0;
    for (int i = 0; i < QUESTION_WORDS; i++) {
        if (i < zone.question_words) {
            __u64 word = *(const __u64 *)(suffix + 8 * i);
            *wrong |= (word | zone.question[i].any) ^ zone.question[i].want;
            sum += halves(word);
        }
    }
    __u64 last = *(const __u64 *)(suffix + zone.question_octets - 8);
    *wrong |= (last | zone.question_last.any) ^ zone.question_last.want;
    const __u8 *rest = suffix + 8 * zone.question_words;
    if (zone.question_octets & 4) {
        sum += *(const __u32 *)rest;
        rest += 4;
    }
    if (zone.question_octets & 2) {
        sum += *(const __u16 *)rest;
        rest += 2;
    }
    if (zone.question_octets & 1)
        sum += bpf_htons(*rest << 8);
    return sum;
}

/* Reads an OPT record of version 0 with so many octets of options (RFC 6891 6.1.2). */
static __always_inline void check_opt(const __u8 *opt, __u8 options, struct query *query, __u64 *wrong)
{
    *wrong |= opt[0] | opt[1] | (opt[2] ^ 41) | opt[6] | opt[9] | (opt[10] ^ options);
    query->dnssec_ok = opt[7] & DNSSEC_OK;
    if (zone.passes_dnssec_ok)
        *wrong |= query->dnssec_ok;
}

/* The finalizer of splitmix64. */
static __always_inline __u64 mix(__u64 value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

/* The number that says whether a fault meets the query: `authority::faults::draw`. Length and label, in
 * network order. */
static __always_inline __u64 draw(__u64 first, __u64 second, __be16 id, __be16 type)
{
    const __u64 step = 0x9e3779b97f4a7c15, lower_case = 0x2020202020202020;
    __u64 drawn = mix((zone.fault_seed ^ (__builtin_bswap64(first) | lower_case)) + step);
    drawn = mix((drawn ^ (__builtin_bswap64(second) | lower_case)) + step);
    return mix((drawn ^ ((__u64)bpf_ntohs(id) << 16 | bpf_ntohs(type))) + step) >> 32;
}

/* Whether the datagram is a query of the form that is answered here. */
static __always_inline int understand(const struct udphdr *udp, const void *end, struct query *query)
{
    const __u8 *dns = (const void *)(udp + 1);
    const __u8 *question_end = dns + SUFFIX_AT + zone.question_octets;
    if ((const void *)question_end > end)
        return 0;
    __u64 wrong = 0;
    __u32 octets = sizeof(*udp) + SUFFIX_AT + zone.question_octets;
    if (query->octets == octets) {
        query->has_opt = 0;
        query->dnssec_ok = 0;
        wrong |= *(const __u64 *)(dns + 4) ^ zone.counts[0];
    } else if (query->octets == octets + OPT_OCTETS && (const void *)question_end + OPT_OCTETS <= end) {
        query->has_opt = 1;
        wrong |= *(const __u64 *)(dns + 4) ^ zone.counts[1];
        check_opt(question_end, 0, query, &wrong);
    } else if (query->octets == octets + OPT_OCTETS + COOKIE_OCTETS &&
               (const void *)question_end + OPT_OCTETS + COOKIE_OCTETS <= end) {
        query->has_opt = 1;
        wrong |= *(const __u64 *)(dns + 4) ^ zone.counts[1];
        wrong |= *(const __u32 *)(question_end + OPT_OCTETS) ^ COOKIE_HEAD;
        check_opt(question_end, COOKIE_OCTETS, query, &wrong);
    } else {
        return 0;
    }
    __u16 id = *(const __u16 *)dns, flags = *(const __u16 *)(dns + 2);
    wrong |= flags & bpf_htons(DNS_QR | DNS_OPCODE);
    __u64 first = *(const __u64 *)(dns + LABEL_AT), second = *(const __u64 *)(dns + LABEL_AT + 8);
    query->sum += halves(first) + halves(second) + check_suffix(dns + SUFFIX_AT, &wrong);
    query->sum += (__u64)id + (flags & bpf_htons(DNS_RD)) + udp->source + udp->dest;
    first = bpf_be64_to_cpu(first);
    second = bpf_be64_to_cpu(second);
    __u64 high = two_octets(first ^ 0x0f3030302d303030, &wrong);
    __u64 low = two_octets(second ^ 0x2d3030302d303030, &wrong);
    __u64 address = high << 16 | low;
    wrong |= (address & zone.names_mask) ^ zone.names_first;
    query->address = address;
    query->type = *(const __u16 *)(question_end - 4);
    if (wrong)
        return 0;
    return !zone.fault_threshold || draw(first, second, id, query->type) >= zone.fault_threshold;
}

/* Writes the record after the question; returns what the address adds to the sum. */
static __always_inline __u64 write_record(__u8 *at, const volatile struct record *record, __u32 address,
    const int kind)
{
    for (int i = 0; i < RECORD_WORDS; i++) {
        if (i < record->whole_words)
            *(__u64 *)(at + 8 * i) = record->words[i];
    }
    *(__u64 *)(at + record->octets - 8) = record->last;
    if (kind == A) {
        __u32 octets = bpf_htonl(address);
        *(__u32 *)(at + RDATA_AT) = octets;
        return (__u64)octets << zone.turn;
    }
    if (kind == AAAA) {
        __u64 high = bpf_cpu_to_be64((__u64)address >> zone.high_shift);
        __u64 low = bpf_cpu_to_be64(((__u64)address & zone.low_mask) << zone.low_shift);
        *(__u64 *)(at + RDATA_AT) |= high;
        *(__u64 *)(at + RDATA_AT + 8) |= low;
        return (halves(high) + halves(low)) << zone.turn;
    }
    return 0;
}

/* Makes the answer of the query's frame and sends it. */
static __always_inline int answer(struct xdp_md *ctx, const struct query *query,
    const volatile struct record *record,
                                  const int kind, const int is_ipv6, const int has_opt)
{
    __u32 question_end = sizeof(struct udphdr) + SUFFIX_AT + zone.question_octets;
    __u32 octets = question_end + record->octets + (has_opt ? OPT_OCTETS : 0);
    __u32 udp_at = query->udp_at;
    long length = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
    if (grow(ctx, (int)(udp_at + octets) - (int)length, udp_at + question_end)) {
        COUNT(counters, NO_ROOM);
        return XDP_PASS;
    }
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct udphdr *udp = data + udp_at;
    if ((void *)udp + octets > end)
        return XDP_DROP;
    __u8 *dns = (void *)(udp + 1), *tail = (void *)udp + question_end;
    *(__u16 *)(dns + 2) = bpf_htons(DNS_QR | DNS_AA) | (*(__u16 *)(dns + 2) & bpf_htons(DNS_RD));
    *(__u64 *)(dns + 4) = record->counts[has_opt];
    __u64 sum = query->sum + record->sum[has_opt] + write_record(tail, record, query->address, kind);
    if (has_opt) {
        __u8 *opt = tail + record->octets;
        *(__u64 *)opt = zone.opt;
        opt[7] = query->dnssec_ok;
        *(__u16 *)(opt + 8) = 0;
        opt[10] = 0;
        if (query->dnssec_ok)
            sum += record->dnssec_ok_sum;
    }
    turn(data, udp, octets, sum, is_ipv6);
    COUNT(counters, kind);
    return send_back(ctx, place.redirects);
}

static __always_inline int answer_kind(struct xdp_md *ctx, const struct query *query, const int is_ipv6,
                                       const int has_opt)
{
    if (query->type == bpf_htons(A_TYPE))
        return answer(ctx, query, &zone.a, A, is_ipv6, has_opt);
    if (query->type != bpf_htons(AAAA_TYPE)) {
        COUNT(counters, PASSED);
        return XDP_PASS;
    }
    if (is_among(query->address, zone.aaaa_percent))
        return answer(ctx, query, &zone.aaaa, AAAA, is_ipv6, has_opt);
    return answer(ctx, query, &zone.no_data, NO_DATA, is_ipv6, has_opt);
}

static __always_inline int serve(struct xdp_md *ctx, const void *data, const void *end,
    const struct datagram *datagram,
                                 const int is_ipv6)
{
    struct query query = {.udp_at = datagram->udp_at, .octets = datagram->octets, .sum = datagram->sum};
    if (!understand(data + query.udp_at, end, &query)) {
        COUNT(counters, PASSED);
        return XDP_PASS;
    }
    return query.has_opt ? answer_kind(ctx, &query, is_ipv6, 1) : answer_kind(ctx, &query, is_ipv6, 0);
}

SEC("xdp")
int authority(struct xdp_md *ctx)
{
    const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct datagram datagram = {};
    /* The two lengths of headers in two branches, so that all offsets are constants to the verifier. */
    switch (datagram_of(data, end, &datagram)) {
    case ETH_P_IP:
        return serve(ctx, data, end, &datagram, 0);
    case ETH_P_IPV6:
        return serve(ctx, data, end, &datagram, 1);
    default:
        return XDP_PASS;
    }
}

char _license[] SEC("license") = "Dual MIT/GPL";
