//! Moving an origin's bytes into memory.

use super::coded::Source;
use super::range;
use crate::coding::CodingError;
use crate::disk::Tee;
use crate::shares::loan_of;
use crate::worker::Worker;
use freshet_cache::Object;
use freshet_origin::OriginError;
use freshet_origin::response_body::OriginBody;
use freshet_store::{Body, BodyError, BodyWriter};
use std::rc::Rc;
use std::sync::Arc;

/// Room asked for at a time where the length is not known; the writer starts smaller by itself.
const READ_BYTES: usize = 1 << 20;
/// Times a broken fill is taken up again from where it broke.
const RESUMES_MAX: usize = 3;

/// Why a fill ended early.
pub(super) enum Broken {
    /// The origin's body broke off.
    Origin(OriginError),
    /// The origin's body is not under the coding its head says.
    Coding(CodingError),
    /// Nobody reads it any more, or there is no memory for it.
    Local(BodyError),
    /// The share of the memory it comes out of is full.
    Full,
}

impl Broken {
    /// The same as readers of the body are told.
    pub(super) fn into_body_error(self) -> BodyError {
        match self {
            Self::Origin(error) => BodyError::OriginFailed(error.to_string().into()),
            Self::Coding(error) => BodyError::OriginFailed(error.to_string().into()),
            Self::Local(error) => error,
            Self::Full => BodyError::NoMemory,
        }
    }
}

/// Takes what is about to be committed out of the share that lends to the body, where one does.
pub(super) fn borrow(writer: &BodyWriter, count: usize) -> Result<(), Broken> {
    let body = writer.body();
    let Some(loan) = loan_of(body) else { return Ok(()) };
    let held = body.held_bytes();
    let is_open = body.total().is_none() && !body.is_transit();
    if body.is_transit() {
        loan.settle(held);
    }
    if loan.cover(held, count as u64, is_open) { Ok(()) } else { Err(Broken::Full) }
}

/// Gives back what a body was lent beyond its length.
pub(super) fn give_back(body: &Body) {
    if let Some(loan) = loan_of(body) {
        loan.settle(body.held_bytes());
    }
}

