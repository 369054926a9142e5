//! The origin's side of a request: a state machine of its own, in a task of its own, so that a
//! client that leaves never ends a fetch others wait for.
//!
//! ```text
//! backend_fetch → exchange with an origin ─┬─ 304 for a stored object → stored head renewed
//!       ↑ retry                            ├─ answer → backend_response ─┬─ kept → object, filled
//!       └──────────────────────────────────┤                             └─ not kept → one client
//!                                          └─ no answer → stale object, or backend_error
//! ```
//!
//! Each stage is a type that the next one is made from: a [`Plan`] is asked (`asked`), what an origin
//! says and the policy takes is answered (`answered`), and that is kept (`kept`) or given (`given`).

mod ahead;
mod answered;
mod asked;
mod coded;
mod entry;
mod exchange;
pub(crate) mod failure;
mod fill;
mod following;
mod given;
mod kept;
mod media;
mod plan;
pub(crate) mod prepare;
pub(crate) mod range;
mod recode;
mod records;
mod renewed;
mod respond;
mod road;
mod visit;

pub(crate) use ahead::{Foreseen, Next, fetch_next, is_fetched_in_part};
pub(crate) use failure::Cause;
pub(crate) use plan::Plan;
pub(crate) use recode::recode;

use crate::delivery::StoredBody;
use crate::worker::Worker;
use asked::Asked;
use bytes::Bytes;
use freshet_cache::{Failure, Form, Object};
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use freshet_origin::raw::RawConnection;
use freshet_store::BodyReader;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

/// What a fetch came to, for the request that began it.
pub(crate) enum Fetched {
    /// An object, new or renewed or, after a failure, old.
    Object {
        object: Arc<Object>,
        reason: Reason,
        stored: bool,
        origin: Option<Arc<str>>,
        /// What the origin sent in answer to the client's own `Range`.
        sent: Option<SentPart>,
        /// Fields that are for this client and not kept.
        for_one: Fields,
        /// Keeps the bytes there until the client's own reader stands.
        hold: Option<BodyReader>,
    },
    /// A response for this client only.
    Private {
        head: ResponseHead,
        body: Option<StoredBody>,
        length: Option<u64>,
        form: Form,
        reason: Reason,
        origin: Option<Arc<str>>,
        /// What made it.
        made: Made,
    },
    /// A page of our own in the origin's place.
    Page {
        head: ResponseHead,
        body: Bytes,
        length: Option<u64>,
        reason: Reason,
        origin: Option<Arc<str>>,
        /// The fetch it takes the place of, where there is one.
        made: Option<Made>,
    },
    /// The origin switched protocols.
    Switched { head: ResponseHead, connection: RawConnection, origin: Arc<str> },
    /// Nothing.
    Failed { failure: Arc<Failure>, stale: Option<Arc<Object>> },
}

/// The fetch behind a response that is not kept.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its number.
    pub id: u64,
    /// How long the response would be of use.
    pub freshness: Freshness,
    /// Whether it was not to be kept, whatever that would have been good for.
    pub is_uncacheable: bool,
}

/// A part as an origin described it.
pub(crate) struct SentPart {
    pub(crate) range: Range<u64>,
    /// `Content-Range` as it was sent.
    pub(crate) content_range: Box<[u8]>,
}

/// Runs a fetch for a client and waits for what it comes to; the body goes on arriving behind.
pub(crate) async fn start(worker: &Rc<Worker>, plan: Plan) -> Fetched {
    let stale = plan.stale.clone();
    let (reply, answer) = oneshot::channel();
    spawn_local(Asked::new(worker, plan, Some(reply)).run());
    answer.await.unwrap_or_else(|_| Fetched::Failed {
        failure: Arc::new(Cause::Local.failure("the fetch ended without an answer")),
        stale,
    })
}

/// Runs a fetch nobody waits for.
pub(crate) fn start_behind(worker: &Rc<Worker>, plan: Plan) {
    spawn_local(Asked::new(worker, plan, None).run());
}
