/* SPDX-License-Identifier: MIT OR Apache-2.0
 * What the generator and the sink know of a trial, and where they count. The structs are repeated in
 * src/kernel/parameters.rs and src/kernel/accounts.rs, field by field. */
#pragma once

#include "checksum.h"
#include "dns.h"

/* The longest query frame, and the longest part of a question after the label that says the number (suffix,
 * type and class), in words of 8 octets, without their tails: a last word up to the very end, which may
 * overlap the one before. */
#define FRAME_WORDS 21
#define QUESTION_WORDS 8

struct question_word {
    __u64 want;
    /* Bits that count: not those of letters' case. */
    __u64 keep;
};

/* Where and how an IPv4 address stands in the answers expected (RFC 6052 2.2): the prefix in two halves in
 * host order. */
struct prefix {
    __u64 high;
    __u64 low;
};

struct parameters {
    __u64 frame[FRAME_WORDS];
    __u64 frame_tail;
    /* From `suffix_at` on. */
    struct question_word question[QUESTION_WORDS];
    struct question_word question_tail;
    /* How often queries are due: the time between two as whole ns and 2^-32 ns. */
    __u64 period_ns;
    __u64 period_fraction;
    /* The same between two of one lane: whole ns and parts of `rate_qps`, so that no error adds up. */
    __u64 step_ns;
    __u64 step_rest;
    __u64 rate_qps;
    /* So many queries are due at once, when the first of them is; 1 for an even load. */
    __u64 burst;
    __u64 lanes;
    /* Query n is the (n * lane_factor >> lane_shift)th of its lane: n / lanes without a division. */
    __u64 lane_factor;
    __u64 lane_shift;
    /* Words that hold a bit for each query of a lane; whole cache lines, so that lanes share none. */
    __u64 lane_words;
    __u64 queries;
    __u64 timeout_ns;
    /* Number n asks for the name of address `network` | ((first_name + n * agents) & name_mask). */
    __u64 first_name;
    __u64 agents;
    __u64 name_mask;
    __u64 network;
    /* The sum of the datagram and its pseudo-header without ID, label, and source port. */
    __u64 base_sum;
    /* A query n leaves from the port first_port + (n & port_mask) with an ID made of n >> port_bits. */
    __u64 first_port;
    __u64 port_mask;
    __u64 port_bits;
    struct prefix prefix;
    /* Names with a AAAA record of their own, in percent, and their prefix. */
    struct prefix native;
    __u64 native_percent;
    /* The upper bits of the IPv4 address move right by `high_shift` into the upper half of the IPv6 address;
     * its `low_mask` bits move left by `low_shift` into the lower half. */
    __u64 high_shift;
    __u64 low_shift;
    __u64 low_mask;
    /* The entries of a lane's ring of sending times, a power of two, less one. */
    __u64 sent_mask;
    /* How long ago the oldest of them was due, in ns. */
    __u64 sent_span_ns;
    /* How many words come before the tails. */
    __u32 frame_words;
    __u32 frame_octets;
    __u32 question_words;
    __u32 suffix_at;
    /* Where the question ends, from the start of the frame. */
    __u32 question_end;
    __u32 is_ipv6;
    /* What is right: a AAAA or an A record with the address of the name, or any response to the question. */
    __u32 expected;
    __u32 device;
    /* Turns the '-' after the label's last digits into what really stands there. */
    __u32 last_digits;
    __u32 server_address[4];
    /* In network order. */
    __u32 server_port;
    __u32 windows;
    __u32 padding;
};

enum { EXPECT_AAAA, EXPECT_A, EXPECT_RESPONSE };

const volatile struct parameters trial = {0};
/* The three digits of each octet and a '-', as they stand in the label. */
const volatile __u32 digits[256] = {0};

/* Buckets of histograms: exact up to 127 ns, then 128 for each power of two (at most 0.8 % wide), up to 2^37
 * ns. */
#define BUCKET_BITS 7
#define BUCKETS 4096
#define LARGEST_NS ((1ULL << 37) - 1)

