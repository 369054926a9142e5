//! Bringing what a body lacks from its source, and from an origin what that does not give.

use super::range::Filler;
use super::stored::StoredBody;
use freshet_store::{Body, BodyError, BodyWriter, Source, SourceError};
use std::ops::Range;
use std::sync::Arc;
use tokio::task::spawn_local;

/// How much is brought for one reader at a time: ahead of a slow client lie 4 MiB at most.
const WINDOW_BYTES: u64 = 4 << 20;

/// A body for bytes `range` of `body`. What is longer than memory keeps gets a body of its own that
/// is let go behind its reader.
#[inline]
pub fn response_body(
    body: &Arc<Body>,
    range: Range<u64>,
    filler: Option<Filler>,
    kept_bytes_max: u64,
) -> StoredBody {
    match (body.source(), body.total()) {
        (Some(source), Some(total)) if total > kept_bytes_max => {
            let passing = Body::transit(body.arena(), Some(total));
            passing.set_source(Arc::clone(source));
            StoredBody::new(&passing, range, filler)
        }
        _ => StoredBody::new(body, range, filler),
    }
}

/// Begins to bring the front of a hole from the body's source; its bytes show up in the body. False
/// where the body has none.
pub fn fill(body: &Arc<Body>, hole: &Range<u64>, filler: Option<&Filler>) -> bool {
    let Some(source) = body.source() else { return false };
    let end = hole.end.min(source.total()).min(hole.start + WINDOW_BYTES);
    if end <= hole.start {
        return false;
    }
    // Registered before anything is waited for, so that the reader waits for it.
    let writer = body.writer(hole.start, Some(end));
    spawn_local(run(writer, Arc::clone(source), hole.start..end, filler.cloned()));
    true
}

async fn run(
    mut writer: BodyWriter,
    source: Arc<dyn Source>,
    range: Range<u64>,
    filler: Option<Filler>,
) {
    match source.bring(&mut writer, range.clone(), filler.is_none()).await {
        Ok(()) => {
            let _ = writer.finish();
            return;
        }
        Err(SourceError::Body(error)) => return writer.fail(error),
        // Who asks again is not to be sent here again.
        Err(SourceError::Late) if filler.is_none() => source.forget(),
        // It is there, and somebody else may have the memory for it.
        Err(SourceError::NoMemory) if filler.is_none() => return writer.fail(BodyError::NoMemory),
        Err(SourceError::Late | SourceError::NoMemory) => {}
        Err(SourceError::Lost(why)) => {
            tracing::debug!(%why, "a source did not give what it had");
            source.forget();
        }
    }
    let rest = writer.position()..range.end;
    match filler {
        Some(filler) => filler.bring(writer, rest).await,
        None => writer.fail(BodyError::OriginFailed("what kept it failed".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_store::{Arena, Bringing};
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    /// The memory of another node, as far as it goes.
    #[derive(Debug)]
    struct Peer {
        bytes: Vec<u8>,
        has: usize,
        is_forgotten: AtomicBool,
    }

    impl Source for Peer {
        fn total(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn bring<'a>(
            &'a self,
            writer: &'a mut BodyWriter,
            range: Range<u64>,
            _: bool,
        ) -> Bringing<'a> {
            Box::pin(async move {
                while writer.position() < range.end {
                    let at = writer.position() as usize;
                    let rest = self.bytes.get(at..self.has).unwrap_or_default();
                    if rest.is_empty() {
                        return Err(SourceError::Lost("it went away".into()));
                    }
                    let room = writer.reserve(rest.len()).await.map_err(SourceError::Body)?;
                    let count = room.len().min(rest.len());
                    room[..count].copy_from_slice(&rest[..count]);
                    writer.commit(count);
                }
                Ok(())
            })
        }

        fn forget(&self) {
            self.is_forgotten.store(true, SeqCst);
        }
    }

    /// What a response of a body gives whose bytes are at a peer that has the first `has` of them,
    /// whether it breaks off, and whether anybody is sent to that peer again.
    fn read(has: usize) -> (Vec<u8>, bool, bool) {
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        let peer = Arc::new(Peer { bytes, has, is_forgotten: AtomicBool::new(false) });
        let arena = Arena::new(16 << 20).expect("there is memory");
        let body = Body::new(&arena, Some(peer.total()));
        body.set_source(Arc::<Peer>::clone(&peer));
        let runtime = freshet_worker::worker::runtime().expect("there are descriptors");
        let (mut got, mut broke_off) = (Vec::new(), false);
        runtime.block_on(async {
            let mut stored = response_body(&body, 0..peer.total(), None, u64::MAX);
            loop {
                match poll_fn(|cx| stored.poll_next(cx, usize::MAX)).await {
                    Ok(Some(chunk)) => got.extend_from_slice(chunk.as_ref()),
                    Ok(None) => return,
                    Err(_) => return broke_off = true,
                }
            }
        });
        let is_right = peer.bytes.starts_with(&got);
        assert!(is_right, "what came is not what the peer has");
        (got, broke_off, peer.is_forgotten.load(SeqCst))
    }

    #[test]
    fn a_body_is_read_from_whatever_has_its_bytes() {
        let (got, broke_off, is_forgotten) = read(100_000);
        assert_eq!((got.len(), broke_off, is_forgotten), (100_000, false, false));
    }

    #[test]
    fn a_source_that_loses_its_bytes_breaks_the_response_off_and_is_left() {
        let (got, broke_off, is_forgotten) = read(40_000);
        assert!(got.len() <= 40_000);
        assert_eq!((broke_off, is_forgotten), (true, true));
    }
}
