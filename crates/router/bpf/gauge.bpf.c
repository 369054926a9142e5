/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The programs as they are measured: a frame is run again and again, so that what the last run did to
 * it is put back first. Putting back alone is measured as well, to be subtracted. */
#include "router.h"

enum { KEPT_MAX = 192 };

struct kept {
	u32 bytes; /* of the frame */
	u32 head; /* of them kept here */
	u8 content[KEPT_MAX];
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct kept);
} kept SECTION(".maps");

/* Clients that take turns: the last bytes of addresses, so that look-ups miss the caches. */
struct turn {
	u32 clients; /* 0 leaves the packet */
	u32 at; /* where the address is in the frame */
	u32 teid_at; /* where the tunnel's identifier is, 0 for none */
	u32 first; /* the first address, as a number */
	u64 state;
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct turn);
} turns SECTION(".maps");

INLINE int put_back(struct xdp_md *context)
{
	u32 zero = 0;
	struct kept *first = map_lookup(&kept, &zero);
	if (!first)
		return 0;
	int away = (int)frame_bytes(context) - (int)first->bytes;
	if (away && adjust_head(context, away))
		return 0;
	u8 *content = at(context, 0, 64, frame_bytes(context));
	if (!content)
		return 0;
	copy(content, first->content, 64);
	if (first->head >= 80) {
		content = at(context, 64, 16, frame_bytes(context));
		if (!content)
			return 0;
		copy(content, first->content + 64, 16);
	}
	struct turn *turn = map_lookup(&turns, &zero);
	if (!turn || !turn->clients)
		return 1;
	turn->state = turn->state * 6364136223846793005ULL + 1442695040888963407ULL;
	u32 client = (u32)(((turn->state >> 33) * turn->clients) >> 31);
	u32 *address = at(context, turn->at & 127, 4, frame_bytes(context));
	if (!address)
		return 0;
	*address = swap32(turn->first + client);
	if (turn->teid_at) {
		u32 *teid = at(context, turn->teid_at & 127, 4, frame_bytes(context));
		if (!teid)
			return 0;
		*teid = swap32(1 + client);
	}
	return 1;
}

SECTION("xdp") int nothing(struct xdp_md *context)
{
	(void)context;
	return XDP_PASS;
}

SECTION("xdp") int bare(struct xdp_md *context)
{
	(void)context;
	return redirect_map(&wire, UPLINK, XDP_PASS);
}

/* Takes what arrived, so that no stack spends time on it. */
SECTION("xdp") int sink(struct xdp_md *context)
{
	(void)context;
	return XDP_DROP;
}

/* Sends frames: what the last receiver did to the memory of one is put back first. */
SECTION("xdp") int generate(struct xdp_md *context)
{
	return put_back(context) ? redirect_map(&wire, UPLINK, XDP_DROP) : XDP_ABORTED;
}

SECTION("xdp") int back(struct xdp_md *context)
{
	return put_back(context) ? XDP_PASS : XDP_ABORTED;
}

SECTION("xdp") int access(struct xdp_md *context)
{
	return put_back(context) ? from_wire(context, UPLINK) : XDP_ABORTED;
}

SECTION("xdp") int access_alone(struct xdp_md *context)
{
	return from_wire(context, UPLINK);
}

SECTION("xdp") int app(struct xdp_md *context)
{
	return put_back(context) ? from_app(context) : XDP_ABORTED;
}

/* The program behind the map of taps cannot be run by itself; this is the same, at this interface. */
SECTION("xdp") int tap_copy(struct xdp_md *context)
{
	return to_tap(context, context->ingress_ifindex);
}

const char program_license[] SECTION("license") = "Dual BSD/GPL";
