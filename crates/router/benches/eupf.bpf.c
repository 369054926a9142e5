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

/* The one client: tunnel identifier 1 and this address. */
struct known {
	__u32 client; /* as a number */
	__u32 remote; /* base station, in network order */
	__u32 own; /* the core's end, likewise */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct known);
} known SEC(".maps");

SEC("xdp") int eupf_set_up(struct xdp_md *ctx)
{
	__u32 zero = 0, one = 1;
	struct known *sizes = bpf_map_lookup_elem(&known, &zero);
	if (!sizes)
		return XDP_ABORTED;
	global_config.n3_ipv4_address = sizes->own;
	struct qer_info open = {};
	open.qfi = 9;
	bpf_map_update_elem(&qer_map, &zero, &open, BPF_ANY);
	struct far_info up = {}, down = {};
	up.action = FAR_FORW;
	down.action = FAR_FORW;
	down.outer_header_creation = OHC_GTP_U_UDP_IPv4;
	down.teid = 1;
	down.remoteip = sizes->remote;
	bpf_map_update_elem(&far_map, &zero, &up, BPF_ANY);
	bpf_map_update_elem(&far_map, &one, &down, BPF_ANY);
	struct pdr_info pdr = {};
	pdr.outer_header_removal = OHR_GTP_U_UDP_IPv4;
	pdr.urr2_id = 1;
	__u32 teid = 1, client = bpf_htonl(sizes->client);
	bpf_map_update_elem(&pdr_map_teid_ip4, &teid, &pdr, BPF_ANY);
	pdr.far_id = 1;
	bpf_map_update_elem(&pdr_map_downlink_ip4, &client, &pdr, BPF_ANY);
	return XDP_PASS;
}

SEC("xdp") int eupf(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct kept *first = bpf_map_lookup_elem(&kept, &zero);
	if (!first)
		return XDP_ABORTED;
	__u32 bytes = ctx->data_end - ctx->data;
	asm volatile("" : "+r"(bytes));
	int away = (int)bytes - (int)first->bytes;
	if (away && bpf_xdp_adjust_head(ctx, away))
		return XDP_ABORTED;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	if (data + 80 > end)
		return XDP_ABORTED;
	__builtin_memcpy(data, first->content, 64);
	if (first->head > 64)
		__builtin_memcpy(data + 64, first->content + 64, 16);
	return upf_ip_entrypoint_func(ctx);
}
