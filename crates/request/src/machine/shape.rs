//! Bodies that are not sent as they are kept: unpacked for a client without gzip, or put together
//! of their parts.

use super::Machine;
use crate::assembly::{Assembly, PageFor};
use crate::delivery::ResponseBody;
use crate::delivery::coded::Coded;
use freshet_cache::{ForCoding, Form, Object};
use freshet_content::chain::{Chain, Stage};
use freshet_content::esi::parts::RawJoiner;
use freshet_content::heads::{is_gzip, remove_digests, weaken_etag};
use freshet_http::coding::{Accepted, Coding, accepts_gzip};
use freshet_http::message::ResponseHead;
use freshet_site::nesting::Nesting;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// What is done to a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    /// Nothing.
    AsKept,
    /// gzip is taken off.
    Unpacked,
    /// Parts are put together with includes; whether they are under gzip, and what is sent.
    Page { is_packed: bool, out_packed: bool },
    /// Parts are put together as the page came, and sent under gzip or not.
    Raw { is_packed: bool, out_packed: bool },
}

impl Shape {
    /// Whether gzip is taken off.
    pub(super) fn is_unpacked(self) -> bool {
        match self {
            Self::AsKept => false,
            Self::Unpacked => true,
            Self::Page { is_packed, out_packed } | Self::Raw { is_packed, out_packed } => {
                is_packed && !out_packed
            }
        }
    }

    /// Length of what comes out, where that is known.
    pub(super) fn total(self, object: &Object, kept: Option<u64>) -> Option<u64> {
        match self {
            Self::AsKept => kept,
            Self::Unpacked => object.body().content_bytes(),
            Self::Page { .. } | Self::Raw { .. } => None,
        }
    }
}

impl Machine<'_> {
    /// What is done to a body of this form for this request.
    pub(super) fn shape(&self, form: Form, head: &ResponseHead) -> Shape {
        if !form.gzip && !form.parts {
            // A policy may know better what is in it.
            let gunzips = self.task.shaping.is_chosen && self.task.shaping.gunzip;
            let unpacks = gunzips && is_gzip(&head.fields);
            return if unpacks { Shape::Unpacked } else { Shape::AsKept };
        }
        let may_unpack = self.task.shaping.gunzip && self.unpacks(form);
        let accepts = || self.accepts_gzip();
        let is_packed = form.gzip;
        let out_packed = match &self.task.nesting {
            // A page within one is as that is, whatever its request says now.
            Some(outer) if form.parts && self.task.shaping.esi => outer.is_packed,
            _ => form.gzip && (!may_unpack || accepts()),
        };
        match (form.parts, self.task.shaping.esi) {
            (true, true) => Shape::Page { is_packed, out_packed },
            (true, false) => Shape::Raw { is_packed, out_packed },
            (false, _) if form.gzip && !out_packed => Shape::Unpacked,
            (false, _) => Shape::AsKept,
        }
    }

    /// Whether gzip of what is kept like this is taken off here. What is for all clients was packed for all: that
    /// holds also when the site packs no more, but where a policy has it as Varnish does.
    fn unpacks(&self, form: Form) -> bool {
        let site = &self.task.site;
        let is_for_all = form.for_coding != ForCoding::AsVaries;
        site.codes_gzip || (is_for_all && !site.semantics.finds_gzip_by_name)
    }

    /// Whether the client takes gzip. A policy looks for the name only, as Varnish does.
    fn accepts_gzip(&self) -> bool {
        let fields = &self.task.request.fields;
        match self.task.site.semantics.finds_gzip_by_name {
            true => fields.get("accept-encoding").is_some_and(accepts_gzip),
            false => Accepted::of(fields).best(&[Coding::Gzip]).is_some(),
        }
    }

    /// Brings the head in line with what becomes of the body, before a condition is compared with it.
    pub(super) fn shape_head(&self, shape: Shape, head: &mut ResponseHead) {
        if shape.is_unpacked() {
            head.fields.remove("content-encoding");
            remove_digests(&mut head.fields);
        }
        // A policy was shown the weak tag of what is unpacked, and may have set another.
        let is_told = self.task.site.semantics.shows_unpacked;
        let is_page = matches!(shape, Shape::Page { .. });
        if is_page && !is_told {
            // They are of the frame alone, and what is included changes without it.
            for name in ["etag", "last-modified"] {
                head.fields.remove(name);
            }
        } else if is_page || (shape.is_unpacked() && !is_told) {
            weaken_etag(&mut head.fields);
        }
    }

    /// Bytes `range` of what `body` becomes.
    pub(super) fn shape_body(
        &self,
        body: ResponseBody,
        shape: Shape,
        range: Range<u64>,
    ) -> ResponseBody {
        let is_told = self.task.site.semantics.shows_unpacked;
        let is_sent = !matches!(body, ResponseBody::Empty) && self.task.wants_content;
        // Who has a policy counts as Varnish does: heads of what would be unpacked as well.
        if shape.is_unpacked() && (is_sent || is_told) {
            self.worker.stats.gunzips.increment();
        }
        if !is_sent {
            return body;
        }
        let stages = match shape {
            Shape::AsKept => return body,
            Shape::Unpacked => vec![Stage::unpack(Coding::Gzip)],
            Shape::Raw { is_packed, out_packed } => {
                let join = Stage::Join(Box::new(RawJoiner::new(is_packed)));
                let unpack = (is_packed && !out_packed).then(|| Stage::unpack(Coding::Gzip));
                std::iter::once(join).chain(unpack).collect()
            }
            Shape::Page { is_packed, out_packed } => {
                return self.page(body, is_packed, out_packed);
            }
        };
        let coded = Coded::new(body, Chain::new(stages), range).telling(&self.task.transcript);
        ResponseBody::Coded(Box::new(coded))
    }

    /// A page that is put together.
    fn page(&self, parts: ResponseBody, is_packed: bool, out_packed: bool) -> ResponseBody {
        let task = &self.task;
        let (level, top, top_received) = match &task.nesting {
            None => (1, task.request.clone(), task.now),
            Some(outer) => (outer.level + 1, outer.top.clone(), outer.top_received),
        };
        let spent = task.nesting.as_ref().map_or_else(Rc::default, |outer| Rc::clone(&outer.spent));
        let original = self.original.as_deref().cloned().unwrap_or_else(|| task.request.clone());
        let nesting = Nesting {
            level,
            top,
            top_received,
            original,
            is_packed: out_packed,
            asks_for_gzip: if task.site.semantics.finds_gzip_by_name {
                is_packed
            } else {
                out_packed
            },
            spent,
            site: task.site.clone(),
            identity: task.identity.clone(),
        };
        let page = PageFor {
            worker: Rc::clone(self.worker),
            client: Rc::clone(&task.client),
            id: task.id,
            transcript: Rc::clone(&task.transcript),
            settings: Arc::clone(&task.site.settings.esi),
            nesting: Rc::new(nesting),
        };
        ResponseBody::Esi(Box::new(Assembly::new(page, parts, is_packed, out_packed)))
    }
}
