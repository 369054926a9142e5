/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The edge router's data path. src/model.rs says the same in words a person reads. */
#pragma once
#include "classify.h"

/* As `tunnelled`. */
const volatile u8 tells_verdicts = 0;
const volatile u16 wire_bytes_max = 1500;
const volatile u32 lines_mask = 255;
const volatile u64 hash_seed = 0;
/* Networks that have a name, and whether VLANs tell one: what is not used is not in the program. */
const volatile u16 networks = 0;
const volatile u8 vlans_tell = 0;

/* The other side of the wire, by the direction that leads there. */
struct {
	NUMBER(type, MAP_DEVMAP);
	NUMBER(max_entries, 2);
	NUMBER(key_size, 4);
	NUMBER(value_size, 8);
} wire SECTION(".maps");

struct {
	NUMBER(type, MAP_DEVMAP);
	NUMBER(max_entries, LEGS_MAX);
	NUMBER(key_size, 4);
	NUMBER(value_size, 8);
} legs SECTION(".maps");

/* For each tap and direction the other side of the wire and the tap. */
#define TAP_MAP(name)                          \
	struct {                               \
		NUMBER(type, MAP_DEVMAP);      \
		NUMBER(max_entries, 2);        \
		NUMBER(key_size, 4);           \
		NUMBER(value_size, 8);         \
	} name SECTION(".maps")
TAP_MAP(tap_0_0);
TAP_MAP(tap_0_1);
TAP_MAP(tap_1_0);
TAP_MAP(tap_1_1);
TAP_MAP(tap_2_0);
TAP_MAP(tap_2_1);
TAP_MAP(tap_3_0);
TAP_MAP(tap_3_1);
TAP_MAP(tap_4_0);
TAP_MAP(tap_4_1);
TAP_MAP(tap_5_0);
TAP_MAP(tap_5_1);
TAP_MAP(tap_6_0);
TAP_MAP(tap_6_1);
TAP_MAP(tap_7_0);
TAP_MAP(tap_7_1);

struct macs {
	u8 to[6];
	u8 from[6];
};

/* Addresses of frames to a tap without tunnels, by its interface. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, LEGS_MAX);
	TYPE(key, u32);
	TYPE(value, struct macs);
} tap_macs SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(map_flags, MAP_MMAPABLE);
	NUMBER(max_entries, 256);
	TYPE(key, u32);
	TYPE(value, struct line);
} sessions SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, PATHS_MAX);
	TYPE(key, u32);
	TYPE(value, struct path);
} paths SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 64);
	TYPE(key, u32);
	TYPE(value, struct usage);
} usages SECTION(".maps");

/* What is not in `usages` yet: a word each way, so that a packet takes one addition that other processors wait for.
 * Its low bits count packets, those above bytes. */
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 64);
	TYPE(key, u32);
	TYPE(value, struct recent);
} recent_usages SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, APPS_MAX);
	TYPE(key, u32);
	TYPE(value, struct app);
} apps SECTION(".maps");

/* Until when each app is taken for alive, on the monotonic clock. */
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, APPS_MAX);
	TYPE(key, u32);
	TYPE(value, u64);
} alive SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, LIMITERS_MAX);
	TYPE(key, u32);
	TYPE(value, struct limiter);
} limiters SECTION(".maps");

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 3 * REASONS);
	TYPE(key, u32);
	TYPE(value, struct counter);
} reasons SECTION(".maps");

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, RULES_MAX);
	TYPE(key, u32);
	TYPE(value, struct counter);
} rule_counters SECTION(".maps");

/* The network that a VLAN tells, by its number; 0 is none. */
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, VLANS);
	TYPE(key, u32);
	TYPE(value, u32);
} vlan_networks SECTION(".maps");

/* The network of the app at an interface. */
struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, LEGS_MAX);
	TYPE(key, u32);
	TYPE(value, u32);
} leg_networks SECTION(".maps");

struct fragment {
	u64 addresses[2][2];
	u32 identification;
	u16 protocol;
	u16 network;
};

struct ports {
	u16 of[2];
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, struct fragment);
	TYPE(value, struct ports);
} fragments SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct settling);
} settling SECTION(".maps");

struct connection {
	u64 addresses[2][2];
	u16 ports[2];
	u16 network;
	u16 zero;
};

/* What a connection began with. */
struct begun {
	u64 at_ns;
	struct target target;
	u32 found; /* whether a rule has this target */
	u32 zero;
};

/* Connections that had packets while rules settled. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, struct connection);
	TYPE(value, struct begun);
} connections SECTION(".maps");

/* When an app last got a packet that no rule of now leads to it, on the monotonic clock. */
struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, APPS_MAX);
	TYPE(key, u32);
	TYPE(value, u64);
} kept_apps SECTION(".maps");

/* What was told lately, so that a flood of one kind is told once. */
struct told {
	u64 key;
	u64 mixed;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, struct told);
	TYPE(value, u64);
} told_lately SECTION(".maps");

