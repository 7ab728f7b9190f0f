/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Making the answer to a datagram in its own frame. */
#pragma once

#include "turn.h"

/* Octets that a frame grows by before its start, in whole words: not less than what is moved there (VLAN
 * tags, IPv6, UDP, header and question), so that the two do not overlap. */
#define ROOM_BEFORE 192

/* Moves the first `kept` octets of the frame to the start of the room that was made before it. */
static __always_inline int move_forward(struct xdp_md *ctx, __u32 kept)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (kept < 8 || kept > ROOM_BEFORE)
        return -1;
    /* The mask changes nothing; it keeps the compiler from adding first, which the verifier does not
     * follow. */
    __u8 *last = data + ((kept - 8) & 0xff);
    if (last + ROOM_BEFORE + 8 > end)
        return -1;
    for (int i = 0; i < ROOM_BEFORE / 8; i++) {
        __u8 *word = data + 8 * i;
        if (word + ROOM_BEFORE + 8 > end)
            break;
        *(__u64 *)word = *(__u64 *)(word + ROOM_BEFORE);
    }
    *(__u64 *)last = *(__u64 *)(last + ROOM_BEFORE);
    return 0;
}

/* Grows the frame by `more` octets, of which the first `kept` stay. Frames that sockets sent over a veth have
 * hardly any room behind them, but some before. Where there is none, the frame stays as it is. */
static __always_inline int grow(struct xdp_md *ctx, int more, __u32 kept)
{
    if (!bpf_xdp_adjust_tail(ctx, more))
        return 0;
    if (more > ROOM_BEFORE || bpf_xdp_adjust_head(ctx, -ROOM_BEFORE))
        return -1;
    if (!move_forward(ctx, kept) && !bpf_xdp_adjust_tail(ctx, more - ROOM_BEFORE))
        return 0;
    bpf_xdp_adjust_head(ctx, ROOM_BEFORE);
    return -1;
}

/* Sends the frame back by the device that it came from. A veth whose peer has no XDP program takes only what
 * is redirected. */
static __always_inline int send_back(struct xdp_md *ctx, int redirects)
{
    return redirects ? bpf_redirect(ctx->ingress_ifindex, 0) : XDP_TX;
}

/* The device whose peer is tried. */
const volatile __u32 device = 0;

/* Sends a frame by the device, to see whether it leaves. Here, because loading another object takes long. */
SEC("xdp")
int probe(struct xdp_md *ctx)
{
    return bpf_redirect(device, 0);
}
