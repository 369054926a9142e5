//! Reading the bytes of an object from its disk, and from an origin what the disk does not give.

use crate::delivery::StoredBody;
use crate::fetch::range::Filler;
use freshet_store::disk::limits::IO_TIMEOUT;
use freshet_store::disk::{PartRead, ReadError, Stored};
use freshet_store::{Body, BodyError, BodyWriter};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_local;

/// How much is read for one reader at a time: ahead of a slow client lie 4 MiB at most.
const WINDOW_BYTES: u64 = 4 << 20;
/// Reads under way for one reader.
const READS_AHEAD: usize = 4;
/// The longest time a part may take before it is asked from elsewhere.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The same where nobody else can be asked: then the disk counts as hanging.
const READ_TIMEOUT_ALONE: Duration = IO_TIMEOUT;
/// The longest time memory is waited for, as an origin would be for a first byte.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);

/// A body for bytes `range` of `body`. What is longer than memory keeps gets a body of its own that
/// is let go behind its reader.
pub(crate) fn response_body(
    body: &Arc<Body>,
    range: Range<u64>,
    filler: Option<Filler>,
    kept_bytes_max: u64,
) -> StoredBody {
    match (body.source(), body.total()) {
        (Some(source), Some(total)) if total > kept_bytes_max => {
            let passing = Body::transit(body.arena(), Some(total));
            passing.set_source(source.clone());
            StoredBody::new(&passing, range, filler)
        }
        _ => StoredBody::new(body, range, filler),
    }
}

/// Begins to read the front of a hole from the body's disk; its bytes show up in the body. False
/// where the body is on no disk.
pub(crate) fn fill(body: &Arc<Body>, hole: &Range<u64>, filler: Option<&Filler>) -> bool {
    let Some(source) = body.source() else { return false };
    let end = hole.end.min(source.total).min(hole.start + WINDOW_BYTES);
    if end <= hole.start {
        return false;
    }
    // Registered before anything is waited for, so that the reader waits for it.
    let writer = body.writer(hole.start, Some(end));
    spawn_local(run(writer, source.clone(), hole.start..end, filler.cloned()));
    true
}

async fn run(mut writer: BodyWriter, source: Stored, range: Range<u64>, filler: Option<Filler>) {
    match read(&mut writer, &source, range.clone(), filler.is_some()).await {
        Ok(()) => {
            let _ = writer.finish();
            return;
        }
        Err(Ended::Body(error)) => return writer.fail(error),
        Err(Ended::Late) => {
            source.volume().note_late();
            // Who asks again is not to be sent here again.
            if filler.is_none() {
                source.forget();
            }
        }
        // It is there, and somebody else may have the memory for it.
        Err(Ended::Memory) if filler.is_none() => return writer.fail(BodyError::NoMemory),
        Err(Ended::Memory) => {}
        Err(Ended::Disk(error)) => {
            tracing::debug!(%error, "a disk did not give what it had");
            source.forget();
        }
    }
    let rest = writer.position()..range.end;
    match filler {
        Some(filler) => filler.bring(writer, rest).await,
        None => writer.fail(BodyError::OriginFailed("its disk failed".into())),
    }
}

/// Why reading ended early.
enum Ended {
    Body(BodyError),
    Disk(ReadError),
    /// The disk did not answer in time.
    Late,
    /// No memory came free in time.
    Memory,
}

/// Begins to read where memory is short: what the body's readers have behind them comes free from
/// now on, so that they all go on, if slowly.
async fn in_turn(body: &Arc<Body>, source: &Stored, range: Range<u64>) -> Result<PartRead, Ended> {
    body.enter_transit();
    let begun = source.begin_in_turn(range.start, range.end, body.arena());
    let begun = tokio::time::timeout(MEMORY_TIMEOUT, begun).await.map_err(|_| Ended::Memory)?;
    begun.map_err(Ended::Disk)
}

async fn read(
    writer: &mut BodyWriter,
    source: &Stored,
    range: Range<u64>,
    has_other: bool,
) -> Result<(), Ended> {
    let limit = match has_other {
        true => source.volume().patience(READ_TIMEOUT).ok_or(Ended::Late)?,
        false => READ_TIMEOUT_ALONE,
    };
    let arena = Arc::clone(writer.body().arena());
    let mut under_way: VecDeque<PartRead> = VecDeque::new();
    let mut next = range.start;
    while writer.position() < range.end {
        while under_way.len() < READS_AHEAD && next < range.end {
            match source.begin(next, range.end, &arena) {
                Ok(part) => {
                    next = part.end();
                    under_way.push_back(part);
                }
                // What is under way may be all the memory there is.
                Err(ReadError::NoMemory) if !under_way.is_empty() => break,
                Err(ReadError::NoMemory) => {
                    let part = in_turn(writer.body(), source, next..range.end).await?;
                    next = part.end();
                    under_way.push_back(part);
                    break;
                }
                Err(error) => return Err(Ended::Disk(error)),
            }
        }
        let Some(part) = under_way.pop_front() else { return Err(Ended::Disk(ReadError::Miss)) };
        let finished = tokio::time::timeout(limit, part.finish(&arena)).await;
        let lease = finished.map_err(|_| Ended::Late)?.map_err(Ended::Disk)?;
        writer.adopt(&lease).await.map_err(Ended::Body)?;
    }
    Ok(())
}
