/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* eUPF's program as the gauge runs ours: the frame is put back before each run. It is compiled from a
 * checkout of edgecomllc/eupf, whose entry point is included as ENTRY. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* Nothing of it is to outlive the gauge. */
#define LIBBPF_PIN_BY_NAME LIBBPF_PIN_NONE
#include ENTRY

struct kept {
	__u32 bytes;
	__u32 head;
	__u8 content[192];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kept);
} kept SEC(".maps");

/* Clients: tunnel identifiers from 1 and addresses from this one on. */
struct known {
	__u32 client; /* as a number; it counts up as they are made */
	__u32 remote; /* base station, in network order */
	__u32 own; /* the core's end, likewise */
	__u32 made;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known);
} known SEC(".maps");

/* Clients that take turns, as gauge.bpf.c has them. */
struct turn {
	__u32 clients;
	__u32 at;
	__u32 teid_at;
	__u32 first;
	__u64 state;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turn);
} turns SEC(".maps");

/* Makes the next client, with rules and a quality of service of its own. */
SEC("xdp") int eupf_set_up(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct known *sizes = bpf_map_lookup_elem(&known, &zero);
	if (!sizes)
		return XDP_ABORTED;
	global_config.n3_ipv4_address = sizes->own;
	__u32 number = sizes->made++, far_up = 2 * number, far_down = far_up + 1;
	struct qer_info open = {};
	open.qfi = 9;
	bpf_map_update_elem(&qer_map, &number, &open, BPF_ANY);
	struct far_info up = {}, down = {};
	up.action = FAR_FORW;
	down.action = FAR_FORW;
	down.outer_header_creation = OHC_GTP_U_UDP_IPv4;
	down.teid = 1 + number;
	down.remoteip = sizes->remote;
	bpf_map_update_elem(&far_map, &far_up, &up, BPF_ANY);
	bpf_map_update_elem(&far_map, &far_down, &down, BPF_ANY);
	struct pdr_info pdr = {};
	pdr.outer_header_removal = OHR_GTP_U_UDP_IPv4;
	pdr.urr2_id = 1;
	pdr.qer_id = number;
	pdr.far_id = far_up;
	__u32 teid = 1 + number, client = bpf_htonl(sizes->client + number);
	bpf_map_update_elem(&pdr_map_teid_ip4, &teid, &pdr, BPF_ANY);
	pdr.far_id = far_down;
	bpf_map_update_elem(&pdr_map_downlink_ip4, &client, &pdr, BPF_ANY);
	return XDP_PASS;
}

/* By words, as in kernel.h. */
#define copy(to, from, bytes) \
	__builtin_memcpy(__builtin_assume_aligned(to, 8), __builtin_assume_aligned(from, 8), bytes)

/* As in gauge.bpf.c. */
static __always_inline int put_back(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct kept *first = bpf_map_lookup_elem(&kept, &zero);
	if (!first)
		return 0;
	__u32 bytes = ctx->data_end - ctx->data;
	asm volatile("" : "+r"(bytes));
	int away = (int)bytes - (int)first->bytes;
	if (away && bpf_xdp_adjust_head(ctx, away))
		return 0;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 80 > end)
		return 0;
	copy(data, first->content, 64);
	if (first->head > 64)
		copy(data + 64, first->content + 64, 16);
	struct turn *turn = bpf_map_lookup_elem(&turns, &zero);
	if (turn && turn->clients) {
		turn->state = turn->state * 6364136223846793005ULL + 1442695040888963407ULL;
		__u32 client = (__u32)(((turn->state >> 33) * turn->clients) >> 31);
		__u32 *address = data + (turn->at & 127), *teid = data + (turn->teid_at & 127);
		if ((void *)(address + 1) > end || (void *)(teid + 1) > end)
			return 0;
		*address = bpf_htonl(turn->first + client);
		if (turn->teid_at)
			*teid = bpf_htonl(1 + client);
	}
	return 1;
}

SEC("xdp") int eupf_back(struct xdp_md *ctx)
{
	return put_back(ctx) ? XDP_PASS : XDP_ABORTED;
}

SEC("xdp") int eupf(struct xdp_md *ctx)
{
	return put_back(ctx) ? upf_ip_entrypoint_func(ctx) : XDP_ABORTED;
}
