/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Frames, read by the rules of src/packet.rs and src/gtp.rs; a test holds one against the other. */
#pragma once
#include "layout.h"

enum { FRAGMENT_WHOLE, FRAGMENT_FIRST, FRAGMENT_LATER };

enum { TABLE_NOW, TABLE_BEFORE, TABLES };

struct ip {
	u64 addresses[2][2];
	u32 at;
	u32 payload_at;
	u32 end;
	u32 identification;
	u16 ports[2];
	u8 version;
	u8 protocol;
	u8 traffic_class;
	u8 fragment;
	u8 has_ports;
	/* What rules look at besides, and what they say: not of the packet. */
	u8 direction;
	u8 table;
	u16 profile;
	struct target target;
};

struct tunnel {
	u64 addresses[2][2];
	u32 teid;
	u8 qfi;
	u8 form;
};

struct frame {
	struct ip packet;
	struct tunnel tunnel;
	u16 tags[2][2];
	u32 link_bytes;
};

/* The bytes at an offset, if the frame and the packet in it have them. The mask tells the verifier
 * how far the pointer goes; no offset reaches it. */

INLINE void *at(struct xdp_md *context, u32 offset, u32 size, u32 limit)
{
	void *data = (void *)(long)context->data;
	void *end = (void *)(long)context->data_end;
	if (offset + size > limit)
		return 0;
	asm volatile("%0 &= 0x3fff" : "+r"(offset));
	void *place = data + offset;
	if (place + size > end)
		return 0;
	return place;
}

INLINE u32 frame_bytes(struct xdp_md *context)
{
	u32 bytes = context->data_end - context->data;
	/* Else the compiler takes the pointers apart in sums, which the verifier does not allow. */
	asm volatile("" : "+r"(bytes));
	return bytes;
}

/* Headers lie at even places only, but all machines this runs on read words from there; structures said to be packed
 * would be read byte by byte. */
struct ipv4 {
	u8 version_and_length;
	u8 traffic_class;
	u16 total;
	u16 identification;
	u16 place;
	u8 hops;
	u8 protocol;
	u16 check;
	u32 source;
	u32 destination;
};

struct ipv6 {
	u32 first;
	u16 payload;
	u8 next;
	u8 hops;
	u64 source[2];
	u64 destination[2];
};

#define word_at(header, offset) (*(u32 *)((u8 *)(header) + (offset)))

/* In front of an IPv4 address that is written as IPv6. */
#define MAPPED 0xffff00000000ULL

/* 0, or 1 for what is malformed. `expected` is 0 where the link does not say the version. */
INLINE int parse_ip(struct xdp_md *context, u32 start, u32 limit, u32 expected, struct ip *ip)
{
	u8 *first = at(context, start, 1, limit);
	if (!first)
		return 1;
	u32 version = *first >> 4;
	if (expected && version != expected)
		return 1;
	ip->at = start;
	ip->version = version;
	ip->fragment = FRAGMENT_WHOLE;
	ip->has_ports = 0;
	ip->ports[0] = ip->ports[1] = 0;
	ip->identification = 0;
	if (version == 4) {
		struct ipv4 *header = at(context, start, sizeof(*header), limit);
		if (!header)
			return 1;
		u32 bytes = (header->version_and_length & 0xf) * 4;
		u32 total = swap16(header->total);
		if (bytes < 20 || total < bytes || start + total > limit)
			return 1;
		u32 place = swap16(header->place);
		if (place & 0x1fff)
			ip->fragment = FRAGMENT_LATER;
		else if (place & 0x2000)
			ip->fragment = FRAGMENT_FIRST;
		ip->identification = swap16(header->identification);
		ip->addresses[0][0] = ip->addresses[1][0] = 0;
		ip->addresses[0][1] = MAPPED | swap32(header->source);
		ip->addresses[1][1] = MAPPED | swap32(header->destination);
		ip->traffic_class = header->traffic_class;
		ip->protocol = header->protocol;
		ip->payload_at = start + bytes;
		ip->end = start + total;
		return 0;
	}
	if (version == 6) {
		struct ipv6 *header = at(context, start, sizeof(*header), limit);
		if (!header)
			return 1;
		u32 total = 40 + swap16(header->payload);
		if (start + total > limit)
			return 1;
		for (int word = 0; word < 2; word++) {
			ip->addresses[0][word] = swap64(header->source[word]);
			ip->addresses[1][word] = swap64(header->destination[word]);
		}
		ip->traffic_class = swap32(header->first) >> 20;
		ip->protocol = header->next;
		ip->payload_at = start + 40;
		ip->end = start + total;
		return 0;
	}
	return 1;
}

INLINE int has_ports(u8 protocol)
{
	return protocol == 6 || protocol == 17 || protocol == 132;
}