struct {
	NUMBER(type, MAP_RINGBUF);
	NUMBER(max_entries, 1 << 20);
} sightings SECTION(".maps");

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct verdict);
} verdicts SECTION(".maps");

enum { TELL_AGAIN_NS = 250000000 };

struct outcome {
	u32 reason;
	u32 out;
	u32 direction;
	u32 app;
	u32 leg;
	u32 rule;
	u32 sighted;
};

enum { TO_WIRE, TO_APP, TO_WIRE_AND_TAP, TO_NOWHERE, TO_THIS_HOST, BACK };

INLINE void count(u32 port, u32 reason, u32 bytes)
{
	u32 place = port * REASONS + reason;
	struct counter *counter = map_lookup(&reasons, &place);
	if (counter) {
		counter->packets++;
		counter->bytes += bytes;
	}
}

INLINE void tell_verdict(struct outcome *outcome)
{
	u32 zero = 0;
	if (!tells_verdicts)
		return;
	struct verdict *verdict = map_lookup(&verdicts, &zero);
	if (verdict)
		copy(verdict, outcome, sizeof(*verdict));
}

INLINE u64 mix(u64 key)
{
	u64 mixed = (key ^ hash_seed) * 0x9e3779b97f4a7c15ULL;
	mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ULL;
	return mixed ^ mixed >> 32;
}

/* The place of the next line of an address, or -1. */
APART int find_line(u64 key, u32 from)
{
	u32 start = mix(key);
	for (u32 step = from; step < PROBES_MAX; step++) {
		u32 place = (start + step) & lines_mask;
		u64 *found = map_lookup(&sessions, &place);
		if (!found || !*found)
			return -1;
		if (*found == key)
			return place;
	}
	return -1;
}

INLINE u64 client_key(u64 high, u64 low, u32 version)
{
	if (version == 4 || (!high && low >> 32 == 0xffff))
		return 1ULL << 32 | (u32)low;
	return high >> 33 ? high : 0;
}

/* The line of this place, whole: one that is being replaced is none. */
INLINE int read_line(u32 place, u64 key, struct line *line)
{
	if ((s32)place < 0)
		return 0;
	u64 *words = map_lookup(&sessions, &place);
	if (!words)
		return 0;
	u64 *to = (u64 *)line;
	to[0] = *(volatile u64 *)&words[0];
	to[1] = *(volatile u64 *)&words[1];
	to[2] = *(volatile u64 *)&words[2];
	to[3] = *(volatile u64 *)&words[3];
	u64 sum = to[0] * 0x9e3779b97f4a7c15ULL + to[1] * 0xc2b2ae3d27d4eb4fULL +
		  to[2] * 0x165667b19e3779f9ULL + (to[3] & 0xffffffff) * 0xd6e8feb86659fd93ULL;
	return to[0] == key && sum >> 32 == to[3] >> 32;
}

/* The line of an address that has one only: nearly all are where the search begins. */
INLINE int read_only_line(u64 key, struct line *line)
{
	return LIKELY(read_line((u32)mix(key) & lines_mask, key, line)) ||
	       read_line(find_line(key, 0), key, line);
}

enum { ANY_NETWORK = 0xffff };

/* The network a frame of the wire says it is in. Behind a core nothing else tells. */
INLINE u32 network_of(struct frame *frame)
{
	u32 vlan = frame->tags[0][0] ? swap16(frame->tags[0][1]) & (VLANS - 1) : 0;
	u32 *told = vlans_tell ? map_lookup(&vlan_networks, &vlan) : 0;
	if (told && *told)
		return *told;
	return tunnelled ? ANY_NETWORK : 0;
}

INLINE u64 mixed_words(u64 left, u64 right)
{
	return (left ^ right << 23 ^ right >> 41) * 0x9e3779b97f4a7c15ULL;
}

