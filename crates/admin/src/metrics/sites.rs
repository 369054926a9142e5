//! Metrics of sites, where a node has several.

use super::received::{RECEIVED_COUNTERS, RECEIVED_MEANS};
use super::writer::{Row, Writer};
use crate::sites::{Share, add_sums, disk_share, memory_share};
use freshet_base::clock::UnixMillis;
use freshet_node::channels::Quality;
use freshet_node::node::Node;
use freshet_node::site::Site;
use freshet_node::site_stats::SiteSums;
use std::fmt;

const COUNTERS: [Row<SiteSums, u64>; 5] = [
    ("requests", "Requests answered.", |sums| sums.requests),
    ("hits", "Of these, from the cache.", |sums| sums.hits),
    ("errors", "Of these, with a status of 500 and above.", |sums| sums.errors),
    ("body_bytes", "Bytes of bodies sent.", |sums| sums.body_bytes),
    ("hit_body_bytes", "Of these, from the cache.", |sums| sums.hit_body_bytes),
];

/// Sites that have metrics of their own, in the order of the file.
const SITES_MAX: usize = 1_000;
/// What the others are called together.
const OTHERS: &str = "other";

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let snapshot = node.snapshot();
    let mut all: Vec<(&str, SiteSums)> = Vec::new();
    let named = snapshot.sites.all().iter().map(|site| site.name.as_str());
    let named: Vec<&str> = named.filter(|name| !name.is_empty()).collect();
    let mut others = SiteSums::default();
    for (index, name) in named.iter().enumerate() {
        // Where there are others, one of their name is one of them.
        if index < SITES_MAX && (named.len() <= SITES_MAX || *name != OTHERS) {
            let mut sums = SiteSums::default();
            add_sums(node, name, &mut sums);
            all.push((name, sums));
        } else {
            add_sums(node, name, &mut others);
        }
    }
    if all.len() < named.len() {
        all.push((OTHERS, others));
    }
    for (suffix, help, count) in COUNTERS {
        let values = all.iter().map(|(name, sums)| (*name, count(sums)));
        out.counters(&format!("freshet_site_{suffix}"), help, &["site"], values)?;
    }
    for (suffix, help, count) in RECEIVED_COUNTERS {
        let values = all.iter().map(|(name, sums)| (*name, count(&sums.received)));
        out.counters(&format!("freshet_site_{suffix}"), help, &["site"], values)?;
    }
    for (suffix, help, mean) in RECEIVED_MEANS {
        let values = all.iter().map(|(name, sums)| (*name, mean(&sums.received)));
        out.gauges(&format!("freshet_site_{suffix}"), help, &["site"], values)?;
    }
    memory(node, out)?;
    disks(node, out)?;
    players(node, &all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), out)
}

/// What those with a bound have of the memory, and may have.
fn memory(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let help = "Memory of what a site with a bound keeps, whole bodies for those on their way.";
    bounds(node, out, ("memory", help), memory_share)
}

/// The same of the disks.
fn disks(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let help = "What a site with a bound has of the log of all disks.";
    bounds(node, out, ("disk", help), disk_share)
}

fn bounds(
    node: &Node,
    out: &mut Writer<'_>,
    (of, help): (&str, &str),
    share: impl Fn(&Node, &Site) -> Option<Share>,
) -> fmt::Result {
    let snapshot = node.snapshot();
    let shares = snapshot.sites.all().iter().filter_map(|site| {
        let Share { bytes, bytes_max } = share(node, site)?;
        Some((site.name.as_str(), bytes, bytes_max))
    });
    let shares: Vec<_> = shares.take(SITES_MAX).collect();
    let values = shares.iter().map(|(name, bytes, _)| (*name, *bytes as f64));
    out.gauges(&format!("freshet_site_{of}_bytes"), help, &["site"], values)?;
    let values = shares.iter().map(|(name, _, bytes_max)| (*name, *bytes_max as f64));
    out.gauges(&format!("freshet_site_{of}_max_bytes"), "What it may have.", &["site"], values)
}

/// How the players of each say they are doing, of sessions heard of within a minute.
fn players(node: &Node, sites: &[&str], out: &mut Writer<'_>) -> fmt::Result {
    let of_sites = node.shared.sessions.quality_of_sites(sites, UnixMillis::now());
    let rows: [Row<Quality, f64>; 5] = [
        ("players", "Sessions of players heard of within a minute.", |of| of.sessions as f64),
        ("players_starved", "Of these, those that ever said they stood still.", |of| {
            of.starved as f64
        }),
        ("players_bitrate_bits", "Mean bit rate of what they ask for.", |of| {
            of.bitrate_kbps * 1000.0
        }),
        ("players_delivered_bits", "Bits a second of bodies sent to them.", |of| {
            of.delivered_kbps * 1000.0
        }),
        ("players_buffer_seconds", "Mean of what they have buffered.", |of| of.buffer_ms / 1000.0),
    ];
    for (suffix, help, value) in rows {
        let sites = sites.iter().zip(&of_sites);
        let values = sites.flat_map(|(site, streams)| {
            let heard = streams.iter().filter(|(_, quality)| quality.sessions > 0);
            heard.map(move |(stream, quality)| ([*site, *stream], value(quality)))
        });
        out.gauges_by(&format!("freshet_site_{suffix}"), help, &["site", "stream"], values)?;
    }
    Ok(())
}