/// Reads `from` to its end into `writer`, from the socket straight into the arena where the
/// framing allows. Yields after each read so that one fast origin does not starve a worker. A body
/// that grows over `bytes_max` streams through and is not kept.
pub(super) async fn pump(
    worker: &Worker,
    from: &mut OriginBody,
    writer: &mut BodyWriter,
    end: Option<u64>,
    bytes_max: u64,
    mut tee: Option<&mut Tee>,
) -> Result<(), Broken> {
    let mut turn_bytes = 0;
    loop {
        if Some(writer.position()) == end {
            // The framing ends here as well, or the origin sent more than it said.
            return match from.read(&mut [0]).await {
                Ok(0) => Ok(()),
                Ok(_) => {
                    Err(Broken::Local(BodyError::OriginTooLong { expected: writer.position() }))
                }
                Err(error) => Err(Broken::Origin(error)),
            };
        }
        let room = writer.reserve(READ_BYTES).await.map_err(Broken::Local)?;
        let count = from.read(room).await.map_err(Broken::Origin)?;
        if count == 0 {
            return Ok(());
        }
        if let Some(tee) = &mut tee {
            tee.push(room.get(..count).unwrap_or(&[]));
        }
        borrow(writer, count)?;
        writer.commit(count);
        if writer.position() > bytes_max {
            writer.body().enter_transit();
        }
        worker.stats.origin_body_bytes.add(count as u64);
        turn_bytes += count;
        if turn_bytes >= READ_BYTES {
            turn_bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Reads what nobody is to see before it is all there: up to `bytes_max`, beyond which it has to
/// stream after all. Whether it is all there.
pub(super) async fn ahead(
    worker: &Worker,
    source: &mut Source,
    writer: &mut BodyWriter,
    end: Option<u64>,
    bytes_max: u64,
) -> Result<bool, Broken> {
    // In transit it would wait for a reader that waits for it.
    writer.set_allow_transit(false);
    let result = loop {
        let ended = match source {
            Source::Plain(from) => step(worker, from, writer, end).await,
            Source::Coded(coded) => coded.step(writer, false).await,
        };
        match ended {
            Ok(false) if writer.position() <= bytes_max => {}
            Err(Broken::Local(BodyError::NoMemory)) => break Ok(false),
            other => break other,
        }
    };
    writer.set_allow_transit(true);
    result
}

/// Reads once from the origin; whether it was the end.
async fn step(
    worker: &Worker,
    from: &mut OriginBody,
    writer: &mut BodyWriter,
    end: Option<u64>,
) -> Result<bool, Broken> {
    if Some(writer.position()) == end {
        // The framing ends here as well, or the origin sent more than it said.
        return match from.read(&mut [0]).await {
            Ok(0) => Ok(true),
            Ok(_) => Err(Broken::Local(BodyError::OriginTooLong { expected: writer.position() })),
            Err(error) => Err(Broken::Origin(error)),
        };
    }
    let room = writer.reserve(READ_BYTES).await.map_err(Broken::Local)?;
    let count = from.read(room).await.map_err(Broken::Origin)?;
    borrow(writer, count)?;
    writer.commit(count);
    worker.stats.origin_body_bytes.add(count as u64);
    Ok(count == 0)
}

/// Fills an object's body to its end. A fill that breaks is taken up again by range where the
/// object has a strong validator; otherwise readers are told and the object is forgotten. Whether
/// all of it came.
pub(super) async fn object(
    worker: &Rc<Worker>,
    object: &Arc<Object>,
    filler: Option<range::Filler>,
    mut source: Source,
    mut writer: BodyWriter,
    end: Option<u64>,
) -> bool {
    let cache = &worker.shared.cache;
    let body = object.body();
    // What says its length was judged by it before.
    let bytes_max = end.map_or_else(|| cache.object_bytes_max(), |_| u64::MAX);
    let mut resumes = 0;
    loop {
        let pumped = match &mut source {
            Source::Plain(from) => pump(worker, from, &mut writer, end, bytes_max, None).await,
            Source::Coded(coded) => coded.pump(&mut writer, bytes_max).await,
        };
        match pumped {
            Ok(()) => {
                if let Some(trailers) = source.trailers() {
                    body.set_trailers(trailers.clone());
                }
                let is_whole = writer.finish().is_ok();
                if !is_whole {
                    cache.forget(object);
                }
                return is_whole;
            }
            Err(broken @ (Broken::Local(_) | Broken::Coding(_) | Broken::Full)) => {
                cache.forget(object);
                writer.fail(broken.into_body_error());
                return false;
            }
            Err(Broken::Origin(error)) => {
                tracing::debug!(%error, key = %object.key(), "a fill broke off");
                worker.stats.fetches_failed.increment();
                let rest = end.map(|end| writer.position()..end);
                let resumed = match (rest, &filler) {
                    (Some(rest), Some(filler)) if resumes < RESUMES_MAX && !rest.is_empty() => {
                        resumes += 1;
                        filler.ask(&rest).await
                    }
                    _ => None,
                };
                match resumed {
                    Some(next) => source = Source::Plain(next),
                    None => {
                        cache.forget(object);
                        writer.fail(BodyError::OriginFailed(error.to_string().into()));
                        return false;
                    }
                }
            }
        }
    }
}

/// Fills the body of a response that is for one client.
pub(super) async fn private(
    worker: &Rc<Worker>,
    mut source: Source,
    mut writer: BodyWriter,
    end: Option<u64>,
    mut tee: Option<Tee>,
) -> bool {
    let pumped = match &mut source {
        Source::Plain(from) => pump(worker, from, &mut writer, end, u64::MAX, tee.as_mut()).await,
        Source::Coded(coded) => coded.pump(&mut writer, u64::MAX).await,
    };
    match pumped {
        Ok(()) => {
            if let Some(tee) = tee {
                tee.finish();
            }
            if let Some(trailers) = source.trailers() {
                writer.body().set_trailers(trailers.clone());
            }
            // A length that is not met is the origin's error, which its body reported already.
            writer.finish().is_ok()
        }
        Err(broken) => {
            if !matches!(broken, Broken::Local(_) | Broken::Full) {
                worker.stats.fetches_failed.increment();
            }
            writer.fail(broken.into_body_error());
            false
        }
    }
}
