//! Metrics of requests and of the process.

use super::received::{RECEIVED_COUNTERS, RECEIVED_MEANS};
use super::writer::{Buckets, Row, Writer};
use crate::process::Process;
use crate::stats::CLASSES;
use freshet_base::clock::UnixMillis;
use freshet_base::histogram::Totals;
use freshet_node::channels::Quality;
use freshet_node::exemplars::FIRST_BYTE_BUCKETS_US as BUCKETS_US;
use freshet_node::node::Node;
use freshet_node::received::ReceivedSums;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let sums = node.sums();
    for (name, help, value) in &sums.counters {
        out.counter(&format!("freshet_{name}"), help, *value)?;
    }
    let statuses = CLASSES.into_iter().zip(sums.statuses).skip(1);
    out.counters("freshet_responses", "Responses by class of status.", &["class"], statuses)?;
    first_bytes(&sums.hit_first_byte_us, &sums.miss_first_byte_us, out)?;
    let help = "Time from an origin's answer to a held request for news of a playlist to the first byte at each \
                player that waited.";
    out.histogram("freshet_media_news_seconds", help, buckets(&sums.news_us))?;
    let open = node.shared.connections.load(Relaxed);
    out.gauge("freshet_connections_open", "Client connections open.", open as f64)?;
    let draining = f64::from(u8::from(node.is_draining()));
    out.gauge("freshet_draining", "1 while the node is about to end.", draining)?;
    let workers = node.shared.stats.len() as f64;
    out.gauge("freshet_workers", "Worker threads.", workers)?;
    let uptime = UnixMillis::now().since(node.started).as_secs_f64();
    out.gauge("freshet_uptime_seconds", "Time since the node started.", uptime)?;
    let position = node.shared.applied.position();
    let value = position.iter().map(|position| (position.stream(), position.sequence() as f64));
    let help = "The last purge carried out here, in the order the nodes around this one follow.";
    out.gauges("freshet_applied_sequence", help, &["stream"], value)?;
    let numbers = node.shared.versions.numbers().map(|numbers| {
        [("kept", numbers.kept), ("trying", numbers.trying), ("refused", numbers.refused)]
    });
    let values = numbers.into_iter().flatten().map(|(state, number)| (state, number as f64));
    let help = "Numbers of the versions of the fleet's configuration that the node keeps, tries and has \
                refused last; 0 is none.";
    out.gauges("freshet_config_version", help, &["state"], values)?;
    players(node, out)?;
    received(node, out)?;
    players_by_network(node, out)?;
    players_by_rendition(node, out)?;
    let version = [(env!("CARGO_PKG_VERSION"), 1.0)];
    out.gauges("freshet_build_info", "The program; always 1.", &["version"], version)?;
    process(node, out)
}

/// How players say they are doing, of sessions heard of within a minute.
fn players(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let all = node.shared.sessions.quality(UnixMillis::now());
    let all: Vec<_> = all.iter().map(|(stream, of)| (*stream, of)).collect();
    players_of("freshet", &["stream"], &all, out)
}

/// The same by network, where there is a database of these.
fn players_by_network(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let all = node.shared.sessions.quality_by_network(UnixMillis::now());
    let is_known = all.iter().any(|(name, _)| name != "unknown");
    let all: Vec<_> =
        all.iter().filter(|_| is_known).map(|(name, of)| (name.as_str(), of)).collect();
    players_of("freshet_network", &["network"], &all, out)
}

/// The same by rendition.
fn players_by_rendition(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let all = node.shared.sessions.quality_by_rendition(UnixMillis::now());
    let heard = all.iter().filter(|(_, of)| of.sessions > 0);
    let heard: Vec<_> = heard.map(|(name, of)| (*name, of)).collect();
    players_of("freshet_rendition", &["rendition"], &heard, out)
}