INLINE int is_ipv6_header(u8 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 60 || protocol == 44;
}

APART int parse_packet(struct xdp_md *context, u32 start, u32 limit, u32 expected, struct ip *ip)
{
	if (!ip)
		return 1;
	if (parse_ip(context, start, limit, expected, ip))
		return 1;
	if (ip->version == 6 && UNLIKELY(is_ipv6_header(ip->protocol))) {
		for (int count = 0; count < 4; count++) {
			if (!is_ipv6_header(ip->protocol))
				break;
			u8 *header = at(context, ip->payload_at, 8, ip->end);
			if (!header)
				return 1;
			if (ip->protocol == 44) {
				u32 place = header[2] << 8 | header[3];
				ip->identification = (u32)header[4] << 24 | header[5] << 16 |
						     header[6] << 8 | header[7];
				ip->fragment = place >> 3  ? FRAGMENT_LATER :
					       (place & 1) ? FRAGMENT_FIRST :
							     FRAGMENT_WHOLE;
				ip->payload_at += 8;
			} else {
				ip->payload_at += ((u32)header[1] + 1) * 8;
			}
			ip->protocol = header[0];
			if (ip->fragment == FRAGMENT_LATER)
				break;
		}
		if (ip->fragment != FRAGMENT_LATER && is_ipv6_header(ip->protocol))
			return 1;
	}
	u8 protocol = ip->protocol;
	if (has_ports(protocol) && ip->fragment != FRAGMENT_LATER) {
		u16 *ports = at(context, ip->payload_at, 4, ip->end);
		if (ports) {
			ip->ports[0] = swap16(ports[0]);
			ip->ports[1] = swap16(ports[1]);
			ip->has_ports = 1;
		}
	}
	return 0;
}

struct udp {
	u16 source;
	u16 destination;
	u16 bytes;
	u16 check;
};

struct gtp {
	u16 flags_and_kind;
	u16 bytes;
	u32 teid;
};

/* What nearly every frame is: no tags, IPv4 without options outside and inside, a container of four bytes
 * or none. Read at fixed places it costs half of what parse takes, which reads the same from it; whether it was.
 */
INLINE int parse_usual(struct xdp_md *context, struct frame *frame)
{
	u32 limit = frame_bytes(context);
	u8 *link = at(context, 0, 58, limit);
	if (!link)
		return 0;
	struct ipv4 *outer = (struct ipv4 *)(link + 14);
	/* The kind of frame with the header's length; then whether it is a fragment, with the protocol. */
	if ((*(u32 *)(link + 12) & swap32(0xffffff00)) != swap32(0x08004500))
		return 0;
	u32 total = swap16(outer->total), end = 14 + total;
	if ((word_at(outer, 6) & swap32(0x3fff00ff)) != swap32(17) || end > limit)
		return 0;
	struct udp *udp = (struct udp *)(link + 34);
	struct gtp *gtp = (struct gtp *)(link + 42);
	if (udp->destination != swap16(2152) || swap16(udp->bytes) != total - 20 || swap16(gtp->bytes) != total - 36)
		return 0;
	struct tunnel *tunnel = &frame->tunnel;
	struct ip *ip = &frame->packet;
	u32 inner_at;
	if (LIKELY(gtp->flags_and_kind == swap16(0x34ff))) {
		u8 *optional = link + 50;
		if (*(u16 *)(optional + 3) != swap16(0x8501) || optional[7])
			return 0;
		tunnel->form = FORM_CONTAINER;
		tunnel->qfi = optional[6] & 0x3f;
		inner_at = 58;
	} else if (gtp->flags_and_kind == swap16(0x30ff)) {
		tunnel->form = FORM_GTP;
		tunnel->qfi = 0;
		inner_at = 50;
	} else {
		return 0;
	}
	struct ipv4 *inner = at(context, inner_at, sizeof(*inner) + 4, end);
	if (!inner || inner->version_and_length != 0x45 || (inner->place & swap16(0x3fff)))
		return 0;
	u32 inner_total = swap16(inner->total);
	if (inner_total < sizeof(*inner) + 4 || inner_at + inner_total > end)
		return 0;
	u16 *ports = (u16 *)(inner + 1);
	frame->tags[0][0] = frame->tags[0][1] = frame->tags[1][0] = frame->tags[1][1] = 0;
	frame->link_bytes = 14;
	tunnel->teid = swap32(gtp->teid);
	tunnel->addresses[0][0] = tunnel->addresses[1][0] = 0;
	tunnel->addresses[0][1] = MAPPED | swap32(outer->source);
	tunnel->addresses[1][1] = MAPPED | swap32(outer->destination);
	ip->addresses[0][0] = ip->addresses[1][0] = 0;
	ip->addresses[0][1] = MAPPED | swap32(inner->source);
	ip->addresses[1][1] = MAPPED | swap32(inner->destination);
	ip->at = inner_at;
	ip->payload_at = inner_at + 20;
	ip->end = inner_at + inner_total;
	ip->identification = swap16(inner->identification);
	ip->version = 4;
	ip->protocol = inner->protocol;
	ip->traffic_class = inner->traffic_class;
	ip->fragment = FRAGMENT_WHOLE;
	ip->has_ports = has_ports(ip->protocol);
	ip->ports[0] = ip->has_ports ? swap16(ports[0]) : 0;
	ip->ports[1] = ip->has_ports ? swap16(ports[1]) : 0;
	return 1;
}

