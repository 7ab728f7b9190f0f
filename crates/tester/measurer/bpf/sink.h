/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The sink: takes every answer of the server, finds the query by the name, and counts what became of it. What
 * is ours but not plainly right or wrong goes to user space, which judges it exactly; what is not ours
 * passes. */
#pragma once

#include "measurer.h"

struct dns_header {
    __be16 id;
    __be16 flags;
    __be16 questions;
    __be16 answers;
    __be16 authorities;
    __be16 additionals;
};

/* An answer record whose owner is the name asked, with a AAAA record's data. */
struct aaaa {
    __be16 owner;
    __be16 type;
    __be16 class;
    __be16 ttl[2];
    __be16 length;
    __be64 high;
    __be64 low;
} __attribute__((packed));

/* The same with an A record's. */
struct a {
    __be16 owner;
    __be16 type;
    __be16 class;
    __be16 ttl[2];
    __be16 length;
    __be32 address;
} __attribute__((packed));

/* A message up to the end of its question. */
#define QUESTION_OCTETS (trial.question_end - DNS_AT)
/* A pointer to the question. */
#define OWNER 0xc00c

/* A message that user space judges. */
struct doubt {
    __u32 n;
    __u32 octets;
    __u64 latency_ns;
    __u64 latency_from_send_ns;
    __u8 message[];
};

/* The sizes of records in the ring: most doubtful answers are short. */
#define DOUBT_SMALL 192
#define DOUBT_LARGE 1536

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 24);
    /* Not for the loader, which passes over it: so the struct is in the object's BTF, where the tests of
     * doubts.rs find it. */
    __type(record, struct doubt);
} doubts SEC(".maps");

enum origin { FOREIGN, OURS, UNREADABLE };

/* Whether a frame is the server's: a datagram, or something that may hide one (fragments, options,
 * extensions). */
