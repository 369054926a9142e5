/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The little of the kernel's interface that the programs here use, so that clang alone builds them. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function that the verifier looks at once, by itself. */
#define APART __attribute__((noinline))

#define LIKELY(is) __builtin_expect(!!(is), 1)
#define UNLIKELY(is) __builtin_expect(!!(is), 0)

/* Members of a map as the loader reads them from the type information. */
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, of) of *name

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_ARRAY_OF_MAPS = 12,
	MAP_DEVMAP = 14,
	MAP_RINGBUF = 27,
};

enum {
	MAP_MMAPABLE = 1 << 10,
	REDIRECT_BROADCAST = 1 << 3,
};

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const adjust_head)(struct xdp_md *context, int delta) = (void *)44;
static long (*const redirect_any)(void *map, u64 key, u64 flags) = (void *)51;
static long (*const adjust_tail)(struct xdp_md *context, int delta) = (void *)65;
static void *(*const ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const coarse_ns)(void) = (void *)160;

/* One call for each map, never one that several share: the kernel goes straight to a map it knows, but by a pointer
 * to one of many, which on some machines costs as much as reading a frame. What follows differs from call to
 * call, so that the compiler finds no two with the same end. */
#define redirect_map(map, key, flags)                                  \
	({                                                             \
		long action = redirect_any(map, key, flags);           \
		asm volatile("" : "+r"(action) : "i"(__COUNTER__));    \
		action;                                                \
	})

#define swap16(value) __builtin_bswap16(value)
#define swap32(value) __builtin_bswap32(value)
#define swap64(value) __builtin_bswap64(value)
/* By the largest words there are: the machines this runs on read and write them anywhere but on the stack, where what
 * is copied has to be aligned. */
#define copy(to, from, bytes) \
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), bytes)
