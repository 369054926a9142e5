//! The states of a fetch.
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

pub mod again;
mod ahead;
mod answered;
mod asked;
mod asking;
mod changes_told;
mod choice;
mod coded_body;
mod entry;
pub mod failure;
mod fill;
mod following;
mod given;
mod incoming;
mod kept;
mod media;
pub mod missing;
mod plan;
mod prepare;
pub mod range;
mod recode;
mod records;
mod renewed;
mod respond;
mod road;
pub mod selecting;
pub mod stored;
mod stored_head;
mod visit;

pub use ahead::{Foreseen, Next, fetch_next, is_fetched_in_part};
pub use failure::Cause;
pub use plan::Plan;
pub use prepare::for_pipe;
pub use recode::recode;
pub use records::unconnected;

use asked::Asked;
use bytes::Bytes;
use freshet_cache::{Failure, Form, Object};
use freshet_http::fields::Fields;
use freshet_http::message::ResponseHead;
use freshet_http::reason::Reason;
use freshet_origin::raw::RawConnection;
use freshet_site::policy::Made;
use freshet_store::BodyReader;
use freshet_worker::worker::Worker;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stored::StoredBody;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

/// What a fetch came to, for the request that began it.
pub enum Fetched {
    /// An object, new or renewed or, after a failure, old.
    Object {
        /// The object.
        object: Arc<Object>,
        /// Why it is what it is.
        reason: Reason,
        /// Whether it was stored.
        stored: bool,
        /// The origin asked, if any.
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
        /// Its head.
        head: ResponseHead,
        /// Its body, where it has one.
        body: Option<StoredBody>,
        /// How long that is, where it is known.
        length: Option<u64>,
        /// What was made of it while it came.
        form: Form,
        /// Why it is what it is.
        reason: Reason,
        /// The origin asked, if any.
        origin: Option<Arc<str>>,
        /// What made it.
        made: Made,
    },
    /// A page of our own in the origin's place.
    Page {
        /// Its head.
        head: ResponseHead,
        /// All of its body.
        body: Bytes,
        /// How long that is, where it has one.
        length: Option<u64>,
        /// Why it is what it is.
        reason: Reason,
        /// The origin asked, if any.
        origin: Option<Arc<str>>,
        /// The fetch it takes the place of, where there is one.
        made: Option<Made>,
    },
    /// The origin switched protocols.
    Switched {
        /// What it said to that.
        head: ResponseHead,
        /// The connection, at which the other protocol begins.
        connection: RawConnection,
        /// Its name.
        origin: Arc<str>,
    },
    /// Nothing.
    Failed {
        /// Why.
        failure: Arc<Failure>,
        /// What is stored, however old.
        stale: Option<Arc<Object>>,
    },
}

/// A part as an origin described it.
pub struct SentPart {
    /// Which bytes it is.
    pub range: Range<u64>,
    /// `Content-Range` as it was sent.
    pub content_range: Box<[u8]>,
}

/// Runs a fetch for a client and waits for what it comes to; the body goes on arriving behind.
pub async fn start(worker: &Rc<Worker>, plan: Plan) -> Fetched {
    let stale = plan.stale.clone();
    let (reply, answer) = oneshot::channel();
    spawn_local(Asked::new(worker, plan, Some(reply)).run());
    answer.await.unwrap_or_else(|_| Fetched::Failed {
        failure: Arc::new(Cause::Local.failure("the fetch ended without an answer")),
        stale,
    })
}

/// Runs a fetch nobody waits for.
pub fn start_behind(worker: &Rc<Worker>, plan: Plan) {
    spawn_local(Asked::new(worker, plan, None).run());
}
