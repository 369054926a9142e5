//! Keys of a fleet.

use super::key::{Key, Kind, key};

/// Their part of the table.
pub(super) const KEYS: &[Key] = &[
    key(
        "fleet.servers",
        Kind::TextList,
        "",
        "Servers of NATS that have the fleet's log of purges, as `nats://10.0.0.1:4222` or `tls://host`; \
         any of them will do. With them the node belongs to the fleet.",
    ),
    key("fleet.name", Kind::Text, "fleet", "Name of the fleet, as `freshet fleet init` made it."),
    key(
        "fleet.node",
        Kind::Text,
        "auto",
        "This node's name in the fleet, which no other has: letters, digits, `-` and `_`. `auto` is the \
         machine's, up to its first dot.",
    ),
    key(
        "fleet.credentials",
        Kind::SecretFile,
        "",
        "File with credentials for the servers, as `nsc` makes it.",
    ),
    key(
        "fleet.ca",
        Kind::File,
        "",
        "PEM file of the authorities the servers' certificates are of.",
    ),
    key(
        "fleet.certificate",
        Kind::File,
        "",
        "PEM file with the certificate chain this node shows to the servers.",
    ),
    key("fleet.key", Kind::SecretFile, "", "PEM file with its private key."),
    key(
        "fleet.identity",
        Kind::Text,
        "",
        "Folder with a certificate of the fleet's own issuer, as `freshet fleet join` makes it, in place of `ca`, \
         `certificate` and `key`. The node has it renewed before it ends.",
    ),
    key(
        "fleet.signers",
        Kind::TextList,
        "",
        "Public keys of the fleet's operators, as `freshet fleet key` prints them. With them the node carries \
         out only purges, takes in only configurations and hands over only at words that one of these has \
         signed; otherwise whoever can write to the servers is believed.",
    ),
    key(
        "fleet.state",
        Kind::File,
        "",
        "File that keeps how far the log was carried out, for a node with `[[store]]`. Without it what is \
         on disks is validated once after each start.",
    ),
    key(
        "fleet.config",
        Kind::Text,
        "",
        "Folder in which the node keeps the configuration it gets from the fleet, for itself alone. With \
         it `freshet fleet config push` reaches the node; what this file and the flags say wins.",
    ),
    key(
        "fleet.group",
        Kind::Text,
        "all",
        "The group of nodes whose configuration it gets: letters, digits, `-` and `_`.",
    ),
    key(
        "fleet.labels",
        Kind::TextList,
        "",
        "Words by which roll-outs may choose it, as `canary` or `berlin`.",
    ),
    key(
        "fleet.secret",
        Kind::SecretFile,
        "",
        "File with the fleet's secret, as `freshet fleet secret` makes it, the same at all nodes: what \
         configurations are sealed with, and keys of session tickets made of. Without it configurations \
         are in the clear.",
    ),
    key(
        "fleet.tickets",
        Kind::Bool,
        "false",
        "Whether TLS sessions of one node are resumed at the others: keys of session tickets are made of \
         `fleet.secret` and the clock, and change every 12 hours.",
    ),
    key(
        "fleet.when_cut_off",
        Kind::Choice(&["serve-stale", "refuse"]),
        "serve-stale",
        "What becomes of a request while the node may have missed purges, and nobody can be asked whether \
         what is stored is still good.",
    ),
];
