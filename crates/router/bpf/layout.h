/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the programs share with the process that loads them. src/kernel/layout.rs writes the same. */
#pragma once
#include "kernel.h"

enum { UPLINK, DOWNLINK, FROM_APP };

enum {
	NOT_IP,
	MALFORMED,
	OUTER_FRAGMENT,
	NOT_TUNNEL,
	TUNNEL_SIGNAL,
	NO_SESSION,
	OTHER_TUNNEL,
	NO_RULE,
	RULE_PASS,
	RULE_DROP,
	BREAKOUT,
	IN_LINE,
	TAP,
	APP_DEAD,
	RATE_LIMITED,
	FROM_APP_SENT,
	FROM_IN_LINE,
	TO_HOST,
	TOO_BIG,
	NO_ROOM,
	REASONS = 32,
};

enum { ACT_PASS, ACT_DROP, ACT_BREAKOUT, ACT_IN_LINE, ACT_TAP };
enum { FORM_PLAIN, FORM_GTP, FORM_CONTAINER };

enum {
	PROBES_MAX = 128,
	NETWORKS_MAX = 15,
	VLANS = 4096,
	PATHS_MAX = 4096,
	APPS_MAX = 64,
	LEGS_MAX = 128,
	TAPS_MAX = 8,
	RULES_MAX = 1024,
	LIMITERS_MAX = 256,
	CLASSES_MAX = 1024,
	BLOCKS_MAX = 2048,
	IPV6_ENDS_MAX = 1024,
	PROFILES_MAX = 1024,
	ENTRIES_MAX = 256,
};

/* A session: src/session/lines.rs says why it looks like this. */
struct line {
	u64 key;
	u32 teids[2];
	u32 usage;
	u16 path;
	u16 profile;
	u8 qfi;
	u8 form;
	u16 network;
	u32 check;
};

struct path {
	u8 ends[2][16]; /* base station, core; IPv4 is mapped */
	u8 to[6];
	u8 from[6];
	u16 tags[2][2]; /* in network order */
	u8 version; /* of the ends */
	u8 tag_count;
	u8 zero[10];
};

struct app {
	u16 legs[2]; /* places in the map of legs */
	u16 tap; /* place among taps */
	u16 segment_bytes_max[2];
	u8 macs[2][6];
	u8 own[2][6];
	u8 zero[30];
};

struct usage {
	u64 packets[2];
	u64 bytes[2];
};

/* Packets count in the low bits, bytes from here on. */
#define RECENT_UNIT (1ULL << 24)

struct recent {
	u64 words[2];
};

struct counter {
	u64 packets;
	u64 bytes;
};

/* Lets a packet through when its turn has come: GCRA, whose whole state is one time. */
struct limiter {
	u64 next_ns;
	u64 ns_per_kib; /* 0 is no limit */
	u64 burst_ns;
};

/* While rules settle: since when, and until when, on the monotonic clock; 0 is not at all. */
struct settling {
	u64 since_ns;
	u64 until_ns;
};

struct bits {
	u64 words[4];
};

struct address_index {
	u16 top[65536];
	u16 blocks[BLOCKS_MAX][256];
	u64 start_high[IPV6_ENDS_MAX];
	u64 start_low[IPV6_ENDS_MAX];
	u16 ipv6_class[IPV6_ENDS_MAX];
	struct bits sets[CLASSES_MAX];
};

struct port_index {
	u16 class[65536];
	struct bits sets[CLASSES_MAX];
	struct bits unknown;
};

struct target {
	u8 act;
	u8 app;
	u16 rule;
	u8 limiter;
	u8 zero[3];
};

enum {
	USES_SOURCE = 1,
	USES_DESTINATION = 1 << 1,
	USES_SOURCE_PORT = 1 << 2,
	USES_DESTINATION_PORT = 1 << 3,
	USES_PROTOCOL = 1 << 4,
	USES_TRAFFIC_CLASS = 1 << 5,
	USES_PROFILE = 1 << 6,
};

struct side {
	u32 uses;
	u32 zero;
	struct bits all;
	struct address_index addresses[2];
	struct port_index ports[2];
	struct bits protocols[256];
	struct bits traffic_classes[512];
	struct bits profiles[PROFILES_MAX];
	struct target targets[ENTRIES_MAX];
};

struct table {
	u64 generation;
	struct side sides[2];
};

/* A packet that agrees with no session: src/session/learn.rs decides what to make of it. */
struct sighting {
	u64 key;
	u64 addresses[2][2]; /* source and destination, high and low */
	u64 outer[2][2];
	u32 teid;
	u16 ports[2];
	u8 direction;
	u8 protocol;
	u8 form;
	u8 qfi;
	u8 macs[12];
	u16 tags[2][2]; /* in network order */
};

/* What the last packet met, for tests. */
struct verdict {
	u32 reason;
	u32 out; /* 0 wire, 1 app, 2 wire and tap, 3 nowhere, 4 host, 5 back */
	u32 direction; /* of the wire */
	u32 app;
	u32 leg;
	u32 rule; /* all ones without */
	u32 sighted;
};
