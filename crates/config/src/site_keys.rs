//! Keys that tell sites apart.

use super::key::{Key, Kind, key};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "site[].name",
        Kind::Text,
        "",
        "Name in logs, metrics, purges and keys of the cache; default is the first host. Another \
         name is another site: what was kept under the old one is not found any more.",
    ),
    key(
        "site[].hosts",
        Kind::TextList,
        "",
        "Hosts this site is for: `www.example`, `*.example` for all below, or `*` for those no site \
         names. Without `*` anywhere an unknown host gets a 421. Every key that says so may stand \
         in a site, as `[site.cache]` or `[[site.origin]]`; a list of tables there takes the place \
         of the top level's.",
    ),
    key(
        "site[].memory_max",
        Kind::Text,
        "",
        "Memory that what this site keeps may have together, as `2GiB`; what was there first and is \
         not used leaves when more comes, and a response that is longer is not kept. Without it a \
         site has what its requests earn beside the others'.",
    ),
    key(
        "site[].disk_max",
        Kind::Text,
        "",
        "Bytes of all stores that what this site keeps may have together, as `500GB`; at that nothing new \
         of it goes to a disk, until the log has come round to what was there first, or all of the \
         site is purged. Without it a site has what comes of it.",
    ),
    key(
        "site[].admin_token_file",
        Kind::SecretFile,
        "",
        "File that holds a token of the admin interface for this site alone: who has it may purge, ban, \
         explain, look at the log, and block clients or begin maintenance, of what this site has, and \
         of nothing else. The same file may be named by several sites. Read again by a reload.",
    ),
];
