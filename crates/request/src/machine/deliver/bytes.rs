//! The bytes of an object that answer a request, and what their head says of them.

use super::part::Part;
use crate::delivery::{HeldBytes, Parts, ResponseBody};
use crate::machine::Machine;
use crate::machine::shape::Shape;
use bytes::Bytes;
use freshet_base::random;
use freshet_cache::Object;
use freshet_fetch::again::Again;
use freshet_fetch::missing;
use freshet_fetch::range::Filler;
use freshet_fetch::stored::StoredBody;
use freshet_http::conditional;
use freshet_http::message::ResponseHead;
use freshet_http::multipart::Boundary;
use freshet_http::range::{ContentRange, VERY_LARGE};
use freshet_store::prefetch;
use std::ops::Range;
use std::sync::Arc;

/// The least length of a response for which it is known how to ask for its bytes again. To know it
/// costs a few percent of sending them. A hundred that are shorter, as many as a connection asks for at a
/// time, fit what one client may keep where memory has 64 MiB.
const FETCHED_AGAIN_BYTES_MIN: usize = 64 << 10;

impl Machine<'_> {
    /// The body for `part` and its length, with the head brought in line; or the status of a
    /// response without one.
    pub(super) fn body_of(
        &mut self,
        object: &Arc<Object>,
        part: Part<'_>,
        head: &mut ResponseHead,
        total: Option<u64>,
        shape: Shape,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        if shape != Shape::AsKept {
            // Parts of what comes out are not told apart while it does.
            let part = if matches!(part, Part::Many(_)) { Part::Whole } else { part };
            return self.shaped(object, part, head, total, shape);
        }
        match part {
            Part::Whole => {
                let end = total.unwrap_or(u64::MAX);
                Ok((self.stored_body(object, 0..end), total))
            }
            Part::AsSent(sent) => {
                head.status = 206;
                head.reason = None;
                head.fields.set("Content-Range", &sent.content_range);
                let Range { start, end } = sent.range;
                let filler = self.filler(object, end - start);
                let stored = StoredBody::new(object.body(), start..end, filler);
                Ok((ResponseBody::Stored(stored), Some(end - start)))
            }
            Part::Open(first) => {
                make_partial(head, ContentRange::part(&(first..VERY_LARGE + 1), None));
                Ok((self.stored_body(object, first..u64::MAX), None))
            }
            Part::One(range) => {
                make_partial(head, ContentRange::part(&range, total));
                let length = Some(range.end - range.start);
                Ok((self.stored_body(object, range), length))
            }
            Part::Many(ranges) => {
                let total = total.unwrap_or(0);
                let content_type = head.fields.get("content-type").map(<[u8]>::to_vec);
                let boundary = Boundary::from_random(u128::from_ne_bytes(random::secret()));
                let parts = ranges.into_iter().map(|range| {
                    let mut text = Vec::new();
                    boundary.write_part_head(content_type.as_deref(), &range, total, &mut text);
                    (Bytes::from(text), range)
                });
                let mut end = Vec::new();
                boundary.write_end(&mut end);
                let filler = self.filler(object, total);
                let parts = Parts::new(object.body(), parts, end.into(), filler);
                let length = Some(parts.length());
                head.status = 206;
                head.reason = None;
                let mut value = Vec::new();
                boundary.write_content_type(&mut value);
                head.fields.set("Content-Type", value);
                Ok((ResponseBody::Parts(Box::new(parts)), length))
            }
            Part::Nothing(status) => self.nothing(status, head, total),
        }
    }

    /// The same for a body that is not sent as it is kept.
    fn shaped(
        &mut self,
        object: &Arc<Object>,
        part: Part<'_>,
        head: &mut ResponseHead,
        total: Option<u64>,
        shape: Shape,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        let range = match part {
            Part::Nothing(status) => return self.nothing(status, head, total),
            Part::One(range) => {
                make_partial(head, ContentRange::of(&range, total.unwrap_or(range.end)));
                range
            }
            Part::Whole | Part::AsSent(_) | Part::Open(_) | Part::Many(_) => 0..u64::MAX,
        };
        let length = total.map(|total| range.end.min(total) - range.start);
        let end = object.body().total().unwrap_or(u64::MAX);
        let stored = self.stored_body(object, 0..end);
        Ok((self.shape_body(stored, shape, range), length))
    }

    /// Bytes of an object: as they lie in memory, or by a reader, of a body of its own where they are
    /// too many for memory.
    fn stored_body(&mut self, object: &Arc<Object>, range: Range<u64>) -> ResponseBody {
        let body = object.body();
        let lease = if body.trailers().is_none() { body.lease(range.clone()) } else { None };
        let is_short = lease.as_ref().is_some_and(|lease| lease.len() < FETCHED_AGAIN_BYTES_MIN);
        let filler = if is_short { None } else { self.filler(object, range.end - range.start) };
        let is_whole = range.start == 0 && Some(range.end) == body.total();
        let is_long = range.end >= FETCHED_AGAIN_BYTES_MIN as u64;
        let again =
            if is_whole && is_long && filler.is_none() { self.whole_again(object) } else { None };
        if let Some(lease) = lease.filter(|_| filler.is_none() && again.is_none()) {
            // They are on their way while the head is written.
            prefetch(&*lease);
            return ResponseBody::Held(HeldBytes::new(lease));
        }
        let kept_bytes_max = self.worker.shared.cache.object_bytes_max();
        let stored = missing::response_body(body, range, filler, kept_bytes_max);
        ResponseBody::Stored(stored.or(again))
    }

    /// What fetches all of an object anew where that is evicted before a response of it has begun.
    fn whole_again(&mut self, object: &Arc<Object>) -> Option<Box<Again>> {
        let key = self.key();
        Again::of_client(self.worker, object, &mut self.task, &key)
    }

    /// What fetches bytes of an object that are missing, or may be once they are evicted under a
    /// response of so many bytes.
    fn filler(&mut self, object: &Arc<Object>, bytes: u64) -> Option<Filler> {
        if bytes < FETCHED_AGAIN_BYTES_MIN as u64 && object.body().is_complete() {
            return None;
        }
        let key = self.key();
        Filler::of_client(self.worker, object, &mut self.task, &key)
    }

    /// A response without a body, or the status of one that has none of the object's.
    fn nothing(
        &self,
        status: u16,
        head: &mut ResponseHead,
        total: Option<u64>,
    ) -> Result<(ResponseBody, Option<u64>), u16> {
        if status == 304 {
            self.make_not_modified(head);
            return Ok((ResponseBody::Empty, None));
        }
        if let (416, Some(total)) = (status, total) {
            head.fields.set("Content-Range", ContentRange::Unsatisfied { total }.value());
        }
        if !self.task.site.semantics.keeps_fields_without_content {
            head.fields.remove("content-type");
        }
        Err(status)
    }

    /// Makes a head that of a 304. A policy that decides all has said which fields there are.
    pub(super) fn make_not_modified(&self, head: &mut ResponseHead) {
        if self.task.site.semantics.keeps_fields_without_content {
            head.fields.remove("content-length");
        } else {
            head.fields = conditional::not_modified_fields(&head.fields);
        }
        head.status = 304;
        head.reason = None;
    }
}

/// Makes a head that of a part (RFC 9110 §15.3.7).
fn make_partial(head: &mut ResponseHead, range: ContentRange) {
    head.status = 206;
    head.reason = None;
    head.fields.set("Content-Range", range.value());
}
