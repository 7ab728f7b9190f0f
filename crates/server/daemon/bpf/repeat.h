/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Repeats an answer that the server has just given to the same query, from memory that the server writes. The
 * server decides what may be repeated, to whom and until when, which is until a TTL in it would be less by
 * one second. */
#pragma once

#include "dns.h"

/* Of a query all but its ID is compared. */
#define ID_OCTETS 2
#define KEY_WORDS 14
#define KEY_OCTETS (8 * KEY_WORDS)
/* Flags and counts; then the name begins. */
#define HEAD_OCTETS (DNS_HEADER_OCTETS - ID_OCTETS)
#define TYPE_AND_CLASS_OCTETS 4
/* A name of one octet, type and class. */
#define KEY_OCTETS_MIN (HEAD_OCTETS + 1 + TYPE_AND_CLASS_OCTETS)
#define TEXT_OCTETS 328

/* An answer and the query that it is for, under a sequence lock: the serial number is odd while the server
 * writes, and another one afterwards (`sequence.rs`). */
struct answer {
    /* Monotonic time. */
    __u64 until_ns;
    __u64 serial;
    __u64 epoch;
    /* Of the query without its ID. */
    __u16 key_octets;
    /* Of what follows the question. */
    __u16 text_octets;
    __u16 class;
    __u16 unused;
    /* The checksum's difference between query and answer, without the question and headers before DNS's. */
    __u64 sum;
    /* The query's type, class and OPT as they are, with zeros before. */
    __u64 tail[2];
    /* Flags and counts. */
    __u8 head[16];
    /* The query without its ID, in lower case, with zeros behind. */
    __u64 key[KEY_WORDS];
    __u8 text[TEXT_OCTETS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct answer);
} answers SEC(".maps");

struct query {
    __u64 key[KEY_WORDS];
    __u64 tail[2];
    __u32 key_octets;
    __u32 question_octets;
    /* The sum over it, in the spelling that came. */
    __u64 sum;
};

static __always_inline __u64 lower_case(__u64 octets)
{
    const __u64 ones = 0x0101010101010101, high = 0x80 * ones;
    __u64 low_bits = octets & ~high;
    __u64 from_a = low_bits + (0x80 - 'A') * ones, beyond_z = low_bits + (0x7f - 'Z') * ones;
    return octets | (from_a & ~beyond_z & ~octets & high) >> 2;
}

static __always_inline int may_ask(const struct repeating *repeating, const struct end *from)
{
    for (int i = 0; i < RANGES; i++) {
        if (i >= repeating->range_count)
            break;
        const struct range *range = &repeating->ranges[i];
        const __u32 *address = from->address, *first = range->first, *mask = range->mask;
        if (range->family == (from->port & IPV6) &&
            !((((address[0] & mask[0]) ^ first[0]) | ((address[1] & mask[1]) ^ first[1])) |
              (((address[2] & mask[2]) ^ first[2]) | ((address[3] & mask[3]) ^ first[3]))))
            return 1;
    }
    return 0;
}

/* Reads a query that has at most an OPT record behind its question. Letter case is of no account in the name;
 * type, class and OPT, which are compared as they are, stand at the end. */
static __always_inline int read_query(struct xdp_md *ctx, __u32 dns_at, __u32 octets, struct query *query)
{
    octets -= ID_OCTETS;
    /* The barrier keeps the compiler from making one comparison of two, from which older verifiers (Linux
     * 6.1) do not learn the bounds of the number itself. */
    if (octets < KEY_OCTETS_MIN)
        return 0;
    barrier_var(octets);
    if (octets > KEY_OCTETS)
        return 0;
    if (bpf_xdp_load_bytes(ctx, dns_at + ID_OCTETS, query->key, octets) ||
        bpf_xdp_load_bytes(ctx, dns_at + ID_OCTETS + octets - sizeof(query->tail), query->tail,
            sizeof(query->tail)))
        return 0;
    query->sum = (__u32)bpf_csum_diff(0, 0, (__be32 *)query->key, KEY_OCTETS, 0);
    __u32 behind = 0;
    if (bpf_be64_to_cpu(query->key[1]) >> 48) {
        if (octets < KEY_OCTETS_MIN + OPT_OCTETS)
            return 0;
        behind = OPT_OCTETS;
        query->tail[0] &= bpf_cpu_to_be64(0x00ffffffffffffff);
    } else {
        query->tail[0] = 0;
        query->tail[1] &= bpf_cpu_to_be64(0xffffffff);
    }
    query->key_octets = octets;
    query->question_octets = octets - HEAD_OCTETS - behind;
    const __u64 name_in_second_word = bpf_cpu_to_be64(0x0000ffffffffffff);
    query->key[1] = (query->key[1] & ~name_in_second_word) | lower_case(query->key[1] & name_in_second_word);
    for (int i = 2; i < KEY_WORDS; i++)
        query->key[i] = lower_case(query->key[i]);
    return 1;
}

