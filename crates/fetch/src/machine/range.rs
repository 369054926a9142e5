//! Fetching a missing range of a stored object.

use super::coded_body::Source;
use super::fill::Flow;
use super::prepare;
use super::road::Road;
use freshet_cache::{Key, Object};
use freshet_http::message::{Method, ResponseHead};
use freshet_http::range::ContentRange;
use freshet_origin::response_body::OriginBody;
use freshet_site::policy::ClientTask;
use freshet_store::{Body, BodyError, BodyWriter};
use freshet_worker::worker::Worker;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;

/// Fetches what readers of one object miss. Only for objects with a strong validator: without one,
/// bytes of two representations could be mixed (RFC 9111 §3.4).
#[derive(Clone)]
pub struct Filler {
    worker: Rc<Worker>,
    object: Arc<Object>,
    road: Rc<Road>,
    etag: Rc<[u8]>,
    /// Start of the hole filled last: the same one again means that it could not be filled.
    last: Option<u64>,
    /// Holes filled for this response.
    filled: u32,
}

/// Holes that are fetched one by one for a response. What it misses behind them comes with one
/// request, along with what is there already.
const HOLES_MAX: u32 = 8;
/// Places the bytes of an object lie in before what is missing between them is fetched by whole
/// blocks of [`BLOCK_BYTES`], however short the ranges that are asked for.
const PIECES_MAX: usize = 256;
/// As long as the longest piece of memory.
const BLOCK_BYTES: u64 = 1 << 20;

impl Filler {
    /// A filler for `object` on `road`; `None` without a strong validator.
    pub(crate) fn new(worker: &Rc<Worker>, object: &Arc<Object>, road: Road) -> Option<Self> {
        let etag = joins_by(object)?;
        let (worker, object) = (Rc::clone(worker), Arc::clone(object));
        Some(Self { worker, object, road: Rc::new(road), etag, last: None, filled: 0 })
    }

    /// A filler for a client that is given `object`. Whom to ask is its policy's to say, when it
    /// comes to that.
    pub fn of_client(
        worker: &Rc<Worker>,
        object: &Arc<Object>,
        task: &mut ClientTask,
        key: &Arc<Key>,
    ) -> Option<Self> {
        joins_by(object)?;
        Self::new(worker, object, Road::of_client(task, key))
    }

    /// Begins to fetch `hole`, behind which the response goes on to `end`; its bytes show up in
    /// `body`. False where that was tried already.
    pub fn fill(&mut self, body: &Arc<Body>, hole: Range<u64>, end: u64) -> bool {
        if self.last == Some(hole.start) {
            return false;
        }
        self.last = Some(hole.start);
        let hole = self.widened(body, hole, end);
        let writer = body.writer(hole.start, Some(hole.end));
        spawn_local(self.clone().bring(writer, hole));
        true
    }

    /// What is fetched for `hole`: more than that where an object came to lie in many pieces.
    fn widened(&mut self, body: &Body, hole: Range<u64>, end: u64) -> Range<u64> {
        self.filled += 1;
        let total = body.total().unwrap_or(u64::MAX);
        let wide = if self.filled > HOLES_MAX {
            hole.start..end.min(total)
        } else if body.pieces() >= PIECES_MAX {
            let (gap, block) = (body.gap(hole.start), hole.start / BLOCK_BYTES * BLOCK_BYTES);
            let block_end = hole.end.next_multiple_of(BLOCK_BYTES);
            gap.start.max(block)..gap.end.min(block_end)
        } else {
            return hole;
        };
        if wide != hole {
            self.worker.stats.fetches_widened.increment();
        }
        wide.start.min(hole.start)..wide.end.max(hole.end)
    }

    /// Fetches `hole` into its writer.
    pub async fn bring(self, writer: BodyWriter, hole: Range<u64>) {
        let Some(from) = self.ask(&hole).await else {
            return writer
                .fail(BodyError::OriginFailed("a missing range could not be fetched".into()));
        };
        let mut flow = Flow::new(&self.worker, Source::Plain(from), writer, Some(hole.end));
        match flow.run().await {
            Ok(()) => drop(flow.finish()),
            Err(broken) => flow.fail(broken.into_body_error()),
        }
    }

    /// Asks for `range` of the very representation the object holds, one origin after the other: each may
    /// have another one. Where none has it the object is forgotten.
    pub async fn ask(&self, range: &Range<u64>) -> Option<OriginBody> {
        self.worker.stats.fetches_range.increment();
        let question = self.road.question(&self.worker).filter(|question| {
            // A range of what another method made is none of it (RFC 9110 §14.2).
            question.request().method == Method::Get
        })?;
        let request = prepare::for_range(question.request(), range, &self.etag);
        let (mut tried, mut is_replaced) = (Vec::new(), false);
        while let Some(response) = question.exchange(&self.worker, &request, &mut tried).await {
            if self.joins(&response.head, range) {
                return Some(response.body);
            }
            self.worker.stats.fetches_unjoined.increment();
            is_replaced |= response.head.status < 400;
            response.body.discard().await;
        }
        if is_replaced {
            self.worker.shared.cache.forget(&self.object);
        }
        None
    }

    /// Whether a response is `range` of what the object has the rest of: by the same strong
    /// validator, and of the same length (RFC 9110 §15.3.7.3).
    fn joins(&self, head: &ResponseHead, range: &Range<u64>) -> bool {
        let part = head.fields.get("content-range").and_then(ContentRange::parse);
        let total = self.object.body().total();
        head.status == 206
            && head.fields.get("etag") == Some(&*self.etag)
            && total.is_some()
            && part
                .is_some_and(|part| part.range().as_ref() == Some(range) && part.total() == total)
    }
}

/// The validator by which bytes may be put together with those of the object.
fn joins_by(object: &Object) -> Option<Rc<[u8]>> {
    object.with_head(|head| {
        // What is kept in another form cannot be mixed with what an origin sends.
        let strong = head.etag().filter(|etag| etag.starts_with(b"\""));
        strong.filter(|_| !head.form.parts && !head.form.recoded).map(Rc::from)
    })
}
