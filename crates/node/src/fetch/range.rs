//! Fetching a missing range of a stored object.

use super::exchange::ORIGINS_TRIED_MAX;
use super::fill;
use super::prepare;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::Object;
use freshet_http::message::RequestHead;
use freshet_http::range::ContentRange;
use freshet_origin::director::stable_hash;
use freshet_origin::response_body::OriginBody;
use freshet_origin::{OriginResponse, exchange};
use freshet_store::{Body, BodyError, BodyWriter};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;

/// Fetches what readers of one object miss. Only for objects with a strong validator: without one,
/// bytes of two representations could be mixed (RFC 9111 §3.4).
#[derive(Clone)]
pub(crate) struct Filler {
    worker: Rc<Worker>,
    snapshot: Rc<Snapshot>,
    object: Arc<Object>,
    request: Rc<RequestHead>,
    etag: Rc<[u8]>,
    /// Start of the hole filled last: the same one again means that it could not be filled.
    last: Option<u64>,
}

impl Filler {
    /// A filler for `object`, asking as `request` did; `None` without a strong validator.
    pub(crate) fn new(
        worker: &Rc<Worker>,
        snapshot: &Rc<Snapshot>,
        object: &Arc<Object>,
        request: &RequestHead,
    ) -> Option<Self> {
        let etag = object.with_head(|head| {
            // What is kept in another form cannot be mixed with what an origin sends.
            let strong = head.etag.as_deref().filter(|etag| etag.starts_with(b"\""));
            strong.filter(|_| !head.form.parts && !head.form.recoded).map(Rc::from)
        })?;
        Some(Self {
            worker: Rc::clone(worker),
            snapshot: Rc::clone(snapshot),
            object: Arc::clone(object),
            request: Rc::new(request.clone()),
            etag,
            last: None,
        })
    }

    /// Begins to fetch `hole`; its bytes show up in `body`. False where that was tried already.
    pub(crate) fn fill(&mut self, body: &Arc<Body>, hole: Range<u64>) -> bool {
        if self.last == Some(hole.start) {
            return false;
        }
        self.last = Some(hole.start);
        self.worker.stats.fetches_range.increment();
        let writer = body.writer(hole.start, Some(hole.end));
        spawn_local(self.clone().bring(writer, hole));
        true
    }

    /// Fetches `hole` into its writer.
    pub(crate) async fn bring(self, mut writer: BodyWriter, hole: Range<u64>) {
        let Some(mut from) = self.ask(&hole).await else {
            return writer
                .fail(BodyError::OriginFailed("a missing range could not be fetched".into()));
        };
        let end = Some(hole.end);
        match fill::pump(&self.worker, &mut from, &mut writer, end, u64::MAX, None).await {
            Ok(()) => {
                let _ = writer.finish();
            }
            Err(broken) => writer.fail(broken.into_body_error()),
        }
    }

    /// Asks for `range` of the very representation the object holds. An origin that has another
    /// one by now makes the object forgotten.
    pub(crate) async fn ask(&self, range: &Range<u64>) -> Option<OriginBody> {
        let request = prepare::for_range(&self.request, range, &self.etag);
        let response = self.exchange(&request).await?;
        let fields = &response.head.fields;
        let same_etag = fields.get("etag").is_none_or(|etag| *etag == *self.etag);
        let part = fields.get("content-range").and_then(ContentRange::parse);
        let fits = response.head.status == 206
            && same_etag
            && part.is_some_and(|part| {
                part.range().as_ref() == Some(range) && part.total() == self.object.body().total()
            });
        if fits {
            return Some(response.body);
        }
        if response.head.status < 400 {
            self.worker.shared.cache.forget(&self.object);
        }
        response.body.discard().await;
        None
    }

    /// Sends `request`; what one origin has not seen goes to the next.
    async fn exchange(&self, request: &RequestHead) -> Option<OriginResponse> {
        let upstreams = &self.snapshot.upstreams;
        let hash = stable_hash(self.object.key().text());
        let pool = self.worker.pool.clone();
        let mut tried = Vec::new();
        while tried.len() < ORIGINS_TRIED_MAX {
            let origin = Arc::clone(upstreams.choose(hash, &tried, UnixMillis::now())?);
            tried.push(origin.id);
            match exchange(&pool, &origin, request, None, &mut |_| {}).await {
                Ok(response) => return Some(response),
                Err(error) if error.not_sent() => {}
                Err(_) => return None,
            }
        }
        None
    }
}
