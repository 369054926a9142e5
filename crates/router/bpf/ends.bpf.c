/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What stands at the ends of a wire where there is no mobile network: a load and its count, and a base
 * station with its core. src/kernel/ends.rs fills the maps. */
#include "router.h"

static u64 (*const now_ns)(void) = (void *)5;

enum {
	SIZES_MAX = 16,
	FRONT_MAX = 64,
	WAYS = 3, /* to the core or an app, to base stations, and copies */
	MARK = 0x72666573,
	/* What is later than this is not caught up with, as no burst is to be part of a steady load. */
	LATE_NS_MAX = 50000,
};

/* Headers in front of the client's packet. */
struct front {
	u32 is_tunnelled;
	u32 sum; /* of the outer IP header without its length */
	u8 bytes[FRONT_MAX];
};

struct load {
	u64 start_ns;
	u64 next; /* 1/1024 ns since the start, as the interval */
	u64 interval;
	u64 frames;
	u64 sent;
	u64 end_ns;
	u64 late_ns;
	u32 ways; /* bits */
	u32 clients;
	u32 sizes_many;
	u32 sizes[SIZES_MAX];
	u32 run; /* counts up, so that what is left of a load before is not taken for one of this */
	struct front fronts[2];
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct load);
} loads SECTION(".maps");

struct taken {
	u64 frames;
	u64 bytes;
	u64 foreign;
	u64 disordered;
	u64 last;
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, WAYS);
	TYPE(key, u32);
	TYPE(value, struct taken);
} takings SECTION(".maps");

/* A client's packet of a load: the number of the frame decides what is in it. */
INLINE int dress(struct xdp_md *context, struct load *load, u32 way, u64 number, u32 size)
{
	struct front *front = &load->fronts[way & 1];
	u32 is_tunnelled = front->is_tunnelled, link_bytes = is_tunnelled ? 58 : 14;
	int away = (int)(link_bytes + size) - (int)frame_bytes(context);
	if (away && adjust_tail(context, away))
		return 0;
	u32 bytes = frame_bytes(context);
	u32 client = number % load->clients;
	if (is_tunnelled) {
		u8 *start = at(context, 0, 58, bytes);
		if (!start)
			return 0;
		copy(start, front->bytes, 58);
		*(u16 *)(start + 16) = swap16((u16)(44 + size));
		*(u16 *)(start + 24) = swap16((u16)~folded(front->sum + 44 + size));
		*(u16 *)(start + 38) = swap16((u16)(24 + size));
		*(u16 *)(start + 44) = swap16((u16)(8 + size));
		*(u32 *)(start + 46) = swap32(1 + client);
	} else {
		u8 *start = at(context, 0, 14, bytes);
		if (!start)
			return 0;
		copy(start, front->bytes, 14);
	}
	u8 *ip = at(context, link_bytes, 36, bytes);
	if (!ip)
		return 0;
	u32 is_tcp = client & 1;
	u32 own = 0x0a2d0001 + client, server = 0xcb007100 + 1 + client % 250;
	u16 own_port = 10000 + client, server_port = 80 + client % 16;
	*(u32 *)ip = swap32(0x45000000 | size);
	*(u32 *)(ip + 4) = swap32(0x4000);
	*(u32 *)(ip + 8) = swap32(is_tcp ? 0x40060000 : 0x40110000);
	*(u32 *)(ip + 12) = swap32(way ? server : own);
	*(u32 *)(ip + 16) = swap32(way ? own : server);
	*(u16 *)(ip + 20) = swap16(way ? server_port : own_port);
	*(u16 *)(ip + 22) = swap16(way ? own_port : server_port);
	*(u32 *)(ip + 24) = is_tcp ? swap32((u32)number) : swap32((size - 20) << 16);
	*(u32 *)(ip + 28) = 0;
	*(u32 *)(ip + 32) = swap32(0x50100000);
	*(u16 *)(ip + 10) = swap16((u16)~folded(words_sum((u16 *)ip, 10)));
	u32 *mark = at(context, link_bytes + size - 8, 8, bytes);
	if (!mark)
		return 0;
	mark[0] = MARK + load->run;
	mark[1] = number;
	return 1;
}

