//! The disks of a node: what goes there, what is found there, and how its bytes come back.
//!
//! A look-up that finds nothing in memory asks the disks' indexes, which are in memory too. What a
//! disk has becomes an object like any other, whose body knows where its bytes are: what a response
//! needs is read when it needs it, and what the disk cannot give is asked from an origin by range.

mod intake;
mod invalidation;
mod keeper;
pub mod meta;
mod promote;
mod source;

pub use invalidation::Purged;
pub use keeper::DiskKeeper;

use freshet_base::clock::UnixMillis;
use freshet_config::Settings;
use freshet_device::ring::Ring;
use freshet_disk::DiskError;
use freshet_disk::{DiskSpec, Disks, Seat, Takes};
use freshet_net::descriptor::Readable;
use freshet_net::topology::{self, Topology};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

/// How long reads that wait for more to be told to the kernel with them wait at most.
const QUEUED_MAX: Duration = Duration::from_millis(1);

/// Opens the disks of a configuration.
///
/// # Errors
/// Which one cannot be used, and why.
pub fn open(
    settings: &Settings,
    takes_over: bool,
) -> Result<Option<Arc<Disks>>, (String, DiskError)> {
    if settings.stores.is_empty() {
        return Ok(None);
    }
    Disks::open(specs(settings).collect(), now_us, takes_over, &near_drives()).map(Some)
}

/// Has the threads of a disk run on the NUMA node of its controller, where the machine has several.
fn near_drives() -> Seat {
    let machine = Topology::read();
    Arc::new(move |path: &Path| {
        let cpus = topology::node_of_drive(path).map(|node| machine.cpus_of(node));
        let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) else { return };
        if let Err(error) = topology::pin_current_thread(&cpus) {
            tracing::warn!(disk = %path.display(), %error, "a disk is not served on its NUMA node");
        }
    })
}

/// The disks of a configuration.
pub fn specs(settings: &Settings) -> impl Iterator<Item = DiskSpec> {
    settings.stores.iter().map(|store| DiskSpec {
        path: store.path.clone(),
        bytes: store.bytes,
        weight: store.weight,
        drive_writes: store.drive_writes,
        object_bytes: store.object_bytes,
        keeps: store.keep_used,
        discard: store.discard,
        write_life: store.write_life,
        takes: Takes {
            class: store.class.as_str().into(),
            bytes: store.object_bytes_min..=store.object_bytes_max,
            lifetime_min: store.ttl_min,
        },
    })
}

/// Microseconds of the wall clock.
fn now_us() -> u64 {
    UnixMillis::now().0.saturating_mul(1000)
}

/// Gives this worker a ring for its disks, and looks after it. Without one, threads serve them.
pub async fn drive() {
    let ring = match Ring::install() {
        Ok(ring) => ring,
        Err(error) => {
            tracing::warn!(%error, "no io_uring: disks are read by threads");
            return;
        }
    };
    let readable = ring.readable().and_then(Readable::new);
    let Ok(readable) = readable else { return };
    loop {
        let turn = std::future::poll_fn(|cx| {
            ring.set_waker(cx.waker());
            loop {
                ring.reap();
                ring.submit_due();
                if ready!(readable.poll_became_readable(cx)).is_err() {
                    return Poll::Ready(());
                }
            }
        });
        if ring.queued() == 0 {
            wait_for_queue(&ring, turn).await;
        } else {
            let _ = tokio::time::timeout(QUEUED_MAX, turn).await;
            ring.submit();
        }
    }
}

/// Runs turns until something stays queued that has to be told within [`QUEUED_MAX`].
async fn wait_for_queue(ring: &Rc<Ring>, turn: impl Future<Output = ()>) {
    let mut turn = std::pin::pin!(turn);
    std::future::poll_fn(|cx| {
        let polled = turn.as_mut().poll(cx);
        if ring.queued() > 0 { Poll::Ready(()) } else { polled }
    })
    .await;
}
