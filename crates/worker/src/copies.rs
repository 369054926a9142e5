//! Copying what is asked for often in a group of workers and is in the memory of another.

use crate::errands::Errand;
use crate::worker::Worker;
use freshet_cache::{Copying, Object};
use freshet_site::shares::loan_of;
use freshet_store::limits::PIECE_BYTES_MAX;
use freshet_store::{Body, Next};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::{spawn_local, yield_now};

/// Copies a worker makes at a time. Who asks meanwhile is served from the original.
const COPIES_MAX: u64 = 8;

/// Notes that an object was served, and copies it to the memory of the worker's group where it is in that of
/// another and this is the second time.
pub fn note_use(worker: &Rc<Worker>, object: &Arc<Object>) {
    let (cache, stats) = (&worker.shared.cache, &worker.stats);
    if object.is_copy() {
        stats.hits_of_copies.increment();
        return;
    }
    if !cache.is_of_other(worker.group, object) {
        return;
    }
    stats.hits_of_others.increment();
    let Some(errand) = Errand::begin(&worker.copies, COPIES_MAX) else { return };
    // What a share of the memory lends would be counted there once, however often it is copied.
    if loan_of(object.body()).is_some() {
        return;
    }
    if let Some(copying) = cache.copy_for(worker.group, object) {
        let worker = Rc::clone(worker);
        spawn_local(async move {
            if let Some(body) = copied(&worker, &copying).await
                && copying.finish(body)
            {
                worker.stats.copies.increment();
            }
            drop(errand);
        });
    }
}

/// The same bytes in the memory of the worker's group; `None` where it has no room for them.
async fn copied(worker: &Worker, copying: &Copying) -> Option<Arc<Body>> {
    let from = copying.original().body();
    let body = Body::new(worker.own_memory(), from.total());
    body.accompany(from);
    let mut writer = body.writer(0, from.total());
    // In transit it would be no object.
    writer.set_allow_transit(false);
    let mut reader = from.reader(..);
    loop {
        match reader.next(PIECE_BYTES_MAX as usize).await {
            Next::Data(lease) => writer.write(&lease).await.ok()?,
            Next::End => break,
            // It left meanwhile.
            Next::Hole(_) | Next::Failed(_) => return None,
        }
        yield_now().await;
    }
    writer.finish().ok()?;
    Some(body)
}