/* Tells what was seen, unless it was told a moment ago; whether there was news. */
INLINE void sight(struct xdp_md *context, struct frame *frame, u32 direction, u64 key)
{
	struct ip *packet = &frame->packet;
	struct told told = { .key = key, .mixed = direction };
	u32 ports = (u32)packet->ports[0] << 16 | packet->ports[1];
	told.mixed = mixed_words(told.mixed, ports);
	for (int which = 0; which < 2; which++) {
		told.mixed = mixed_words(told.mixed, packet->addresses[which][0]);
		told.mixed = mixed_words(told.mixed, packet->addresses[which][1]);
	}
	told.mixed = mixed_words(told.mixed, frame->tags[0][1] & swap16(VLANS - 1));
	if (tunnelled) {
		told.mixed = mixed_words(told.mixed, frame->tunnel.teid);
		for (int which = 0; which < 2; which++)
			told.mixed = mixed_words(told.mixed, frame->tunnel.addresses[which][1]);
	}
	u64 now = coarse_ns();
	u64 *last = map_lookup(&told_lately, &told);
	if (last && now - *last < TELL_AGAIN_NS)
		return;
	struct sighting *sighting = ringbuf_reserve(&sightings, sizeof(*sighting), 0);
	if (!sighting)
		return;
	sighting->key = key;
	copy(sighting->addresses, packet->addresses, sizeof(sighting->addresses));
	if (tunnelled) {
		copy(sighting->outer, frame->tunnel.addresses, sizeof(sighting->outer));
		sighting->teid = frame->tunnel.teid;
		sighting->form = frame->tunnel.form;
		sighting->qfi = frame->tunnel.qfi;
	} else {
		__builtin_memset(sighting->outer, 0, sizeof(sighting->outer));
		sighting->teid = 0;
		sighting->form = FORM_PLAIN;
		sighting->qfi = 0;
	}
	sighting->ports[0] = packet->ports[0];
	sighting->ports[1] = packet->ports[1];
	sighting->direction = direction;
	sighting->protocol = packet->protocol;
	copy(sighting->tags, frame->tags, sizeof(sighting->tags));
	void *link = at(context, 0, 12, frame_bytes(context));
	if (link)
		copy(sighting->macs, link, 12);
	else
		__builtin_memset(sighting->macs, 0, 12);
	ringbuf_submit(sighting, 0);
	map_update(&told_lately, &told, &now, 0);
}

INLINE int is_end(const u64 address[2], const u8 *end, u32 version)
{
	if (LIKELY(version == 4))
		return address[0] == 0 && (u32)address[1] == swap32(*(u32 *)(end + 12)) &&
		       address[1] >> 32 == 0xffff;
	return address[0] == swap64(*(u64 *)end) && address[1] == swap64(*(u64 *)(end + 8));
}

enum { IS_OWN = 1, IS_NEWS = 2 };

INLINE u32 agreement(struct tunnel *tunnel, struct line *line, struct path *path, u32 direction)
{
	u32 version = path->version;
	if (direction == UPLINK) {
		if (tunnel->teid != line->teids[0] || !is_end(tunnel->addresses[1], path->ends[1], version))
			return IS_NEWS;
		return is_end(tunnel->addresses[0], path->ends[0], version) ? IS_OWN : IS_OWN | IS_NEWS;
	}
	int is_own = tunnel->teid == line->teids[1] && is_end(tunnel->addresses[0], path->ends[1], version) &&
		     is_end(tunnel->addresses[1], path->ends[0], version);
	return is_own ? IS_OWN : IS_NEWS;
}

/* Of all sessions of an address the one in this network, whose tunnel is the frame's. What agrees, or
 * IS_NEWS where other sessions have the address; then one of them is in `line`. */
APART int find_own(struct frame *frame, struct line *line, u64 key, u32 network, u32 direction)
{
	u32 step = 0, agrees = 0;
	if (!frame || !line)
		return 0;
	for (int count = 0; count <= NETWORKS_MAX; count++) {
		u32 place = find_line(key, step);
		if ((s32)place < 0)
			break;
		step = ((place - (u32)mix(key)) & lines_mask) + 1;
		if (!read_line(place, key, line) || (network != ANY_NETWORK && network != line->network))
			continue;
		u32 number = line->path;
		struct path *path = map_lookup(&paths, &number);
		if (!path)
			continue;
		agrees = tunnelled && direction != FROM_APP ? agreement(&frame->tunnel, line, path, direction) : IS_OWN;
		if (agrees & IS_OWN)
			break;
	}
	return agrees;
}

/* Ports of a later fragment are those of the first. */
INLINE void find_ports(struct ip *packet, u32 network)
{
	if (LIKELY(packet->fragment == FRAGMENT_WHOLE))
		return;
	struct fragment key = {
		.identification = packet->identification, .protocol = packet->protocol, .network = network
	};
	copy(key.addresses, packet->addresses, sizeof(key.addresses));
	if (packet->fragment == FRAGMENT_FIRST) {
		struct ports ports = { { packet->ports[0], packet->ports[1] } };
		if (packet->has_ports)
			map_update(&fragments, &key, &ports, 0);
		return;
	}
	struct ports *ports = map_lookup(&fragments, &key);
	if (ports) {
		packet->ports[0] = ports->of[0];
		packet->ports[1] = ports->of[1];
		packet->has_ports = 1;
	}
}

/* Whether the packet's turn has come. */
INLINE int is_in_time(u32 number, u32 bytes)
{
	struct limiter *limiter = map_lookup(&limiters, &number);
	if (!limiter || !limiter->ns_per_kib)
		return 1;
	u64 now = coarse_ns(), cost = (bytes * limiter->ns_per_kib) >> 10;
	for (int try = 0; try < 4; try++) {
		u64 next = *(volatile u64 *)&limiter->next_ns;
		u64 from = next > now ? next : now;
		if (from - now > limiter->burst_ns)
			return 0;
		if (__sync_val_compare_and_swap(&limiter->next_ns, next, from + cost) == next)
			return 1;
	}
	return 1;
}