static __always_inline enum origin origin_of(const void *data, const void *end)
{
    const struct ethhdr *eth = data;
    if (trial.is_ipv6) {
        const struct ipv6hdr *ip = (const void *)(eth + 1);
        if ((const void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IPV6))
            return FOREIGN;
        if (!is_same(ip->saddr.in6_u.u6_addr32, trial.server_address))
            return FOREIGN;
        if (ip->nexthdr == IPPROTO_UDP)
            return OURS;
        return ip->nexthdr == IPPROTO_ICMPV6 || ip->nexthdr == IPPROTO_TCP ? FOREIGN : UNREADABLE;
    }
    const struct iphdr *ip = (const void *)(eth + 1);
    if ((const void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
        return FOREIGN;
    if (ip->saddr != trial.server_address[0] || ip->protocol != IPPROTO_UDP)
        return FOREIGN;
    return *(const __u8 *)ip == IPV4_PLAIN && !(ip->frag_off & FRAGMENT) ? OURS : UNREADABLE;
}

static __always_inline __u64 differs_in(const volatile struct question_word *word, const __u8 *at)
{
    return (*(const __u64 *)at & word->keep) ^ word->want;
}

/* The number of the query whose question and ID an answer repeats; `queries` or more if there is none. */
static __always_inline __u64 number_of(const __u8 *frame, const struct udphdr *udp,
    const struct dns_header *dns)
{
    __u64 differs = (dns->questions ^ bpf_htons(1)) | ((dns->flags & bpf_htons(DNS_QR
        | DNS_OPCODE)) ^ bpf_htons(DNS_QR));
    differs |= frame[LABEL_AT - 1] ^ LABEL_OCTETS;
    for (int i = 0; i < QUESTION_WORDS; i++) {
        if (i < trial.question_words)
            differs |= differs_in(&trial.question[i], frame + trial.suffix_at + 8 * i);
    }
    differs |= differs_in(&trial.question_tail, frame + trial.question_end - 8);
    /* The label's digits, for now without a check; only right ones give back the label they were read
     * from. */
    const __u8 *label = frame + LABEL_AT;
    __u32 address = 0;
    for (int i = 0; i < 16; i += 4)
        address = address << 8 | ((label[i] * 100 + label[i + 1] * 10 + label[i + 2] - 111 * '0') & 255);
    const __u32 *words = (const void *)label;
    differs |= digits[address >> 24] ^ words[0];
    differs |= digits[address >> 16 & 255] ^ words[1];
    differs |= digits[address >> 8 & 255] ^ words[2];
    differs |= digits[address & 255] ^ trial.last_digits ^ words[3];
    differs |= (address & ~trial.name_mask & 0xffffffff) ^ trial.network;
    __u64 n = (address - trial.first_name) & trial.name_mask;
    if (trial.agents > 1) {
        differs |= n % trial.agents;
        n /= trial.agents;
    }
    differs |= (dns->id ^ id_of(n)) | (udp->dest ^ port_of(n));
    return differs ? trial.queries : n;
}

static __always_inline int is_expected_a(const __u8 *frame, const void *end, __u32 octets, __u64 n)
{
    const struct a *record = (const void *)frame + trial.question_end;
    if ((const void *)(record + 1) > end || octets < QUESTION_OCTETS + sizeof(*record))
        return 0;
    __u64 differs = (record->owner ^ bpf_htons(OWNER)) | (record->type ^ bpf_htons(A_TYPE));
    differs |= (record->class ^ bpf_htons(CLASS_IN)) | (record->length ^ bpf_htons(4));
    return !(differs | (record->address ^ bpf_htonl(address_of(n))));
}

static __always_inline int is_expected_aaaa(const __u8 *frame, const void *end, __u32 octets, __u64 n)
{
    const struct aaaa *record = (const void *)frame + trial.question_end;
    if ((const void *)(record + 1) > end || octets < QUESTION_OCTETS + sizeof(*record))
        return 0;
    __u64 address = address_of(n), high = trial.prefix.high, low = trial.prefix.low;
    if (trial.native_percent && is_among(address, trial.native_percent)) {
        high = trial.native.high;
        low = trial.native.low;
    }
    high |= address >> trial.high_shift;
    low |= (address & trial.low_mask) << trial.low_shift;
    __u64 differs = (record->high ^ bpf_cpu_to_be64(high)) | (record->low ^ bpf_cpu_to_be64(low));
    differs |= (record->owner ^ bpf_htons(OWNER)) | (record->type ^ bpf_htons(AAAA_TYPE));
    differs |= (record->class ^ bpf_htons(CLASS_IN)) | (record->length ^ bpf_htons(16));
    return !differs;
}

/* Whether the first record of an answer of so many octets is the one expected for query n. */
static __always_inline int is_expected(const __u8 *frame, const void *end, const struct dns_header *dns,
    __u32 octets,
                                       __u64 n)
{
    if (trial.expected == EXPECT_RESPONSE)
        return 1;
    if (!dns->answers || (dns->flags & bpf_htons(DNS_TC)))
        return 0;
    return trial.expected == EXPECT_A ? is_expected_a(frame, end, octets, n) : is_expected_aaaa(frame, end,
        octets, n);
}

/* How long query n has been away since it was sent. */
static __always_inline __u64 since_sending(__u64 n, __u64 due, __u64 now)
{
    struct lane_query query = lane_query_of(n);
    __u32 place = query.lane * (trial.sent_mask + 1) + (query.index & trial.sent_mask);
    __u64 *sent_ns = bpf_map_lookup_elem(&sent_at, &place);
    __u64 lateness = sent_ns ? *sent_ns - due : 0, since = now - due;
    /* A later query has taken the place if that was longer ago than the ring remembers. */
    return lateness < trial.sent_span_ns && lateness <= since ? since - lateness : since;
}

/* Hands a message to user space in a record of constant size, as the verifier wants it; 0 if there is no
 * room. */
static __always_inline int hand_over_in(struct xdp_md *ctx, const __u32 size, __u64 octets, __u64 n,
    __u64 due,
                                        __u64 now)
{
    struct doubt *doubt = bpf_ringbuf_reserve(&doubts, size, 0);
    if (!doubt)
        return 0;
    doubt->n = n;
    doubt->octets = octets;
    doubt->latency_ns = now - due;
    doubt->latency_from_send_ns = since_sending(n, due, now);
    /* Compared once more, for older verifiers (Linux 6.1): of a number that was put on the stack before a
     * comparison they do not learn what it says. */
    barrier_var(octets);
    if (octets > size - sizeof(*doubt) || bpf_xdp_load_bytes(ctx, DNS_AT, doubt->message, octets)) {
        bpf_ringbuf_discard(doubt, 0);
        return 0;
    }
    bpf_ringbuf_submit(doubt, 0);
    return 1;
}

static __always_inline int hand_over(struct xdp_md *ctx, __u64 octets, __u64 n, __u64 due, __u64 now)
{
    if (octets <= DOUBT_SMALL - sizeof(struct doubt))
        return hand_over_in(ctx, DOUBT_SMALL, octets, n, due, now);
    if (octets <= DOUBT_LARGE - sizeof(struct doubt))
        return hand_over_in(ctx, DOUBT_LARGE, octets, n, due, now);
    return 0;
}

/* The word that has the bit of a query. */
static __always_inline __u64 *word_of(void *bits, struct lane_query query)
{
    __u32 word = query.lane * trial.lane_words + (query.index >> 6);
    return bpf_map_lookup_elem(bits, &word);
}

static __always_inline void mark(void *bits, __u64 n)
{
    struct lane_query query = lane_query_of(n);
    __u64 *place = word_of(bits, query);
    if (place)
        __sync_fetch_and_or(place, 1ULL << (query.index & 63));
}

/* Marks query n as answered; 0 if it was so already. */
static __always_inline int is_first(__u64 n)
{
    struct lane_query query = lane_query_of(n);
    __u64 bit = 1ULL << (query.index & 63), *place = word_of(&answered, query);
    return place && !(__sync_fetch_and_or(place, bit) & bit);
}

static __always_inline void note_valid(struct account *account, __u64 n, __u64 due, __u64 now)
{
    account->latency_ns[bucket_of(now - due) & (BUCKETS - 1)]++;
    account->latency_from_send_ns[bucket_of(since_sending(n, due, now)) & (BUCKETS - 1)]++;
}

/* Takes a message of so many octets; the frame may be longer, and what follows is no part of the answer. */
static __always_inline void take(struct xdp_md *ctx, struct account *account, const __u8 *frame,
    const void *end,
                                 const struct udphdr *udp, __u64 octets)
{
    const struct dns_header *dns = (const void *)(udp + 1);
    __u64 n = trial.queries, due = 0, now = 0;
    if (frame + trial.question_end <= (const __u8 *)end && octets >= QUESTION_OCTETS)
        n = number_of(frame, udp, dns);
    if (n < trial.queries) {
        now = bpf_ktime_get_ns();
        due = due_of(account, n);
    }
    if (n >= trial.queries || now < due) {
        account->unexpected++;
        return;
    }
    if (!is_first(n)) {
        account->duplicates++;
        return;
    }
    account->answered++;
    __u32 rcode = bpf_ntohs(dns->flags) & DNS_RCODE;
    account->rcodes[rcode]++;
    if (now - due > trial.timeout_ns) {
        account->late++;
        mark(&failed, n);
        return;
    }
    if (rcode && trial.expected != EXPECT_RESPONSE) {
        account->failed_rcodes[rcode]++;
        mark(&failed, n);
        return;
    }
    if (is_expected(frame, end, dns, octets, n)) {
        /* By dns64perf++'s rule, any answer record will do, but there must be one. */
        if (!rcode && dns->answers)
            account->compat++;
        note_valid(account, n, due, now);
    } else if (hand_over(ctx, octets, n, due, now))
        account->doubtful++;
    else {
        account->overflow++;
        mark(&failed, n);
    }
}

/* Takes a frame if it is an answer, whatever kind of answer; else 0. */
static __always_inline int take_frame(struct xdp_md *ctx, struct account *account)
{
    const __u8 *frame = (void *)(long)ctx->data;
    const void *end = (void *)(long)ctx->data_end;
    enum origin origin = origin_of(frame, end);
    if (origin != OURS) {
        account->unreadable += origin == UNREADABLE;
        return 0;
    }
    const struct udphdr *udp = (const void *)frame + UDP_AT;
    if ((const void *)(udp + 1) + sizeof(struct dns_header) > end || udp->source != trial.server_port ||
        ((bpf_ntohs(udp->dest) - trial.first_port) & ~trial.port_mask))
        return 0;
    __u64 octets = udp_octets(udp);
    if (octets < sizeof(*udp) + sizeof(struct dns_header) || (const void *)udp + octets > end)
        return 0;
    take(ctx, account, frame, end, udp, octets - sizeof(*udp));
    return 1;
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
    struct account *account = own_account();
    if (!account)
        return XDP_PASS;
    /* Time has passed for a generator on this processor. */
    account->clock_uses = 0;
    if (take_frame(ctx, account))
        return XDP_DROP;
    account->passed++;
    return XDP_PASS;
}