/* What a processor has counted; it alone writes here. */
struct account {
    /* When query 0 is due; far ahead until the trial starts. */
    __u64 start_ns;
    __u64 enabled;
    /* The lane whose thread is pinned to this processor. */
    __u64 next;
    __u64 due_ns;
    __u64 due_rest;
    __u64 window;
    __u64 window_end_ns;
    __u64 in_window;
    /* A reading of the clock, and how many more queries it may serve. */
    __u64 clock_ns;
    __u64 clock_uses;
    /* Where the lane's ring of sending times begins. */
    __u64 first_sent_at;
    /* Of the generator; also the number of the next query among those of the lane. */
    __u64 sent;
    /* Of the sink. */
    __u64 answered;
    __u64 late;
    __u64 duplicates;
    __u64 unexpected;
    __u64 overflow;
    __u64 unreadable;
    __u64 doubtful;
    __u64 compat;
    /* Frames left to the stack. */
    __u64 passed;
    __u64 padding[11];
    /* Of all first answers, and of those that failed by it. */
    __u64 rcodes[16];
    __u64 failed_rcodes[16];
    __u64 lateness_ns[BUCKETS];
    __u64 latency_ns[BUCKETS];
    __u64 latency_from_send_ns[BUCKETS];
};

#define SHARED_ARRAY(name, type_of_value)                                                                    \
    struct {                                                                                                 \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                                    \
        __uint(map_flags, BPF_F_MMAPABLE);                                                                   \
        __uint(max_entries, 1);                                                                              \
        __type(key, __u32);                                                                                  \
        __type(value, type_of_value);                                                                        \
    } name SEC(".maps")

/* One for each processor. */
SHARED_ARRAY(accounts, struct account);
/* A bit for each query, those of a lane side by side: it has been answered; its answer was no valid one. */
SHARED_ARRAY(answered, __u64);
SHARED_ARRAY(failed, __u64);
/* Queries sent in each ms of the schedule; the last entry holds all that came after. */
SHARED_ARRAY(windows, __u64);
/* When the latest queries of each lane were sent, in ns. */
SHARED_ARRAY(sent_at, __u64);

/* Whose query number n is, and which of the lane's queries. */
struct lane_query {
    __u64 lane;
    __u64 index;
};

static __always_inline struct lane_query lane_query_of(__u64 n)
{
    __u64 index = n * trial.lane_factor >> trial.lane_shift;
    return (struct lane_query){.lane = n - index * trial.lanes, .index = index};
}

static __always_inline struct account *own_account(void)
{
    __u32 processor = bpf_get_smp_processor_id();
    return bpf_map_lookup_elem(&accounts, &processor);
}

/* 1 if `value` is above `limit`, without a branch, for values below 2^63. */
static __always_inline __u64 above(__u64 value, __u64 limit)
{
    return (limit - value) >> 63;
}

static __always_inline __u32 bucket_of(__u64 ns)
{
    if (ns > LARGEST_NS)
        ns = LARGEST_NS;
    if (ns >> BUCKET_BITS == 0)
        return ns;
    /* The place of the highest bit, by halves. */
    __u64 rest = ns, log = above(rest, 0xffffffff) << 5;
    rest >>= log;
    for (int half = 4; half >= 0; half--) {
        __u64 step = above(rest, (1ULL << (1 << half)) - 1) << half;
        rest >>= step;
        log += step;
    }
    __u64 shift = (log - BUCKET_BITS) & 63;
    return ((shift + 1) << BUCKET_BITS) + ((ns >> shift) & ((1 << BUCKET_BITS) - 1));
}

/* When query n is due, to the nanosecond. */
static __always_inline __u64 due_of(const struct account *account, __u64 n)
{
    if (trial.burst > 1)
        n -= n % trial.burst;
    return account->start_ns + n * trial.period_ns + (n * trial.period_fraction >> 32);
}

/* The address that the name of query n stands for. */
static __always_inline __u32 address_of(__u64 n)
{
    return trial.network | ((trial.first_name + n * trial.agents) & trial.name_mask);
}

static __always_inline __u16 id_of(__u64 n)
{
    /* As in engine::lane: an odd factor keeps all 65,536 apart. */
    return bpf_htons((n >> trial.port_bits) * 0x9e35 + 0x5bd1);
}

static __always_inline __u16 port_of(__u64 n)
{
    return bpf_htons(trial.first_port + (n & trial.port_mask));
}

#define UDP_AT (ETH_HLEN + (trial.is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)))
#define DNS_AT (UDP_AT + sizeof(struct udphdr))
/* After the DNS header and the length of the label. */
#define LABEL_AT (DNS_AT + DNS_HEADER_OCTETS + 1)
