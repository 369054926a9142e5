//! Keys of what is kept where: stores on disks, lower memory, classes.

use super::key::{Key, Kind, key, per_site};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "store[].path",
        Kind::Text,
        "",
        "A file or block device that keeps what is cached over a restart. A file is made if it is \
         not there; a device is used whole.",
    ),
    key(
        "store[].size",
        Kind::Text,
        "",
        "Length of a file that is made, as `100GB`. One that is there keeps its own.",
    ),
    key(
        "store[].weight",
        Kind::Count { min: 0, max: 1 << 20 },
        "0",
        "Share of new content beside the other stores; 0 goes by their lengths.",
    ),
    key(
        "store[].drive_writes",
        Kind::Text,
        "1",
        "How often a day the drive may be written whole, beyond the first filling. As that is used, \
         less is let in, and nothing above it.",
    ),
    key(
        "store[].object_size",
        Kind::Text,
        "512KiB",
        "Mean length of what is stored, which decides the memory of its index to begin with: 9 bytes \
         for each. Longer objects count as several of 1 MiB; where they are shorter the index grows. \
         Takes effect when the store is formatted.",
    ),
    key(
        "store[].keep_used",
        Kind::Bool,
        "true",
        "Whether content that was used is written again when its turn to be overwritten comes, as far \
         as the write budget has room.",
    ),
    key(
        "store[].discard",
        Kind::Choice(&["devices", "always", "never"]),
        "devices",
        "Whether the drive is told what it need not keep of what is about to be written over, so that \
         it moves less of it about: where the store is a block device, also where it is a file, or never.",
    ),
    key(
        "store[].write_life",
        Kind::Choice(&["unsaid", "short", "medium", "long", "extreme"]),
        "long",
        "How long most of what is written there stays, beside what else is written to the same drive, as \
         the kernel is told (`F_SET_RW_HINT`).",
    ),
    key(
        "store[].class",
        Kind::Text,
        "disk",
        "What `[[storage]]` and a policy (`beresp.storage = storage.NAME`) call this store. Stores \
         of one class share what goes there.",
    ),
    key(
        "store[].ttl_min",
        Kind::Span,
        "0s",
        "Shortest lifetime of what goes there, where that is longer than `stores.ttl_min`.",
    ),
    key("store[].object_min", Kind::Text, "", "Shortest body that goes there, as `64KiB`."),
    key(
        "store[].object_max",
        Kind::Text,
        "",
        "Longest body that goes there, as `1GB`; with it, none of unknown length that is too long \
         for memory.",
    ),
    per_site(
        "stores.ttl_min",
        Kind::Span,
        "10m",
        "Responses with a shorter lifetime stay in memory: live streams never wear a disk.",
    ),
    key(
        "lower_memory.path",
        Kind::Text,
        "",
        "A file that is memory of a lower class, as of PMem or CXL: on a file system mounted with \
         dax, on tmpfs, or a DAX device. What `memory` has no room for moves there and is served \
         from there. It is made and overwritten.",
    ),
    key(
        "lower_memory.numa_node",
        Kind::Text,
        "",
        "Instead of a file, the number of the NUMA node this memory comes from.",
    ),
    key(
        "lower_memory.size",
        Kind::Text,
        "",
        "How much of it is used, as `64GiB`; all of it is reserved at the start.",
    ),
    key(
        "lower_memory.class",
        Kind::Text,
        "lower",
        "What `[[storage]]` and a policy (`beresp.storage = storage.NAME`) call it. What they send \
         there moves there as soon as it is whole, stays, and goes to no disk.",
    ),
    key("lower_memory.ttl_min", Kind::Span, "0s", "Shortest lifetime of what moves there."),
    key("lower_memory.object_min", Kind::Text, "", "Shortest body that moves there, as `64KiB`."),
    key("lower_memory.object_max", Kind::Text, "", "Longest body that moves there, as `16MiB`."),
    per_site(
        "storage[].path",
        Kind::Text,
        "/",
        "What the path of a request begins with, as `/live/`. The first that fits counts.",
    ),
    per_site(
        "storage[].class",
        Kind::Text,
        "ram",
        "Where its response may be kept, unless a policy says otherwise: `ram` for memory only, \
         the class of a store or of `lower_memory`, or `any` for where its length and lifetime let \
         it.",
    ),
    per_site(
        "storage[].media",
        Kind::Choice(&["any", "live", "dvr", "vod"]),
        "any",
        "What kind of presentation it is of, as the playlist or manifest says that names it: only that then, \
         and `class` names one. A film's segments are known where its playlist has passed here.",
    ),
    per_site(
        "storage[].objective",
        Kind::Choice(&["auto", "bytes", "requests"]),
        "auto",
        "What memory, also of a lower class, is to have the most of there; `auto` is \
         `cache.objective`. Holds for what comes from then on.",
    ),
];
