/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#include "router.h"

/* On the wire's interface towards base stations. */
SECTION("xdp") int access(struct xdp_md *context)
{
	return from_wire(context, UPLINK);
}

/* On the wire's interface towards the core. */
SECTION("xdp") int core(struct xdp_md *context)
{
	return from_wire(context, DOWNLINK);
}

/* On the interface of an app that answers clients. */
SECTION("xdp") int app(struct xdp_md *context)
{
	return from_app(context);
}

/* On the two interfaces of an in-line app: what leaves it towards clients, and towards the core. */
SECTION("xdp") int in_line_access(struct xdp_md *context)
{
	return from_in_line(context, DOWNLINK);
}

SECTION("xdp") int in_line_core(struct xdp_md *context)
{
	return from_in_line(context, UPLINK);
}

/* Behind the map of taps: takes the copy out of its tunnel. */
SECTION("xdp/devmap") int tap_unwrap(struct xdp_md *context)
{
	return to_tap(context, context->egress_ifindex);
}

/* What a frame costs at the least: the measure the others are held against. */
SECTION("xdp") int bare(struct xdp_md *context)
{
	(void)context;
	return redirect_map(&wire, UPLINK, XDP_PASS);
}

const char program_license[] SECTION("license") = "Dual BSD/GPL";
