/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Sends every DNS query back to whom it came from, as an empty response, and notes when it came if it is
 * asked to. */
#include "dns.h"
#include "turn.h"

/* The port that is reflected, in network order. */
const volatile __u16 port = 0;
/* The number of milliseconds in the series; without any, the clock is not read. */
const volatile __u32 series_ms = 0;

enum { REFLECTED, RESPONSES, UNFIT, AFTER_SERIES, COUNTERS };
PER_CPU_COUNTERS(counters, COUNTERS);

/* When the first query came, in ns. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} first_ns SEC(".maps");

/* Queries that came in each millisecond since. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} series SEC(".maps");

#define NS_IN_MS 1000000
/* The first octet of the flags, with QR. */
#define DNS_FLAGS 2
#define QR 0x80
/* Longer datagrams are no queries that anyone sends. */
#define MAX_UDP_OCTETS 1480

static __always_inline void note_arrival(void)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0;
    __u64 *first = bpf_map_lookup_elem(&first_ns, &zero);
    if (!first)
        return;
    if (!*first)
        __sync_val_compare_and_swap(first, 0, now);
    /* Another processor may have been first by an instant. */
    __u64 since = now > *first ? now - *first : 0;
    __u64 ms = since / NS_IN_MS;
    if (ms >= series_ms) {
        COUNT(counters, AFTER_SERIES);
        return;
    }
    __u32 index = ms;
    __u64 *queries = bpf_map_lookup_elem(&series, &index);
    if (queries)
        __sync_fetch_and_add(queries, 1);
}

/* The sum of a datagram of so many octets; the frame is longer where the device has padded it. */
static __always_inline __u64 sum_of(const __u8 *at, const void *end, __u64 octets)
{
    __u64 sum = 0;
    for (int words = 0; words < MAX_UDP_OCTETS / 8; words++) {
        if (octets < 8 || (const void *)(at + 8) > end)
            break;
        sum += halves(*(const __u64 *)at);
        at += 8;
        octets -= 8;
    }
    if ((octets & 4) && (const void *)(at + 4) <= end) {
        sum += *(const __u32 *)at;
        at += 4;
    }
    if ((octets & 2) && (const void *)(at + 2) <= end) {
        sum += *(const __u16 *)at;
        at += 2;
    }
    if ((octets & 1) && (const void *)(at + 1) <= end)
        sum += bpf_htons(*at << 8);
    return sum;
}

static __always_inline int reflect(void *data, void *end, struct udphdr *udp, int is_ipv6)
{
    __u8 *dns = (void *)(udp + 1);
    if (dns + DNS_HEADER_OCTETS > (__u8 *)end || udp->dest != port)
        return XDP_PASS;
    if (dns[DNS_FLAGS] & QR) {
        /* Two reflectors would keep each other busy for ever. */
        COUNT(counters, RESPONSES);
        return XDP_PASS;
    }
    __u64 octets = udp_octets(udp);
    if (octets < sizeof(*udp) + DNS_HEADER_OCTETS || octets > MAX_UDP_OCTETS || (void *)udp + octets > end) {
        COUNT(counters, UNFIT);
        return XDP_PASS;
    }
    if (series_ms)
        note_arrival();
    swap_macs(data);
    __u64 sum = is_ipv6 ? swap_ipv6(data + sizeof(struct ethhdr)) : swap_ipv4(data + sizeof(struct ethhdr));
    sum += bpf_htons(IPPROTO_UDP);
    swap_ports(udp);
    dns[DNS_FLAGS] |= QR;
    udp->check = 0;
    udp->check = fold_udp(sum + udp->len + sum_of((void *)udp, end, octets));
    COUNT(counters, REFLECTED);
    return XDP_TX;
}

SEC("xdp")
int reflector(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    /* The two lengths of headers in two branches, so that all offsets are constants to the verifier. */
    switch (udp_offset(data, end)) {
    case ETH_HLEN + sizeof(struct iphdr):
        return reflect(data, end, data + ETH_HLEN + sizeof(struct iphdr), 0);
    case ETH_HLEN + sizeof(struct ipv6hdr):
        return reflect(data, end, data + ETH_HLEN + sizeof(struct ipv6hdr), 1);
    default:
        return XDP_PASS;
    }
}

char _license[] SEC("license") = "Dual MIT/GPL";
