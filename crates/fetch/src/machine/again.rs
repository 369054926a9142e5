//! Fetching a whole representation again, for a response of which no byte was given out.

use super::coded_body::Source;
use super::fill::Flow;
use super::prepare;
use super::road::Road;
use freshet_cache::{Key, Object};
use freshet_http::message::{Method, ResponseHead};
use freshet_origin::response_body::OriginBody;
use freshet_site::policy::ClientTask;
use freshet_store::{BodyError, BodyWriter};
use freshet_worker::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;

/// The way to all of an object that has no strong validator. A part of what an origin has now cannot
/// join what it had ([`super::range::Filler`]); all of it can come in its place, as long as the head
/// that the client has is true of it.
pub struct Again {
    worker: Rc<Worker>,
    object: Arc<Object>,
    road: Road,
}

/// Fields that say what a body is.
const DESCRIBING: [&str; 6] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "etag",
    "last-modified",
];

impl Again {
    /// For a client that is given all of `object`; `None` where what is kept is not what an origin
    /// sends, or its length is not known.
    pub fn of_client(
        worker: &Rc<Worker>,
        object: &Arc<Object>,
        task: &mut ClientTask,
        key: &Arc<Key>,
    ) -> Option<Box<Self>> {
        let is_as_sent = object.with_head(|head| {
            head.status == 200 && !head.partial && !head.form.parts && !head.form.recoded
        });
        if !is_as_sent || object.body().total().is_none() {
            return None;
        }
        let road = Road::of_client(task, key);
        Some(Box::new(Self { worker: Rc::clone(worker), object: Arc::clone(object), road }))
    }

    /// Fetches all of it into a writer that begins at its first byte.
    pub(super) async fn bring(self: Box<Self>, writer: BodyWriter) {
        let Some(from) = self.ask().await else {
            return writer.fail(BodyError::OriginFailed("it could not be fetched again".into()));
        };
        let total = self.object.body().total();
        let mut flow = Flow::new(&self.worker, Source::Plain(from), writer, total);
        match flow.run().await {
            Ok(()) => drop(flow.finish()),
            Err(broken) => flow.fail(broken.into_body_error()),
        }
    }

    /// Asks one origin after the other: each may have another representation.
    async fn ask(&self) -> Option<OriginBody> {
        self.worker.stats.fetches_again.increment();
        let question = self.road.question(&self.worker)?;
        if question.request().method != Method::Get {
            return None;
        }
        let request = prepare::for_all_of_it(question.request());
        let mut tried = Vec::new();
        while let Some(response) = question.exchange(&self.worker, &request, &mut tried).await {
            if self.is_described_by(&response.head) {
                return Some(response.body);
            }
            response.body.discard().await;
        }
        None
    }

    /// Whether the head that the client has is true of the body behind this one.
    fn is_described_by(&self, head: &ResponseHead) -> bool {
        let length = head.fields.get_str("content-length").map(str::parse);
        let is_as_long = length.is_none_or(|length| length.ok() == self.object.body().total());
        head.status == 200
            && is_as_long
            && self.object.with_head(|stored| {
                DESCRIBING.iter().all(|name| stored.fields.get(name) == head.fields.get(name))
            })
    }
}
