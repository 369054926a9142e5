//! Reading the bytes of an object from its disk.

use freshet_disk::limits::IO_TIMEOUT;
use freshet_disk::{PartRead, ReadError, Stored};
use freshet_store::{Body, BodyWriter, Bringing, Source, SourceError};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Reads under way for one reader.
const READS_AHEAD: usize = 4;
/// How many parts make up what a reader in transit may have ahead of it: one is read from while others come.
const PARTS_AHEAD: u64 = 4;
/// The longest time a part may take before it is asked from elsewhere.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The same where nobody else can be asked: then the disk counts as hanging.
const READ_TIMEOUT_ALONE: Duration = IO_TIMEOUT;
/// The longest time memory is waited for, as an origin would be for a first byte.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);

/// An object on a disk.
#[derive(Debug)]
pub(super) struct OnDisk(pub(super) Stored);

impl Source for OnDisk {
    fn total(&self) -> u64 {
        self.0.total
    }

    fn bring<'a>(
        &'a self,
        writer: &'a mut BodyWriter,
        range: Range<u64>,
        is_alone: bool,
    ) -> Bringing<'a> {
        Box::pin(async move {
            let read = read(writer, &self.0, range, is_alone).await;
            if let Err(SourceError::Late) = read {
                self.0.volume().note_late();
            }
            read
        })
    }

    fn forget(&self) {
        self.0.forget();
    }
}

/// What the disk does not give.
fn lost(error: ReadError) -> SourceError {
    SourceError::Lost(error.to_string().into())
}

/// Begins to read where memory is short: what the body's readers have behind them comes free from
/// now on, so that they all go on, if slowly.
async fn in_turn(
    body: &Arc<Body>,
    source: &Stored,
    range: Range<u64>,
) -> Result<PartRead, SourceError> {
    body.enter_transit();
    let begun = source.begin_in_turn(range.start, range.end, body.arena());
    let begun =
        tokio::time::timeout(MEMORY_TIMEOUT, begun).await.map_err(|_| SourceError::NoMemory)?;
    begun.map_err(lost)
}

async fn read(
    writer: &mut BodyWriter,
    source: &Stored,
    range: Range<u64>,
    is_alone: bool,
) -> Result<(), SourceError> {
    let limit = match is_alone {
        true => READ_TIMEOUT_ALONE,
        false => source.volume().patience(READ_TIMEOUT).ok_or(SourceError::Late)?,
    };
    let arena = Arc::clone(writer.body().arena());
    let mut under_way: VecDeque<PartRead> = VecDeque::new();
    let mut next = range.start;
    while writer.position() < range.end {
        if under_way.is_empty() {
            // Memory that is read into is taken from now on, whether the reader comes on or not.
            writer.turn().await.map_err(SourceError::Body)?;
        }
        while under_way.len() < READS_AHEAD && next < range.end {
            let coming_bytes = next - writer.position();
            let part_bytes_max = match writer.ahead_bytes() {
                Some(ahead_bytes) if ahead_bytes <= coming_bytes && coming_bytes > 0 => break,
                Some(ahead_bytes) => ahead_bytes / PARTS_AHEAD,
                None => u64::MAX,
            };
            match source.begin(next, range.end, part_bytes_max, &arena) {
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
                Err(error) => return Err(lost(error)),
            }
        }
        let Some(part) = under_way.pop_front() else { return Err(lost(ReadError::Miss)) };
        let finished = tokio::time::timeout(limit, part.finish(&arena)).await;
        let lease = finished.map_err(|_| SourceError::Late)?.map_err(lost)?;
        writer.adopt(&lease).await.map_err(SourceError::Body)?;
    }
    Ok(())
}