/* As `hash` of `transport/xdp/bypass/repeats.rs`. */
static __always_inline __u32 hash_of(const struct query *query)
{
    __u64 hash = query->key_octets;
    for (int i = 0; i < KEY_WORDS; i++)
        hash = (hash ^ query->key[i]) * 0x9e3779b97f4a7c15;
    for (int i = 0; i < 2; i++)
        hash = (hash ^ hash >> 32 ^ query->tail[i]) * 0x9e3779b97f4a7c15;
    return hash >> 32;
}

static __always_inline int is_for(const struct answer *answer, const struct query *query)
{
    __u64 other = answer->key_octets ^ query->key_octets;
    other |= (answer->tail[0] ^ query->tail[0]) | (answer->tail[1] ^ query->tail[1]);
    for (int i = 0; i < KEY_WORDS; i++)
        other |= answer->key[i] ^ query->key[i];
    return !other;
}

/* The serial number, with a barrier: what is read before stays before, and what is read after stays after.
 * The processor (arm64) and the compiler may let plain loads change places, and BPF has no load with acquire
 * semantics before Linux 6.15. An atomic operation that returns the old value is a full barrier on every
 * architecture, as in the rest of the kernel (Documentation/atomic_t.txt, ORDERING). This one changes
 * nothing. */
static __always_inline __u64 serial_of(struct answer *answer)
{
    return __sync_fetch_and_or(&answer->serial, 0);
}

/* An answer to the query, and its serial number, which was taken before anything else was read. */
static __always_inline struct answer *find(const struct query *query, __u32 worker, __u64 epoch,
    __u64 *serial)
{
    __u32 slot = hash_of(query) & (place.answers - 1);
    __u64 now_ns = bpf_ktime_get_ns();
    for (int way = 0; way < 2; way++) {
        __u32 number = worker * place.answers + (slot ^ way);
        struct answer *answer = bpf_map_lookup_elem(&answers, &number);
        if (!answer)
            continue;
        *serial = serial_of(answer);
        if (!(*serial & 1) && answer->until_ns > now_ns && answer->epoch == epoch && is_for(answer, query))
            return answer;
    }
    return 0;
}

/* The program's verdict, or less than 0 where the server shall see the frame, which is as it was then. */
static __always_inline int repeat(struct xdp_md *ctx, struct table *table, const struct datagram *datagram,
    const int is_ipv6)
{
    const __u32 udp_at = ETH_HLEN + (is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
    const __u32 dns_at = udp_at + sizeof(struct udphdr);
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct udphdr *udp = data + udp_at;
    if ((void *)(udp + 1) > end || !may_ask(&table->repeating, &datagram->from))
        return -1;
    struct query query = {};
    if (!read_query(ctx, dns_at, udp_octets(udp) - sizeof(*udp), &query))
        return -1;
    __u32 worker = ctx->rx_queue_index % place.workers;
    __u64 serial = 0;
    struct answer *answer = find(&query, worker, table->repeating.epoch, &serial);
    if (!answer)
        return -1;
    __u32 question_end = DNS_HEADER_OCTETS + query.question_octets;
    /* None becomes too many. Without the barrier the compiler would compare another number than it uses. */
    __u32 text_octets = answer->text_octets - 1, class = answer->class;
    barrier_var(text_octets);
    if (text_octets >= TEXT_OCTETS)
        return -1;
    text_octets += 1;
    __u32 octets = sizeof(*udp) + question_end + text_octets;
    int more = (int)(udp_at + octets) - (int)(end - data);
    if (grow(ctx, more, dns_at + question_end))
        return -1;
    if (bpf_xdp_store_bytes(ctx, dns_at + question_end, answer->text, text_octets))
        return XDP_DROP;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    udp = data + udp_at;
    __u8 *dns = (void *)(udp + 1);
    if ((void *)(dns + DNS_HEADER_OCTETS) > end)
        return XDP_DROP;
    __builtin_memcpy(dns + ID_OCTETS, answer->head, HEAD_OCTETS);
    __u64 sum = query.sum + answer->sum + *(__u16 *)dns + udp->source + udp->dest;
    sum += 2 * (__u64)bpf_htons(octets) + bpf_htons(IPPROTO_UDP);
    for (int i = 0; i < 4; i++)
        sum += (__u64)datagram->from.address[i] + datagram->to.address[i];
    turn(data, udp, octets, sum, is_ipv6);
    /* Another serial number: the server has begun to write since, and the frame may hold parts of two
     * answers. What the query was is overwritten by now, so nobody gets the frame; the client asks again. */
    if (serial_of(answer) != serial)
        return XDP_DROP;
    __sync_fetch_and_add(&table->repeating.given[worker % WORKERS][class % CLASSES], 1);
    return send_back(ctx, place.redirects);
}
