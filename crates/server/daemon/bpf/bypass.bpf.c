/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Hands datagrams for a server's own UDP sockets to the AF_XDP socket of the queue they arrive on: queries to
 * its listeners, and answers of the servers it asks. Whatever else arrives passes, and so does what leaves a
 * doubt: the sockets are there. Queries that the server has just answered it answers itself (`repeat.h`). */
#include "datagram.h"
#include "reply.h"

#define LISTENERS 64
#define SERVERS 1024
#define PORTS 65536
#define RANGES 64
#define WORKERS 256
#define CLASSES 8

/* A port as the table has it: in network order, with what else must fit. */
#define USED (1ULL << 16)
#define IPV6 (1ULL << 17)
/* What the table says of a port of ours: USED, the worker that has it, the server that is asked from it. */
#define WORKER(entry) (__u16)((entry) >> 32)
#define SERVER(entry) (__u16)((entry) >> 48)

/* Of IPv4 addresses the first word counts; the others are zero. */
struct end {
    __u32 address[4];
    __u64 port;
};

/* The first address and the mask; of IPv4 the first words count. */
struct range {
    __u32 first[4];
    __u32 mask[4];
    __u64 family;
};

/* What is needed to answer here. */
struct repeating {
    /* Answers of another epoch are not given any more; 0 gives none. */
    __u64 epoch;
    /* Who may ask. */
    __u64 range_count;
    struct range ranges[RANGES];
    /* The answers given, by the worker that they are from, and by their classes. */
    __u64 given[WORKERS][CLASSES];
};

/* The process writes it while the program reads: entries without USED are not there. */
struct table {
    __u64 listener_count;
    struct end listeners[LISTENERS];
    struct asked {
        __u32 own[4];
        struct end server;
    } servers[SERVERS];
    __u64 ports[2][PORTS];
    struct repeating repeating;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct table);
} table SEC(".maps");

AF_XDP_SOCKETS(sockets);

enum { TAKEN, WRONG_QUEUE, COUNTERS };
PER_CPU_COUNTERS(counters, COUNTERS);

const volatile struct place {
    __u16 mac[3];
    __u16 padding;
    /* Queue k is worker k % workers'. */
    __u32 workers;
    /* Longer frames do not fit into the memory of the AF_XDP sockets. */
    __u32 frame_octets_max;
    /* Each worker has so many answers, a power of two. */
    __u32 answers;
    /* How answers leave: see `send_back`. */
    __u32 redirects;
} place = {};

struct datagram {
    struct end from, to;
};

#include "repeat.h"

static __always_inline int read_ports(const struct udphdr *udp, __u64 family, struct datagram *datagram)
{
    datagram->from.port = USED | family | udp->source;
    datagram->to.port = USED | family | udp->dest;
    return udp->dest != 0;
}

static __always_inline int read_ipv4(const struct iphdr *ip, const void *end, struct datagram *datagram)
{
    if (!is_datagram_ipv4(ip, end))
        return 0;
    datagram->from.address[0] = ip->saddr;
    datagram->to.address[0] = ip->daddr;
    return read_ports((const void *)(ip + 1), 0, datagram);
}

static __always_inline int read_ipv6(const struct ipv6hdr *ip, const void *end, struct datagram *datagram)
{
    if (!is_datagram_ipv6(ip, end))
        return 0;
    for (int i = 0; i < 4; i++) {
        datagram->from.address[i] = ip->saddr.in6_u.u6_addr32[i];
        datagram->to.address[i] = ip->daddr.in6_u.u6_addr32[i];
    }
    return read_ports((const void *)(ip + 1), IPV6, datagram);
}

/* Whether the frame is for us and carries a datagram in one piece, without VLAN tags, options or extension
 * headers. */
static __always_inline int read(const void *data, const void *end, struct datagram *datagram)
{
    const struct ethhdr *eth = data;
    if ((const void *)(eth + 1) > end || end - data > place.frame_octets_max)
        return 0;
    const __u16 *to = (const __u16 *)eth->h_dest;
    if ((to[0] ^ place.mac[0]) | (to[1] ^ place.mac[1]) | (to[2] ^ place.mac[2]))
        return 0;
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return read_ipv4((const void *)(eth + 1), end, datagram);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return read_ipv6((const void *)(eth + 1), end, datagram);
    return 0;
}

static __always_inline int is_query(const struct table *table, const struct end *to)
{
    for (int i = 0; i < LISTENERS; i++) {
        if (i >= table->listener_count)
            break;
        const struct end *listener = &table->listeners[i];
        if (listener->port == to->port && is_same(listener->address, to->address))
            return 1;
    }
    return 0;
}

/* Whether a server answers a socket of the worker that the queue belongs to; other workers have it from the
 * stack. */
static __always_inline int is_answer(const struct table *table, const struct datagram *datagram, __u64 entry,
    __u32 queue)
{
    __u32 number = SERVER(entry);
    if (number >= SERVERS || WORKER(entry) != queue % place.workers)
        return 0;
    const struct asked *asked = &table->servers[number];
    return asked->server.port == datagram->from.port &&
           is_same(asked->server.address, datagram->from.address) &&
           is_same(asked->own, datagram->to.address);
}

SEC("xdp")
int bypass(struct xdp_md *ctx)
{
    struct datagram datagram = {};
    if (!read((void *)(long)ctx->data, (void *)(long)ctx->data_end, &datagram))
        return XDP_PASS;
    __u32 zero = 0, queue = ctx->rx_queue_index;
    struct table *known = bpf_map_lookup_elem(&table, &zero);
    if (!known)
        return XDP_PASS;
    __u64 entry = known->ports[datagram.to.port & IPV6 ? 1 : 0][bpf_ntohs((__u16)datagram.to.port)];
    int taken = entry & USED ? is_answer(known, &datagram, entry, queue) : is_query(known, &datagram.to);
    if (!taken)
        return XDP_PASS;
    if (!(entry & USED) && known->repeating.epoch) {
        /* The two lengths of headers in two branches, so that all offsets are constants to the verifier. */
        int repeated = datagram.to.port & IPV6 ? repeat(ctx, known, &datagram, 1)
                                               : repeat(ctx, known, &datagram, 0);
        if (repeated >= 0)
            return repeated;
    }
    long action = bpf_redirect_map(&sockets, queue, XDP_PASS);
    COUNT(counters, action == XDP_REDIRECT ? TAKEN : WRONG_QUEUE);
    return action;
}

char _license[] SEC("license") = "Dual MIT/GPL";