fn players_of(
    prefix: &str,
    label: &'static [&'static str; 1],
    all: &[(&str, &Quality)],
    out: &mut Writer<'_>,
) -> fmt::Result {
    let rows: [Row<Quality, f64>; 8] = [
        ("players", "Sessions of players heard of within a minute.", |of| of.sessions as f64),
        ("players_starved", "Of these, those that ever said they stood still.", |of| {
            of.starved as f64
        }),
        ("players_starved_ratio", "Share of their time they stood still.", |of| of.starved_ratio),
        ("players_bitrate_bits", "Mean bit rate of what they ask for.", |of| {
            of.bitrate_kbps * 1000.0
        }),
        ("players_delivered_bits", "Bits a second of bodies sent to them.", |of| {
            of.delivered_kbps * 1000.0
        }),
        ("players_buffer_seconds", "Mean of what they have buffered.", |of| of.buffer_ms / 1000.0),
        ("players_latency_seconds", "Mean distance from the event.", |of| of.latency_ms / 1000.0),
        ("players_start_seconds", "Mean time to the first picture.", |of| of.start_up_ms / 1000.0),
    ];
    for (suffix, help, value) in rows {
        let values = all.iter().map(|(name, of)| (*name, value(of)));
        out.gauges(&format!("{prefix}_{suffix}"), help, label, values)?;
    }
    Ok(())
}

/// What players say of responses they got, of all sites.
fn received(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let mut sums = ReceivedSums::default();
    node.shared.stats.iter().for_each(|worker| worker.received.add_to(&mut sums));
    for (suffix, help, count) in RECEIVED_COUNTERS {
        out.counter(&format!("freshet_{suffix}"), help, count(&sums))?;
    }
    for (suffix, help, mean) in RECEIVED_MEANS {
        out.gauge(&format!("freshet_{suffix}"), help, mean(&sums))?;
    }
    Ok(())
}

/// One histogram by result, from buckets far finer than those written.
fn first_bytes(hit: &Totals, miss: &Totals, out: &mut Writer<'_>) -> fmt::Result {
    let help = "Time from the head of a request to the first byte of its response.";
    let values = [("hit", hit), ("miss", miss)]
        .map(|(result, totals)| ([("result", result)], buckets(totals)));
    out.histograms("freshet_first_byte_seconds", help, &["result"], values)
}

/// In seconds.
fn buckets(totals: &Totals) -> Buckets {
    let mut before = 0;
    let mut buckets = Vec::with_capacity(BUCKETS_US.len() + 1);
    for upper_us in BUCKETS_US {
        let up_to = totals.count_up_to(upper_us);
        buckets.push((upper_us as f64 / 1e6, up_to - before));
        before = up_to;
    }
    buckets.push((f64::INFINITY, totals.count() - before));
    (totals.sum() as f64 / 1e6, totals.count(), buckets)
}

fn process(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let process = Process::read();
    let start = node.started.0 as f64 / 1000.0;
    out.gauge("process_start_time_seconds", "When the node started, since 1970.", start)?;
    let help = "Processor time, user and system.";
    out.seconds("process_cpu_seconds", help, process.cpu_seconds)?;
    let gauges = [
        ("process_resident_memory_bytes", "Memory in RAM.", process.resident_bytes),
        ("process_open_fds", "Open file descriptors.", process.open_fds),
        ("process_max_fds", "File descriptors the process may open.", process.fds_max),
    ];
    for (name, help, value) in gauges {
        out.gauge(name, help, value.map(|value| value as f64))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::histogram::Histogram;

    #[test]
    fn buckets_hold_each_value_once() {
        let histogram = Histogram::default();
        for value in [0, 49, 70, 400, 3_000_000, 90_000_000] {
            histogram.record(value);
        }
        let mut totals = Totals::default();
        histogram.add_to(&mut totals);
        let (_, count, buckets) = buckets(&totals);
        assert_eq!(count, 6);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 6);
        assert_eq!(buckets[0], (0.000_05, 2));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
    }
}
