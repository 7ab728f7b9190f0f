/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The generator: run on frames that the kernel makes (BPF_PROG_TEST_RUN with live frames), it drops each
 * until a query is due, and writes that query into the frame at hand. */
#pragma once

#include "measurer.h"

#define NS_IN_MS 1000000

static __always_inline void write_query(__u8 *frame, __u64 n)
{
    /* Frames come back with what their receivers did to them, so all of it is written. */
    for (int i = 0; i < FRAME_WORDS; i++) {
        if (i < trial.frame_words)
            *(__u64 *)(frame + 8 * i) = trial.frame[i];
    }
    *(__u64 *)(frame + trial.frame_octets - 8) = trial.frame_tail;
    __u32 address = address_of(n), *label = (__u32 *)(frame + LABEL_AT);
    __u32 a = digits[address >> 24], b = digits[address >> 16 & 255], c = digits[address >> 8 & 255];
    __u32 d = digits[address & 255] ^ trial.last_digits;
    label[0] = a;
    label[1] = b;
    label[2] = c;
    label[3] = d;
    __u16 id = id_of(n), port = port_of(n);
    *(__u16 *)(frame + DNS_AT) = id;
    struct udphdr *udp = (struct udphdr *)(frame + UDP_AT);
    udp->source = port;
    /* The label stands at an odd offset: its sum counts with its octets swapped, which is the same as a
     * shift. */
    __u64 label_sum = (__u64)a + b + c + d;
    udp->check = fold_udp(trial.base_sum + id + port + (label_sum << 8));
}

/* Adds what was sent in a window that is over, and finds the one that `now` is in. */
static __noinline int close_window(struct account *account, __u64 now)
{
    if (!account)
        return 0;
    __u32 index = account->window;
    __u64 *sent = bpf_map_lookup_elem(&windows, &index);
    if (sent)
        __sync_fetch_and_add(sent, account->in_window);
    account->in_window = 0;
    __u64 window = (now - account->start_ns) / NS_IN_MS;
    account->window_end_ns = account->start_ns + (window + 1) * NS_IN_MS;
    account->window = window < trial.windows ? window : trial.windows - 1;
    return 0;
}

static __always_inline void advance(struct account *account)
{
    account->next += trial.lanes;
    if (trial.burst > 1) {
        account->due_ns = due_of(account, account->next);
        return;
    }
    __u64 rest = account->due_rest + trial.step_rest, due = account->due_ns + trial.step_ns;
    if (rest >= trial.rate_qps) {
        rest -= trial.rate_qps;
        due++;
    }
    account->due_rest = rest;
    account->due_ns = due;
}

/* Reading the clock is a tenth of the work. Of queries that were all due at a reading, so many share it. */
#define CLOCK_USES 4

/* The time, or an instant shortly before at which the next query was due already. */
static __always_inline __u64 clock_for(struct account *account)
{
    if (account->clock_ns < account->due_ns || !account->clock_uses) {
        account->clock_ns = bpf_ktime_get_ns();
        account->clock_uses = CLOCK_USES;
    }
    account->clock_uses--;
    return account->clock_ns;
}

SEC("xdp")
int generator(struct xdp_md *ctx)
{
    __u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct account *account = own_account();
    if (!account || frame + trial.frame_octets > end)
        return XDP_DROP;
    __u64 n = account->next;
    if (n >= trial.queries || !account->enabled)
        return XDP_DROP;
    __u64 now = clock_for(account);
    if (now < account->due_ns)
        return XDP_DROP;
    if (now >= account->window_end_ns)
        close_window(account, now);
    account->in_window++;
    account->lateness_ns[bucket_of(now - account->due_ns) & (BUCKETS - 1)]++;
    __u32 place = account->first_sent_at + (account->sent & trial.sent_mask);
    __u64 *sent_ns = bpf_map_lookup_elem(&sent_at, &place);
    if (sent_ns)
        *sent_ns = now;
    write_query(frame, n);
    advance(account);
    account->sent++;
    return bpf_redirect(trial.device, 0);
}
