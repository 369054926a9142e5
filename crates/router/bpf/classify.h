/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* From a packet to the first filter that accepts it: src/rule/compile.rs made the table. */
#pragma once
#include "parse.h"

/* The rules, and those before them; each is replaced whole. */
struct {
	NUMBER(type, MAP_ARRAY_OF_MAPS);
	NUMBER(max_entries, TABLES);
	NUMBER(key_size, 4);
	struct {
		NUMBER(type, MAP_ARRAY);
		NUMBER(max_entries, 1);
		NUMBER(key_size, 4);
		NUMBER(value_size, sizeof(struct table));
	} *values[];
} rules SECTION(".maps");

static const u8 lowest[64] = {
	0,  1,  48, 2,	57, 49, 28, 3,	61, 58, 50, 42, 38, 29, 17, 4,	62, 55, 59, 36, 53, 51,
	43, 22, 45, 39, 33, 30, 24, 18, 12, 5,	63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21,
	44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,	13, 8,	7,  6,
};

INLINE u32 lowest_bit(u64 word)
{
	return lowest[((word & -word) * 0x03f79d71b4cb0a89ULL) >> 58];
}

INLINE struct table *the_table(u32 place)
{
	u32 zero = 0;
	void *map = map_lookup(&rules, &place);
	if (!map)
		return 0;
	return map_lookup(map, &zero);
}

/* The last start that is not above the address. What lies behind the used ones is all ones. */
APART int ipv6_place(struct ip *packet, u32 direction, u32 which)
{
	if (!packet)
		return 0;
	struct table *table = the_table(packet->table);
	if (!table)
		return 0;
	struct address_index *index = &table->sides[direction & 1].addresses[which & 1];
	u64 high = packet->addresses[which & 1][0], low = packet->addresses[which & 1][1];
	u32 place = 0;
	for (u32 step = IPV6_ENDS_MAX / 2; step; step /= 2) {
		u32 next = (place + step) & (IPV6_ENDS_MAX - 1);
		u64 start = index->start_high[next];
		if (start < high || (start == high && index->start_low[next] <= low))
			place = next;
	}
	return place;
}

INLINE u32 address_class(struct ip *packet, struct address_index *index, u32 direction, u32 which)
{
	if (LIKELY(!packet->addresses[which][0] && packet->addresses[which][1] >> 32 == 0xffff)) {
		u32 address = packet->addresses[which][1];
		u32 entry = index->top[address >> 16];
		if (entry & 0x8000)
			entry = index->blocks[entry & (BLOCKS_MAX - 1)][address >> 8 & 0xff];
		if (entry & 0x8000)
			entry = index->blocks[entry & (BLOCKS_MAX - 1)][address & 0xff];
		return entry & (CLASSES_MAX - 1);
	}
	u32 place = ipv6_place(packet, direction, which);
	return index->ipv6_class[place & (IPV6_ENDS_MAX - 1)] & (CLASSES_MAX - 1);
}

INLINE void keep(struct bits *left, const struct bits *set)
{
	left->words[0] &= set->words[0];
	left->words[1] &= set->words[1];
	left->words[2] &= set->words[2];
	left->words[3] &= set->words[3];
}

INLINE const struct bits *port_set(struct ip *packet, struct port_index *index, u32 which)
{
	if (!packet->has_ports)
		return &index->unknown;
	return &index->sets[index->class[packet->ports[which]] & (CLASSES_MAX - 1)];
}

/* Whether a filter accepts the packet; then its target is in the packet. */
APART int classify(struct ip *packet)
{
	if (!packet)
		return 0;
	struct table *table = the_table(packet->table);
	if (!table)
		return 0;
	u32 direction = packet->direction & 1;
	struct side *side = &table->sides[direction];
	struct bits left = side->all;
	u32 uses = side->uses;
	if (uses & USES_DESTINATION) {
		struct address_index *index = &side->addresses[1];
		keep(&left, &index->sets[address_class(packet, index, direction, 1)]);
	}
	if (uses & USES_SOURCE) {
		struct address_index *index = &side->addresses[0];
		keep(&left, &index->sets[address_class(packet, index, direction, 0)]);
	}
	if (uses & USES_DESTINATION_PORT)
		keep(&left, port_set(packet, &side->ports[1], 1));
	if (uses & USES_SOURCE_PORT)
		keep(&left, port_set(packet, &side->ports[0], 0));
	if (uses & USES_PROTOCOL)
		keep(&left, &side->protocols[packet->protocol]);
	if (uses & USES_TRAFFIC_CLASS) {
		u32 class = packet->traffic_class + (packet->version == 6 ? 256 : 0);
		keep(&left, &side->traffic_classes[class & 511]);
	}
	if (uses & USES_PROFILE)
		keep(&left, &side->profiles[packet->profile & (PROFILES_MAX - 1)]);
	u32 place;
	if (left.words[0])
		place = lowest_bit(left.words[0]);
	else if (left.words[1])
		place = 64 + lowest_bit(left.words[1]);
	else if (left.words[2])
		place = 128 + lowest_bit(left.words[2]);
	else if (left.words[3])
		place = 192 + lowest_bit(left.words[3]);
	else
		return 0;
	packet->target = side->targets[place & (ENTRIES_MAX - 1)];
	return 1;
}