/* Sends the next frame of the load when it is due, and otherwise nothing. */
SECTION("xdp") int send(struct xdp_md *context)
{
	u32 zero = 0;
	struct load *load = map_lookup(&loads, &zero);
	if (!load || load->sent >= load->frames)
		return XDP_DROP;
	u64 now = now_ns();
	if (!load->start_ns)
		load->start_ns = now;
	u64 since = (now - load->start_ns) << 10;
	if (since < load->next)
		return XDP_DROP;
	if (since - load->next > (u64)LATE_NS_MAX << 10) {
		load->late_ns += (since - load->next) >> 10;
		load->next = since;
	}
	load->next += load->interval;
	load->end_ns = now;
	u64 number = load->sent++;
	u32 both = load->ways == 3, way = both ? number & 1 : load->ways >> 1 & 1;
	u32 place = (both ? number >> 1 : number) % load->sizes_many;
	u32 size = load->sizes[place & (SIZES_MAX - 1)] & 0x7ff;
	if (!dress(context, load, way, number, size))
		return XDP_ABORTED;
	return redirect_map(&wire, way, XDP_DROP);
}

/* Counts what arrives of the load, and keeps it from the kernel. */
INLINE int take(struct xdp_md *context, u32 way)
{
	u32 bytes = frame_bytes(context), zero = 0;
	struct taken *taken = map_lookup(&takings, &way);
	struct load *load = map_lookup(&loads, &zero);
	if (!taken || !load)
		return XDP_DROP;
	u32 *mark = bytes > 8 ? at(context, bytes - 8, 8, bytes) : 0;
	if (!mark || mark[0] != MARK + load->run) {
		taken->foreign++;
		return XDP_DROP;
	}
	u64 number = mark[1];
	if (number < taken->last)
		taken->disordered++;
	taken->last = number;
	taken->frames++;
	taken->bytes += bytes;
	return XDP_DROP;
}

SECTION("xdp") int take_uplink(struct xdp_md *context)
{
	return take(context, UPLINK);
}

SECTION("xdp") int take_downlink(struct xdp_md *context)
{
	return take(context, DOWNLINK);
}

SECTION("xdp") int take_copies(struct xdp_md *context)
{
	return take(context, 2);
}

/* Hands everything over to the other side. */
SECTION("xdp") int bare_uplink(struct xdp_md *context)
{
	(void)context;
	return redirect_map(&wire, UPLINK, XDP_DROP);
}

SECTION("xdp") int bare_downlink(struct xdp_md *context)
{
	(void)context;
	return redirect_map(&wire, DOWNLINK, XDP_DROP);
}

/* One end of a client's tunnel. Its path is at place 0, its other end being the far one. */
struct station {
	struct line line;
	u8 macs[12]; /* of frames out of the tunnel */
	u32 is_base_station;
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct station);
} stations SECTION(".maps");

/* From the client's side, or the internet's, into the tunnel. */
SECTION("xdp") int into_tunnel(struct xdp_md *context)
{
	u32 zero = 0;
	struct ip packet;
	struct station *station = map_lookup(&stations, &zero);
	struct path *path = map_lookup(&paths, &zero);
	u32 bytes = frame_bytes(context);
	u8 *link = at(context, 0, 14, bytes);
	if (!station || !path || !link)
		return XDP_PASS;
	u16 kind = *(u16 *)(link + 12);
	u32 version = kind == swap16(0x0800) ? 4 : kind == swap16(0x86dd) ? 6 : 0;
	if (!version || parse_packet(context, 14, bytes, version, &packet))
		return XDP_PASS;
	/* Neighbours are asked for on the link alone. */
	if (version == 6 && (packet.addresses[1][0] >> 56 == 0xff || packet.addresses[1][0] >> 54 == 0x3fa))
		return XDP_PASS;
	struct line line = station->line;
	if (!wrap(context, &packet, &line, path))
		return XDP_DROP;
	if (station->is_base_station && line.form == FORM_CONTAINER && path->version == 4) {
		u8 *container = at(context, 54, 4, frame_bytes(context));
		if (!container)
			return XDP_DROP;
		container[1] = 0x10;
	}
	return redirect_map(&wire, UPLINK, XDP_DROP);
}

/* From the wire out of the tunnel. */
SECTION("xdp") int out_of_tunnel(struct xdp_md *context)
{
	u32 zero = 0;
	struct frame frame;
	struct station *station = map_lookup(&stations, &zero);
	if (!station || parse(context, &frame) >= 0)
		return XDP_PASS;
	if (!unwrap(context, frame.packet.at, frame.packet.version, station->macs, station->macs + 6))
		return XDP_DROP;
	return redirect_map(&wire, DOWNLINK, XDP_DROP);
}

const char program_license[] SECTION("license") = "Dual BSD/GPL";
