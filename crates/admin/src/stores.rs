//! Disks: how they are, what they hold, how they wear.

use crate::context::Context;
use axum::Json;
use axum::extract::State;
use freshet_disk::Disk;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A disk.
#[derive(Serialize, ToSchema)]
pub(crate) struct StoreView {
    /// File or device.
    path: String,
    /// What tells the store from others, at whatever path it is; `null` where it was not open yet. Its content goes with it;
    /// `class`, `drive_writes` and what else is configured go with the path.
    id: Option<String>,
    /// The NUMA node that the drive's controller is attached to, where the machine says so. Threads of the store run
    /// there.
    numa_node: Option<usize>,
    /// `healthy`, `full` (its file system has no space for what is new; it is read), `suspect` (it
    /// answers late: it gets nothing new, and what it does not give in time is fetched), `offline` or `stopped`.
    health: &'static str,
    /// Why it is not healthy.
    why: Option<String>,
    /// Bytes for content.
    log_bytes: u64,
    /// Bytes of what can be found.
    live_bytes: u64,
    /// Records: objects, and parts of long ones.
    records: u64,
    /// Memory of its index.
    index_bytes: u64,
    /// Segments given up because a part of them failed.
    segments_retired: u32,
    /// Bytes that wait to be written.
    queued_bytes: u64,
    /// Bytes written since it was formatted.
    written_bytes: u64,
    /// Of these, objects that were let in.
    written_admitted_bytes: u64,
    /// Objects written again because they were used.
    written_kept_bytes: u64,
    /// What fills up blocks.
    written_padding_bytes: u64,
    /// Its own bookkeeping.
    written_metadata_bytes: u64,
    /// Bytes the drive was told it need not keep, since it was opened.
    discarded_bytes: u64,
    /// Part of its write budget that the last day used.
    pressure: f64,
    /// How long it lasts at this rate.
    life_left_days: Option<f64>,
    /// Records left out because the index was full and could not grow.
    index_dropped: u64,
    /// Objects not written because nothing showed that they will be asked for again.
    refused_unproven: u64,
    /// Objects not written because of the write budget.
    refused_budget: u64,
    /// Objects not written because their site has all that it may have of the disks.
    refused_share: u64,
    /// Objects not written because too much waited or the disk was not healthy.
    refused_busy: u64,
    /// Reads that failed since it was opened.
    read_errors: u64,
    /// Writes that failed.
    write_errors: u64,
    /// Writes there was no space for.
    no_space: u64,
    /// Reads that took too long.
    timeouts: u64,
    /// Reads of the disk while it was suspect that were not waited for.
    hedges: u64,
    /// How long a read took in the last second, on the average; 0 where there was none.
    read_ms: f64,
    /// Times it was left since the node started.
    left: u64,
    /// Records with a wrong checksum.
    damaged: u64,
    /// Objects found.
    hits: u64,
    /// Bytes read for clients.
    read_bytes: u64,
    /// Objects of which new words were written after a validation, and no bytes.
    renewals: u64,
}

/// Lists the disks.
#[utoipa::path(get, path = "/v1/stores", tag = "look", security(("token" = [])),
    responses((status = OK, body = [StoreView], description = "The stores")))]
pub(crate) async fn stores(State(context): State<Arc<Context>>) -> Json<Vec<StoreView>> {
    let disks = context.node.shared.disks.as_ref();
    Json(
        disks
            .map(|disks| disks.disks().iter().map(|disk| view(disk)).collect())
            .unwrap_or_default(),
    )
}

