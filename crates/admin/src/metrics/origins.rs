//! Metrics of origins, by the name the configuration gives each.

use super::writer::Writer;
use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_node::snapshot::Snapshot;
use freshet_origin::Origin;
use freshet_origin::error::FailureKind;
use freshet_origin::health::Health;
use freshet_origin::stats::OriginStats;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Name, help and place of a figure.
type Row = (&'static str, &'static str, fn(&OriginStats) -> &SharedCounter);

const COUNTERS: [Row; 11] = [
    ("requests", "Exchanges with the origin begun.", |stats| &stats.requests),
    ("responses", "Answers of the origin.", |stats| &stats.responses),
    ("connects", "Connections opened.", |stats| &stats.connects),
    ("reuses", "Exchanges on a connection used before.", |stats| &stats.reuses),
    ("retries", "Exchanges begun again because a connection was dead.", |stats| &stats.retries),
    ("waits", "Exchanges that waited for a connection.", |stats| &stats.waits),
    ("waits_in_vain", "Exchanges that waited for a connection and got none in time.", |stats| {
        &stats.waits_in_vain
    }),
    ("bytes_sent", "Bytes sent to the origin.", |stats| &stats.bytes_sent),
    ("bytes_received", "Bytes received from the origin.", |stats| &stats.bytes_received),
    ("probes", "Health checks sent.", |stats| &stats.probes),
    ("probe_failures", "Health checks that failed.", |stats| &stats.probe_failures),
];

const GAUGES: [Row; 3] = [
    ("in_flight", "Exchanges under way.", |stats| &stats.in_flight),
    ("connections_open", "Connections open.", |stats| &stats.open),
    ("connections_idle", "Connections idle.", |stats| &stats.idle),
];

const SECONDS: [Row; 2] = [
    ("first_byte_seconds", "Time to the first byte, summed over answers.", |stats| {
        &stats.first_byte_us_sum
    }),
    ("connect_seconds", "Time to connect, summed over connections.", |stats| &stats.connect_us_sum),
];

/// Origins that have metrics of their own, in the order of the file: each has some thirty, and a
/// node may have ten thousand sites.
const ORIGINS_MAX: usize = 1_000;

/// An origin and what it is called.
type Named<'a> = (Cow<'a, str>, &'a Arc<Origin>);

pub(super) fn write(snapshot: &Snapshot, out: &mut Writer<'_>) -> fmt::Result {
    let origins: &[Named<'_>] = &snapshot.sites.origins().take(ORIGINS_MAX).collect::<Vec<_>>();
    let named = |row: fn(&OriginStats) -> &SharedCounter| {
        origins.iter().map(move |(name, origin)| (&**name, row(&origin.stats).value()))
    };
    for (suffix, help, row) in COUNTERS {
        out.counters(&format!("freshet_origin_{suffix}"), help, &["origin"], named(row))?;
    }
    for (suffix, help, row) in GAUGES {
        let values = named(row).map(|(name, value)| (name, value as f64));
        out.gauges(&format!("freshet_origin_{suffix}"), help, &["origin"], values)?;
    }
    for (suffix, help, row) in SECONDS {
        let values = named(row).map(|(name, value)| (name, value as f64 / 1e6));
        out.seconds_by(&format!("freshet_origin_{suffix}"), help, &["origin"], values)?;
    }
    health(origins, out)?;
    failures(origins, out)
}

fn health(origins: &[Named<'_>], out: &mut Writer<'_>) -> fmt::Result {
    let now = UnixMillis::now();
    let share = |is: fn(Health) -> bool| {
        origins.iter().map(move |(name, origin)| {
            (&**name, f64::from(u8::from(is(origin.health.health(now)))))
        })
    };
    let up = share(|health| health != Health::Down);
    out.gauges("freshet_origin_up", "1 where the origin is asked, 0 where not.", &["origin"], up)?;
    let suspect = share(|health| health == Health::Suspect);
    let help = "1 while the origin is asked last because connections failed.";
    out.gauges("freshet_origin_suspect", help, &["origin"], suspect)?;
    let changes = origins.iter().map(|(name, origin)| (&**name, origin.health.changes()));
    let help = "Changes of the origin's health.";
    out.counters("freshet_origin_health_changes", help, &["origin"], changes)
}

/// Failures by kind; those that never happened are left out, as there are many.
fn failures(origins: &[Named<'_>], out: &mut Writer<'_>) -> fmt::Result {
    let help = "Exchanges with the origin that failed, by kind.";
    let values = origins.iter().flat_map(|(name, origin)| {
        FailureKind::all().filter_map(move |kind| {
            let count = origin.stats.failures(kind);
            (count > 0).then(|| ([("origin", &**name), ("kind", kind.label())], count))
        })
    });
    out.counters_by("freshet_origin_failures", help, &["origin", "kind"], values)
}