/* Whether clients' packets are inside GTP-U on the wire; set before loading, so that what is not used
 * is not even in the program. */
const volatile u8 tunnelled = 1;

/* A reason why the frame is none of ours, or -1. */
APART int parse(struct xdp_md *context, struct frame *frame)
{
	if (!frame)
		return MALFORMED;
	if (tunnelled && LIKELY(parse_usual(context, frame)))
		return -1;
	u32 limit = frame_bytes(context);
	u8 *link = at(context, 0, 14, limit);
	if (!link)
		return MALFORMED;
	u16 kind = *(u16 *)(link + 12);
	frame->link_bytes = 14;
	for (int index = 0; index < 2; index++) {
		frame->tags[index][0] = frame->tags[index][1] = 0;
		if (LIKELY(kind != swap16(0x8100) && kind != swap16(0x88a8)))
			continue;
		u16 *tag = at(context, frame->link_bytes, 4, limit);
		if (!tag)
			return MALFORMED;
		frame->tags[index][0] = kind;
		frame->tags[index][1] = tag[0];
		kind = tag[1];
		frame->link_bytes += 4;
	}
	u32 version = kind == swap16(0x0800) ? 4 : kind == swap16(0x86dd) ? 6 : 0;
	if (!version)
		return NOT_IP;
	if (!tunnelled)
		return parse_packet(context, frame->link_bytes, limit, version, &frame->packet) ? MALFORMED : -1;

	struct ip *outer = &frame->packet;
	if (parse_ip(context, frame->link_bytes, limit, version, outer))
		return MALFORMED;
	if (outer->fragment != FRAGMENT_WHOLE || outer->protocol == 44)
		return OUTER_FRAGMENT;
	if (outer->protocol != 17)
		return NOT_TUNNEL;
	u32 udp_at = outer->payload_at, end = outer->end;
	u16 *udp = at(context, udp_at, 8, end);
	if (!udp)
		return MALFORMED;
	if (udp[1] != swap16(2152))
		return NOT_TUNNEL;
	if (swap16(udp[2]) != end - udp_at)
		return MALFORMED;
	u32 gtp_at = udp_at + 8;
	u8 *gtp = at(context, gtp_at, 8, end);
	if (!gtp || (gtp[0] & 0xf0) != 0x30 || swap16(*(u16 *)(gtp + 2)) != end - gtp_at - 8)
		return MALFORMED;
	if (gtp[1] != 255)
		return TUNNEL_SIGNAL;
	struct tunnel *tunnel = &frame->tunnel;
	copy(tunnel->addresses, outer->addresses, sizeof(tunnel->addresses));
	tunnel->teid = swap32(*(u32 *)(gtp + 4));
	tunnel->qfi = 0;
	tunnel->form = FORM_GTP;
	u32 inner_at = gtp_at + 8;
	u8 flags = gtp[0];
	if (flags & 7) {
		u8 *optional = at(context, inner_at, 4, end);
		if (!optional)
			return MALFORMED;
		inner_at += 4;
		u8 next = flags & 4 ? optional[3] : 0;
		for (int count = 0; count < 4; count++) {
			if (!next)
				break;
			u8 *start = at(context, inner_at, 4, end);
			if (!start)
				return MALFORMED;
			u32 bytes = start[0] * 4;
			if (!bytes || inner_at + bytes - gtp_at > 128)
				return MALFORMED;
			if (next == 0x85) {
				tunnel->form = FORM_CONTAINER;
				tunnel->qfi = start[2] & 0x3f;
			} else if (next & 0x80) {
				/* To be understood by whoever takes the packet out, which is not done here then. */
				return TUNNEL_SIGNAL;
			}
			u8 *last = at(context, inner_at + bytes - 1, 1, end);
			if (!last)
				return MALFORMED;
			next = *last;
			inner_at += bytes;
		}
		if (next)
			return MALFORMED;
	}
	return parse_packet(context, inner_at, end, 0, &frame->packet) ? MALFORMED : -1;
}