pub(crate) fn view(disk: &Disk) -> StoreView {
    let stats = disk.stats();
    let volume = stats.volume.unwrap_or_default();
    let open = disk.volume();
    let counts = open.as_ref().map(|volume| volume.counts());
    let count = |of: fn(&freshet_disk::VolumeCounts) -> u64| counts.map_or(0, of);
    StoreView {
        path: stats.path.display().to_string(),
        id: disk.id(),
        numa_node: freshet_net::topology::node_of_drive(&stats.path),
        health: stats.health.word(),
        why: stats.health.why().map(str::to_owned),
        log_bytes: volume.log_bytes,
        live_bytes: volume.live_bytes,
        records: volume.entries,
        index_bytes: volume.index_bytes,
        segments_retired: volume.segments_retired,
        queued_bytes: stats.queued_bytes,
        written_bytes: volume.written.total(),
        written_admitted_bytes: volume.written.admitted_bytes,
        written_kept_bytes: volume.written.reinserted_bytes,
        written_padding_bytes: volume.written.padding_bytes,
        written_metadata_bytes: volume.written.metadata_bytes,
        discarded_bytes: count(|counts| counts.discarded_bytes.value()),
        pressure: stats.pressure,
        life_left_days: stats.life_left.map(|left| left.as_secs_f64() / 86_400.0),
        index_dropped: count(|counts| counts.index_dropped.value()),
        refused_unproven: disk.counts.refused_unproven.value(),
        refused_budget: disk.counts.refused_budget.value(),
        refused_share: disk.counts.refused_share.value(),
        refused_busy: disk.counts.refused_busy.value(),
        read_errors: count(|counts| counts.read_errors.value()),
        write_errors: count(|counts| counts.write_errors.value()),
        no_space: count(|counts| counts.no_space.value()),
        timeouts: count(|counts| counts.timeouts.value()),
        hedges: count(|counts| counts.hedges.value()),
        read_ms: stats.read_time.as_secs_f64() * 1e3,
        left: disk.counts.left.value(),
        damaged: count(|counts| counts.damaged.value()),
        hits: count(|counts| counts.hits.value()),
        read_bytes: count(|counts| counts.read_bytes.value()),
        renewals: count(|counts| counts.renewals_written.value()),
    }
}

/// A figure of a store: its name, what it is, and which.
type Figure = (&'static str, &'static str, fn(&StoreView) -> f64);

/// What is measured of a store, by name and meaning.
pub(crate) const FIGURES: [Figure; 28] = [
    ("healthy", "Whether the disk is read and written.", |view| view.is("healthy")),
    ("suspect", "Whether the disk answers late and is not written.", |view| view.is("suspect")),
    ("log_bytes", "Bytes for content.", |view| view.log_bytes as f64),
    ("live_bytes", "Bytes of what can be found.", |view| view.live_bytes as f64),
    ("records", "Records in the index.", |view| view.records as f64),
    ("index_bytes", "Memory of the index.", |view| view.index_bytes as f64),
    ("queued_bytes", "Bytes that wait to be written.", |view| view.queued_bytes as f64),
    ("written_admitted_bytes", "Bytes written of new objects.", |view| {
        view.written_admitted_bytes as f64
    }),
    ("written_kept_bytes", "Bytes written again of used objects.", |view| {
        view.written_kept_bytes as f64
    }),
    ("written_padding_bytes", "Bytes written to fill up blocks.", |view| {
        view.written_padding_bytes as f64
    }),
    ("written_metadata_bytes", "Bytes written of bookkeeping.", |view| {
        view.written_metadata_bytes as f64
    }),
    ("discarded_bytes", "Bytes the drive was told it need not keep.", |view| {
        view.discarded_bytes as f64
    }),
    ("pressure", "Part of the write budget that the last day used.", |view| view.pressure),
    ("index_dropped", "Records that a full index left out.", |view| view.index_dropped as f64),
    ("refused_unproven", "Objects nothing showed to be asked for again.", |view| {
        view.refused_unproven as f64
    }),
    ("refused_budget", "Objects above the write budget.", |view| view.refused_budget as f64),
    ("refused_share", "Objects of sites that have all they may have of the disks.", |view| {
        view.refused_share as f64
    }),
    ("refused_busy", "Objects the disk could not keep up with.", |view| view.refused_busy as f64),
    ("read_errors", "Reads that failed.", |view| view.read_errors as f64),
    ("write_errors", "Writes that failed.", |view| view.write_errors as f64),
    ("no_space", "Writes there was no space for.", |view| view.no_space as f64),
    ("timeouts", "Reads that took too long.", |view| view.timeouts as f64),
    ("hedges", "Reads of a suspect disk not waited for.", |view| view.hedges as f64),
    ("read_seconds", "Mean time of a read in the last second.", |view| view.read_ms / 1e3),
    ("left", "Times the disk was left.", |view| view.left as f64),
    ("damaged", "Records with a wrong checksum.", |view| view.damaged as f64),
    ("read_bytes", "Bytes read for clients.", |view| view.read_bytes as f64),
    ("renewals", "Validations that were noted without bytes.", |view| view.renewals as f64),
];

impl StoreView {
    /// 1 where its health is this.
    fn is(&self, health: &str) -> f64 {
        u8::from(self.health == health).into()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Which it is, once that was to be seen.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}