/* Whoever counts the last packet that a recent word is to hold moves them all; while it does, the bit above them is
 * set. The length of a frame has 14 bits at most, so that bytes have room for twice as many. */
APART int move_usage(u32 number, u32 direction, u64 full)
{
	struct recent *recent = map_lookup(&recent_usages, &number);
	struct usage *usage = map_lookup(&usages, &number);
	if (!recent || !usage)
		return 0;
	direction &= 1;
	__sync_fetch_and_add(&usage->packets[direction], full & (RECENT_UNIT - 1));
	__sync_fetch_and_add(&usage->bytes[direction], full / RECENT_UNIT);
	__sync_fetch_and_add(&recent->words[direction], -full);
	return 0;
}

INLINE void use(u32 number, u32 direction, u32 bytes)
{
	struct recent *recent = map_lookup(&recent_usages, &number);
	if (!recent)
		return;
	u64 more = bytes * RECENT_UNIT + 1;
	u64 now = __sync_fetch_and_add(&recent->words[direction], more) + more;
	if (UNLIKELY((now & (RECENT_UNIT - 1)) == RECENT_UNIT / 2))
		move_usage(number, direction, now);
}

INLINE u32 folded(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

enum { TCP_SYN = 0x02, TCP_ACK = 0x10 };

/* The flags of a packet of TCP, where it has the header. */
INLINE u32 tcp_flags(struct xdp_md *context, struct ip *packet)
{
	if (packet->protocol != 6 || packet->fragment == FRAGMENT_LATER)
		return 0;
	u8 *tcp = at(context, packet->payload_at, 14, packet->end);
	return tcp ? tcp[13] : 0;
}

/* Tells a client's TCP of smaller segments: limit_segments in the model. */
APART int limit_segments(struct xdp_md *context, u32 tcp_at, u32 end, u32 most)
{
	u8 *tcp = at(context, tcp_at, 20, end);
	if (!tcp)
		return 0;
	u32 header_end = tcp_at + (tcp[12] >> 4) * 4;
	if (header_end > end)
		return 0;
	u32 place = tcp_at + 20;
	for (int option = 0; option < 10; option++) {
		u8 *start = at(context, place, 4, header_end);
		if (!start || start[0] == 0)
			return 0;
		if (start[0] == 1) {
			place += 1;
			continue;
		}
		if (start[0] == 2 && start[1] == 4) {
			u32 asked = start[2] << 8 | start[3];
			if (asked <= most)
				return 0;
			u8 *header = at(context, tcp_at, 20, end);
			if (!header)
				return 0;
			start[2] = most >> 8;
			start[3] = most;
			u32 before = asked, after = most;
			if ((place - tcp_at) & 1) {
				before = swap16((u16)asked);
				after = swap16((u16)most);
			}
			u32 check = header[16] << 8 | header[17];
			u32 sum = (~check & 0xffff) + (~before & 0xffff) + after;
			check = ~folded(sum);
			header[16] = check >> 8;
			header[17] = check;
			return 0;
		}
		if (start[1] < 2)
			return 0;
		place += start[1];
	}
	return 0;
}

/* Takes the packet out of its tunnel and puts a link header in front; 0 when there is no room. */
INLINE int unwrap(struct xdp_md *context, u32 packet_at, u32 version, const u8 *to, const u8 *from)
{
	if (adjust_head(context, (int)packet_at - 14))
		return 0;
	u8 *link = at(context, 0, 14, frame_bytes(context));
	if (!link)
		return 0;
	copy(link, to, 6);
	copy(link + 6, from, 6);
	*(u16 *)(link + 12) = version == 4 ? swap16(0x0800) : swap16(0x86dd);
	return 1;
}

/* A copy on its way to a tap that gets no tunnels. */
INLINE int to_tap(struct xdp_md *context, u32 interface)
{
	struct frame frame;
	struct macs *macs = map_lookup(&tap_macs, &interface);
	if (!macs || parse(context, &frame) >= 0)
		return XDP_PASS;
	unwrap(context, frame.packet.at, frame.packet.version, macs->to, macs->from);
	return XDP_PASS;
}

INLINE long tap(u32 place, u32 direction)
{
#define TAP_CASE(number)                                                              \
	case number:                                                                  \
		return direction == UPLINK ?                                          \
			       redirect_map(&tap_##number##_0, 0, REDIRECT_BROADCAST) : \
			       redirect_map(&tap_##number##_1, 0, REDIRECT_BROADCAST)
	switch (place) {
		TAP_CASE(0);
		TAP_CASE(1);
		TAP_CASE(2);
		TAP_CASE(3);
		TAP_CASE(4);
		TAP_CASE(5);
		TAP_CASE(6);
		TAP_CASE(7);
	}
	return redirect_map(&wire, direction, XDP_PASS);
}

INLINE int is_alive(u32 app)
{
	u64 *until = map_lookup(&alive, &app);
	return until && *until > coarse_ns();
}

INLINE int is_settling(void)
{
	u32 zero = 0;
	struct settling *now = map_lookup(&settling, &zero);
	return now && UNLIKELY(now->until_ns) && now->until_ns > coarse_ns();
}

/* What a connection gets that begins with this: one whose app is dead begins at the core, and stays there. */
INLINE void begin(struct begun *begun, const struct target *target, u32 found)
{
	begun->target = *target;
	begun->found = found;
	if (found && target->act > ACT_DROP && !is_alive(target->app))
		begun->target.act = ACT_PASS;
}

/* Whether both lead a connection to the same end: only an app that answers is one. */
INLINE int is_same_end(const struct begun *one, const struct target *other, u32 found)
{
	u32 to_app = one->found && one->target.act == ACT_BREAKOUT;
	u32 other_to_app = found && other->act == ACT_BREAKOUT;
	return to_app == other_to_app && (!to_app || one->target.app == other->app);
}

/* Rules were replaced a moment ago: a connection of TCP that began before stays where it is. Settled::target
 * in the model. Whether a rule is found; its target is in the packet. */
APART int settle(struct ip *packet, u32 network, u32 flags, u32 found)
{
	u32 zero = 0;
	if (!packet)
		return 0;
	struct settling *times = map_lookup(&settling, &zero);
	if (!times)
		return found;
	u64 since = times->since_ns;
	struct target target = packet->target;
	struct connection key = {
		.ports = { packet->ports[0], packet->ports[1] }, .network = network
	};
	copy(key.addresses, packet->addresses, sizeof(key.addresses));
	struct begun begun = { .at_ns = coarse_ns() };
	if ((flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
		begin(&begun, &target, found);
		map_update(&connections, &key, &begun, 0);
		return found;
	}
	struct begun *known = map_lookup(&connections, &key);
	if (known && known->at_ns >= since) {
		known->at_ns = begun.at_ns;
		begun.target = known->target;
		begun.found = known->found;
	} else {
		packet->table = TABLE_BEFORE;
		u32 found_before = classify(packet);
		begin(&begun, &packet->target, found_before);
		packet->target = target;
		if (is_same_end(&begun, &target, found))
			return found;
		map_update(&connections, &key, &begun, 0);
	}
	if (is_same_end(&begun, &target, found))
		return found;
	if (begun.found && begun.target.act == ACT_BREAKOUT) {
		u32 app = begun.target.app;
		u64 *last = map_lookup(&kept_apps, &app);
		if (last)
			*last = begun.at_ns;
	}
	packet->target = begun.target;
	return begun.found;
}

/* What becomes of a frame of the wire; the map of the way it goes is chosen by the caller. */
INLINE long from_wire(struct xdp_md *context, const u32 direction)
{
	struct frame frame;
	struct line line = {};
	u32 bytes = frame_bytes(context);
	struct outcome outcome = { .out = TO_WIRE, .direction = direction, .rule = 0xffffffff };
	int why = parse(context, &frame);
	if (why >= 0) {
		outcome.reason = why;
		goto on;
	}
	struct ip *packet = &frame.packet;
	u64 *client = packet->addresses[direction == UPLINK ? 0 : 1];
	u64 key = client_key(client[0], client[1], packet->version);
	outcome.reason = NO_SESSION;
	if (!key)
		goto on;
	u32 agrees = 0;
	if (networks) {
		agrees = find_own(&frame, &line, key, network_of(&frame), direction);
	} else if (read_only_line(key, &line)) {
		u32 number = line.path;
		struct path *path = map_lookup(&paths, &number);
		if (path)
			agrees = tunnelled ? agreement(&frame.tunnel, &line, path, direction) : IS_OWN;
	}
	if (agrees)
		outcome.reason = OTHER_TUNNEL;
	else
		agrees = IS_NEWS;
	if (UNLIKELY(agrees & IS_NEWS)) {
		outcome.sighted = 1;
		sight(context, &frame, direction, key);
	}
	if (!(agrees & IS_OWN))
		goto on;
	packet->profile = line.profile;
	packet->direction = direction;
	packet->table = TABLE_NOW;
	find_ports(packet, line.network);
	outcome.reason = NO_RULE;
	u32 found = classify(packet);
	if (direction == UPLINK && packet->protocol == 6 && is_settling()) {
		found = settle(packet, line.network, tcp_flags(context, packet), found);
	}
	if (!found)
		goto on;
	struct target target = packet->target;
	u32 rule = target.rule, number = target.app;
	outcome.rule = rule;
	struct counter *counter = map_lookup(&rule_counters, &rule);
	if (counter) {
		counter->packets++;
		counter->bytes += bytes;
	}
	if (target.limiter && !is_in_time(target.limiter, bytes)) {
		outcome.reason = RATE_LIMITED;
		outcome.out = TO_NOWHERE;
		goto on;
	}
	outcome.reason = RULE_PASS;
	if (target.act == ACT_PASS)
		goto on;
	if (target.act == ACT_DROP) {
		outcome.reason = RULE_DROP;
		outcome.out = TO_NOWHERE;
		goto on;
	}
	outcome.reason = APP_DEAD;
	if (!is_alive(number))
		goto on;
	struct app *app = map_lookup(&apps, &number);
	if (!app)
		goto on;
	outcome.app = number;
	if (target.act == ACT_TAP) {
		outcome.reason = TAP;
		outcome.out = TO_WIRE_AND_TAP;
		tell_verdict(&outcome);
		count(direction, TAP, bytes);
		return tap(app->tap, direction);
	}
	if (target.act == ACT_IN_LINE) {
		outcome.reason = IN_LINE;
		outcome.out = TO_APP;
		outcome.leg = direction;
		tell_verdict(&outcome);
		count(direction, IN_LINE, bytes);
		return redirect_map(&legs, app->legs[direction], XDP_PASS);
	}
	u32 most = app->segment_bytes_max[packet->version == 6];
	int is_whole = packet->fragment == FRAGMENT_WHOLE;
	if (direction == UPLINK && most && is_whole && UNLIKELY(tcp_flags(context, packet) & TCP_SYN))
		limit_segments(context, packet->payload_at, packet->end, most);
	if (!unwrap(context, packet->at, packet->version, app->macs[0], app->own[0])) {
		outcome.reason = NO_ROOM;
		outcome.out = TO_NOWHERE;
		goto on;
	}
	use(line.usage, direction, packet->end - packet->at);
	outcome.reason = BREAKOUT;
	outcome.out = TO_APP;
	tell_verdict(&outcome);
	count(direction, BREAKOUT, bytes);
	/* Without its tunnel it is nothing for the wire, if the app's interface has just gone. */
	return redirect_map(&legs, app->legs[0], XDP_DROP);
on:
	tell_verdict(&outcome);
	count(direction, outcome.reason, bytes);
	if (outcome.out == TO_NOWHERE)
		return XDP_DROP;
	return redirect_map(&wire, direction, XDP_PASS);
}

INLINE u64 words_sum(const u16 *words, u32 many)
{
	u64 sum = 0;
	for (u32 word = 0; word < many; word++)
		sum += swap16(words[word]);
	return sum;
}

enum { NO_SUM = 0x10000 };

/* promised_sum of the model: what the packet's own checksum says of its sum. */
APART int promised_sum(struct xdp_md *context, struct ip *packet)
{
	if (!packet)
		return NO_SUM;
	u32 protocol = packet->protocol;
	if (packet->fragment != FRAGMENT_WHOLE)
		return NO_SUM;
	if (protocol == 17) {
		u16 *check = at(context, packet->payload_at + 6, 2, packet->end);
		if (!check || !*check)
			return NO_SUM;
	} else if (protocol != 6 && protocol != 58 && protocol != 1) {
		return NO_SUM;
	}
	u64 sum = 0xffff;
	u64 pseudo = packet->end - packet->payload_at + protocol;
	if (packet->version == 4) {
		u32 words = (packet->payload_at - packet->at) / 4;
		for (u32 word = 0; word < 15; word++) {
			if (word >= words)
				break;
			u16 *pair = at(context, packet->at + word * 4, 4, packet->end);
			if (!pair)
				return NO_SUM;
			sum += swap16(pair[0]) + swap16(pair[1]);
		}
		u16 *addresses = at(context, packet->at + 12, 8, packet->end);
		if (!addresses)
			return NO_SUM;
		pseudo += words_sum(addresses, 4);
	} else {
		if (packet->payload_at - packet->at != 40)
			return NO_SUM;
		u16 *header = at(context, packet->at, 40, packet->end);
		if (!header)
			return NO_SUM;
		u64 addresses = words_sum(header + 4, 16);
		sum += words_sum(header, 4) + addresses;
		pseudo += addresses;
	}
	if (protocol != 1)
		sum += ~folded(pseudo) & 0xffff;
	return folded(sum);
}

enum { WORDS_MAX = 1024 };

/* The sum of a packet that promises none, such as a fragment: of all its bytes. */
APART int whole_sum(struct xdp_md *context, u32 place, u32 end)
{
	u64 sum = 0;
	for (int count = 0; count < WORDS_MAX; count++) {
		u16 *pair = at(context, place, 4, end);
		if (!pair)
			break;
		sum += swap16(pair[0]) + swap16(pair[1]);
		place += 4;
	}
	for (int count = 0; count < 3; count++) {
		u8 *byte = at(context, place, 1, end);
		if (!byte)
			return folded(sum);
		sum += count == 1 ? *byte : (u32)*byte << 8;
		place++;
	}
	return place < end ? NO_SUM : folded(sum);
}

/* The model's too_big: to the app, in the client's name. 0 when the packet gets no answer. */
INLINE int answer_too_big(struct xdp_md *context, struct ip *packet, u32 room)
{
	u32 is_ipv4 = packet->version == 4, quoted = is_ipv4 ? 28 : 48;
	u8 macs[2][8] __attribute__((aligned(8)));
	u8 *link = at(context, 0, 14 + 28, frame_bytes(context));
	if (!link)
		return 0;
	if (is_ipv4 && (link[14] != 0x45 || !(link[20] & 0x40)))
		return 0;
	copy(macs[0], link, 6);
	copy(macs[1], link + 6, 6);
	if (adjust_tail(context, (int)(14 + quoted) - (int)frame_bytes(context)))
		return 0;
	if (adjust_head(context, is_ipv4 ? -28 : -48))
		return 0;
	u32 bytes = frame_bytes(context);
	link = at(context, 0, 14, bytes);
	if (!link)
		return 0;
	copy(link, macs[1], 6);
	copy(link + 6, macs[0], 6);
	if (is_ipv4) {
		u8 *ip = at(context, 14, 56, bytes);
		if (!ip)
			return 0;
		*(u16 *)(link + 12) = swap16(0x0800);
		*(u32 *)ip = swap32(0x45000038);
		*(u32 *)(ip + 4) = swap32(0x00004000);
		*(u32 *)(ip + 8) = swap32(0x40010000);
		copy(ip + 12, ip + 28 + 16, 4);
		copy(ip + 16, ip + 28 + 12, 4);
		*(u16 *)(ip + 10) = swap16((u16)~folded(words_sum((u16 *)ip, 10)));
		*(u32 *)(ip + 20) = swap32(0x03040000);
		*(u32 *)(ip + 24) = swap32(room);
		*(u16 *)(ip + 22) = swap16((u16)~folded(words_sum((u16 *)(ip + 20), 18)));
		return 1;
	}
	u8 *ip = at(context, 14, 96, bytes);
	if (!ip)
		return 0;
	*(u16 *)(link + 12) = swap16(0x86dd);
	*(u32 *)ip = swap32(0x60000000);
	*(u32 *)(ip + 4) = swap32(0x00383a40);
	copy(ip + 8, ip + 48 + 24, 16);
	copy(ip + 24, ip + 48 + 8, 16);
	*(u32 *)(ip + 40) = swap32(0x02000000);
	*(u32 *)(ip + 44) = swap32(room);
	u64 sum = words_sum((u16 *)(ip + 8), 16) + words_sum((u16 *)(ip + 40), 28) + 56 + 58;
	*(u16 *)(ip + 42) = swap16((u16)~folded(sum));
	return 1;
}

/* Puts the tunnel's headers and the link's in front of a client's packet; 0 when there is no room. */
INLINE int wrap(struct xdp_md *context, struct ip *packet, struct line *line, struct path *path)
{
	u32 packet_bytes = packet->end - packet->at, form = line->form;
	u32 gtp_bytes = form == FORM_CONTAINER ? 16 : 8;
	u32 outer_bytes = path->version == 4 ? 20 : 40;
	u32 link_bytes = 14 + (path->tag_count & 3) * 4;
	u32 front = link_bytes + (form == FORM_PLAIN ? 0 : outer_bytes + 8 + gtp_bytes);
	u32 sum = NO_SUM;
	if (form != FORM_PLAIN && path->version == 6) {
		sum = promised_sum(context, packet);
		if (sum == NO_SUM)
			sum = whole_sum(context, packet->at, packet->end);
	}
	int behind = (int)packet->end - (int)frame_bytes(context);
	if (behind && adjust_tail(context, behind))
		return 0;
	if (adjust_head(context, 14 - (int)front))
		return 0;
	u32 bytes = frame_bytes(context);
	u32 version = form == FORM_PLAIN ? packet->version : path->version;
	u8 *link = at(context, 0, 14, bytes);
	if (!link)
		return 0;
	copy(link, path->to, 6);
	copy(link + 6, path->from, 6);
	u16 kind = version == 4 ? swap16(0x0800) : swap16(0x86dd);
	u32 kind_at = 12;
	for (int index = 0; index < 2; index++) {
		if (!path->tags[index][0])
			continue;
		u16 *tag = at(context, kind_at, 4, bytes);
		if (!tag)
			return 0;
		tag[0] = path->tags[index][0];
		tag[1] = path->tags[index][1];
		kind_at += 4;
	}
	u16 *kind_place = at(context, kind_at, 2, bytes);
	if (!kind_place)
		return 0;
	*kind_place = kind;
	if (form == FORM_PLAIN)
		return 1;

	u32 udp_bytes = 8 + gtp_bytes + packet_bytes;
	if (version == 4) {
		u32 *ip = at(context, link_bytes, 20, bytes);
		if (!ip)
			return 0;
		u32 source = *(u32 *)(path->ends[1] + 12), destination = *(u32 *)(path->ends[0] + 12);
		u32 first = swap32(0x45000000 | (u32)packet->traffic_class << 16 | (20 + udp_bytes));
		/* The sum of words of any order is that of their bytes in it: RFC 1071, section 2. */
		u64 sum = (u64)first + swap32(0x00004000) + swap32(0x40110000) + source + destination;
		ip[0] = first;
		ip[1] = swap32(0x00004000);
		ip[2] = swap32(0x40110000);
		((u16 *)ip)[5] = (u16)~folded(sum);
		ip[3] = source;
		ip[4] = destination;
	} else {
		u8 *ip = at(context, link_bytes, 40, bytes);
		if (!ip)
			return 0;
		*(u32 *)ip = swap32(0x60000000 | (u32)packet->traffic_class << 20);
		*(u16 *)(ip + 4) = swap16((u16)udp_bytes);
		*(u16 *)(ip + 6) = swap16(0x1140);
		copy(ip + 8, path->ends[1], 16);
		copy(ip + 24, path->ends[0], 16);
	}
	u32 *udp = at(context, link_bytes + outer_bytes, 16, bytes);
	if (!udp)
		return 0;
	u32 gtp_kind = form == FORM_CONTAINER ? 0x34ff0000 : 0x30ff0000;
	udp[0] = swap32(2152 << 16 | 2152);
	udp[1] = swap32(udp_bytes << 16);
	udp[2] = swap32(gtp_kind | (packet_bytes + gtp_bytes - 8));
	udp[3] = swap32(line->teids[1]);
	u64 headers_sum = 0;
	if (form == FORM_CONTAINER) {
		u8 *container = at(context, link_bytes + outer_bytes + 16, 8, bytes);
		if (!container)
			return 0;
		*(u32 *)container = swap32(0x00000085);
		*(u32 *)(container + 4) = swap32(0x01000000 | (u32)line->qfi << 8);
		if (sum != NO_SUM)
			headers_sum = words_sum((u16 *)container, 4);
	}
	if (sum != NO_SUM) {
		u8 *ip = at(context, link_bytes, 40, bytes);
		u16 *again = at(context, link_bytes + outer_bytes, 16, bytes);
		if (!ip || !again)
			return 0;
		u64 total = headers_sum + words_sum(again, 8) + words_sum((u16 *)(ip + 8), 16) + udp_bytes + 17 + sum;
		u32 check = ~folded(total) & 0xffff;
		again[3] = check ? swap16((u16)check) : 0xffff;
	}
	return 1;
}

INLINE long from_app(struct xdp_md *context)
{
	struct ip packet;
	struct line line = {};
	u32 bytes = frame_bytes(context);
	struct outcome outcome = {
		.reason = TO_HOST, .out = TO_THIS_HOST, .direction = DOWNLINK, .rule = 0xffffffff
	};
	u8 *link = at(context, 0, 14, bytes);
	if (!link)
		goto out;
	u16 kind = *(u16 *)(link + 12);
	u32 version = kind == swap16(0x0800) ? 4 : kind == swap16(0x86dd) ? 6 : 0;
	if (!version || parse_packet(context, 14, bytes, version, &packet))
		goto out;
	u64 key = client_key(packet.addresses[1][0], packet.addresses[1][1], version);
	if (!key)
		goto out;
	if (networks) {
		u32 interface = context->ingress_ifindex;
		u32 *network = map_lookup(&leg_networks, &interface);
		struct frame frame = {};
		if (!find_own(&frame, &line, key, network ? *network : 0, FROM_APP))
			goto out;
	} else if (!read_only_line(key, &line)) {
		goto out;
	}
	u32 number = line.path;
	struct path *path = map_lookup(&paths, &number);
	if (!path)
		goto out;
	u32 overhead = 0, length = packet.end - packet.at;
	if (line.form != FORM_PLAIN)
		overhead = (path->version == 4 ? 20 : 40) + (line.form == FORM_CONTAINER ? 24 : 16);
	u32 room = wire_bytes_max > overhead ? wire_bytes_max - overhead : 0;
	if (length > room) {
		outcome.reason = TOO_BIG;
		outcome.out = answer_too_big(context, &packet, room) ? BACK : TO_NOWHERE;
		goto out;
	}
	if (!wrap(context, &packet, &line, path)) {
		outcome.reason = NO_ROOM;
		outcome.out = TO_NOWHERE;
		goto out;
	}
	use(line.usage, DOWNLINK, length);
	outcome.reason = FROM_APP_SENT;
	outcome.out = TO_WIRE;
out:
	tell_verdict(&outcome);
	count(FROM_APP, outcome.reason, bytes);
	if (outcome.out == TO_WIRE)
		return redirect_map(&wire, DOWNLINK, XDP_PASS);
	return outcome.out == BACK ? XDP_TX : outcome.out == TO_NOWHERE ? XDP_DROP : XDP_PASS;
}

INLINE long from_in_line(struct xdp_md *context, u32 direction)
{
	struct outcome outcome = {
		.reason = FROM_IN_LINE, .out = TO_WIRE, .direction = direction, .rule = 0xffffffff
	};
	tell_verdict(&outcome);
	count(FROM_APP, FROM_IN_LINE, frame_bytes(context));
	return redirect_map(&wire, direction, XDP_DROP);
}
