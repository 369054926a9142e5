//! Keys of media.

use super::key::{Key, Kind, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    per_site(
        "media.read",
        Kind::Bool,
        "true",
        "Whether playlists (HLS) and manifests (DASH) are read as they pass, so that live streams \
         stay off disks and leave with their window. No body is changed.",
    ),
    per_site(
        "media.dvr_after",
        Kind::Span,
        "10m",
        "A channel that can be seen for longer than this is kept on disks too, behind its live edge.",
    ),
    per_site(
        "media.override",
        Kind::Bool,
        "false",
        "Whether playlists of channels are shared for a moment, as half a segment or a part, though \
         their origin says `no-cache`, `no-store` or `max-age=0`.",
    ),
    per_site(
        "media.ahead",
        Kind::Count { min: 0, max: 1024 },
        "8",
        "How much of what playlists name a worker fetches at a time before players ask for it; 0 is \
         nothing.",
    ),
    per_site(
        "media.ahead_bytes",
        Kind::Size,
        "64MiB",
        "Bytes a worker fetches so at a time, as far as origins say how long their answers are; one that is \
         over it is left to who asks for it.",
    ),
    per_site(
        "media.cmcd_collector",
        Kind::Text,
        "",
        "Path at which reports of players are taken by POST, as `/cmcd` (CTA-5004-B, event mode); \
         without it they go on as any request.",
    ),
    per_site(
        "media.cmcd_forward",
        Kind::Bool,
        "false",
        "Whether origins get what players say of themselves (`CMCD` in the query, `CMCD-*` fields). It \
         is in no key: what an origin copies from it into a response, others get too.",
    ).in_vcl("origins get what the policy leaves in `bereq`"),
    per_site(
        "media.cmsd",
        Kind::Bool,
        "false",
        "Whether responses tell players what the way to them carries: `CMSD-Dynamic` with `rd`, and of \
         large ones `etp` and `rtt` (CTA-5006).",
    ),
    per_site(
        "media.clock",
        Kind::Text,
        "",
        "Path that answers with the time of day, as `/time`, for `UTCTiming` in manifests of DASH: \
         `urn:mpeg:dash:utc:http-iso:2014` and `http-head`.",
    ),
    per_site(
        "media.steering",
        Kind::Text,
        "",
        "Path at which players ask which [[pathway]] to take, as `/steering` (HLS and DASH content \
         steering).",
    ),
    per_site(
        "media.steering_ttl",
        Kind::Span,
        "1m",
        "When players ask again; a change of the file reaches them by then.",
    ),
    per_site(
        "pathway[].id",
        Kind::Text,
        "",
        "Name of the pathway, as the playlists have it in `PATHWAY-ID` or `serviceLocation`.",
    ),
    per_site(
        "pathway[].weight",
        Kind::Count { min: 0, max: 1000 },
        "1",
        "Its share of the players, each of which keeps to one; with 0 it is for when all others fail.",
    ),
    per_site(
        "pathway[].clone_of",
        Kind::Text,
        "",
        "A pathway of the playlists, whose URLs this one has with `host` in place of theirs.",
    ),
    per_site("pathway[].host", Kind::Text, "", "The host of a clone, as `b.example`."),
];
