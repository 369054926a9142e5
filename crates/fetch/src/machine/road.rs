//! How the origin of an object's bytes is asked for more of them: always as its policy says.

use super::choice::{choose, is_failed_over};
use freshet_base::clock::UnixMillis;
use freshet_cache::Key;
use freshet_http::message::RequestHead;
use freshet_origin::{Origin, OriginId, OriginResponse, Terms, exchange_within};
use freshet_site::policy::{BackendFetch, ClientTask, FetchKind, FetchTask, OriginChoice};
use freshet_site::sites::SiteRef;
use freshet_telemetry::transcript::{Message, Side, Tag, Transcript};
use freshet_worker::worker::Worker;
use std::any::Any;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A request as its policy made it, whom it may go to, and on which terms.
pub(crate) struct Question {
    request: RequestHead,
    choice: OriginChoice,
    goes_to_siblings: bool,
    /// What other nodes of this place are asked for, where that is another target.
    sent_target: Option<String>,
    /// The one that answered before, which is asked first.
    answered: Option<Arc<Origin>>,
    terms: Terms,
    site: SiteRef,
    key: Arc<Key>,
}

impl Question {
    /// What `task` asks, and `answered` has answered.
    pub(crate) fn of(task: &FetchTask, key: &Arc<Key>, answered: Option<&Arc<Origin>>) -> Self {
        Self {
            request: task.request.clone(),
            choice: task.origin.clone(),
            goes_to_siblings: task.goes_to_siblings,
            sent_target: task.sent_target.clone(),
            answered: answered.cloned(),
            terms: task.terms(),
            site: task.site.clone(),
            key: Arc::clone(key),
        }
    }

    /// The request.
    pub(crate) fn request(&self) -> &RequestHead {
        &self.request
    }

    /// Sends `request`, which is this one for a part, to one that is not among `tried` yet; what one
    /// origin has not seen goes to the next where the policy leaves that open.
    pub(crate) async fn exchange(
        &self,
        worker: &Worker,
        request: &RequestHead,
        tried: &mut Vec<OriginId>,
    ) -> Option<OriginResponse> {
        let pool = worker.pool.clone();
        while tried.len() < self.site.upstreams.tried_max {
            let now = UnixMillis::now();
            let of = (&*self.site, request, self.goes_to_siblings);
            let chosen = || choose(&self.choice, of, &self.key, tried, now);
            let first = self.answered.clone().filter(|_| tried.is_empty());
            let origin = first.or_else(chosen)?;
            tried.push(origin.id);
            let is_parent = self.site.upstreams.is_parent(origin.id);
            let mut request = request.clone();
            if let Some(sent) = &self.sent_target
                && self.site.upstreams.is_sibling(origin.id)
            {
                request.target.clone_from(sent);
            }
            worker.shared.applied.put_into(&mut request.fields, is_parent);
            let asking =
                exchange_within(&pool, &origin, &request, None, &mut |_| {}, self.terms).await;
            match asking {
                Ok(response) => return Some(response),
                Err(error)
                    if error.not_sent() || is_failed_over((&self.choice, &request), &error) => {}
                Err(_) => return None,
            }
        }
        None
    }
}

/// The way to the origin of an object's bytes, for a fill that goes on or for a response that lacks
/// some of them. Its policy is asked once and before the origin is.
pub(crate) struct Road(RefCell<Way>);

enum Way {
    /// The policy has not been asked yet.
    Ahead(Box<Ahead>),
    /// Whom and how; `None` where the policy wants nobody asked.
    Known(Option<Rc<Question>>),
}

/// What a fetch begins with.
struct Ahead {
    parent: u64,
    /// Of the request it is for, which may be over by then.
    transcript: Weak<Transcript>,
    request: RequestHead,
    client_address: Option<SocketAddr>,
    server_address: Option<SocketAddr>,
    origin: OriginChoice,
    goes_to_siblings: bool,
    sent_target: Option<String>,
    site: SiteRef,
    state: Option<Box<dyn Any>>,
    key: Arc<Key>,
}

impl Road {
    /// The way a fetch has gone.
    pub(crate) fn taken(question: Question) -> Self {
        Self(RefCell::new(Way::Known(Some(Rc::new(question)))))
    }

    /// The way for a client's request, as a fetch of its own would go.
    pub(crate) fn of_client(task: &mut ClientTask, key: &Arc<Key>) -> Self {
        let site = task.site.clone();
        let policy = &*site.policy;
        let ahead = Ahead {
            parent: task.id,
            transcript: Rc::downgrade(&task.transcript),
            state: policy.begin_fetch(task, FetchKind::Miss),
            request: super::prepare::for_miss(task, None),
            client_address: task.client.address,
            server_address: task.client.local_address,
            origin: task.origin(),
            goes_to_siblings: super::prepare::goes_to_siblings(task, FetchKind::Miss),
            sent_target: super::prepare::sent_target(task),
            site: task.site.clone(),
            key: Arc::clone(key),
        };
        Self(RefCell::new(Way::Ahead(Box::new(ahead))))
    }

    /// Whom to ask, and how.
    pub(crate) fn question(&self, worker: &Worker) -> Option<Rc<Question>> {
        let mut way = self.0.borrow_mut();
        if let Way::Ahead(ahead) = &mut *way {
            let question = ahead.ask(worker).map(Rc::new);
            *way = Way::Known(question);
        }
        match &*way {
            Way::Known(question) => question.clone(),
            Way::Ahead(_) => None,
        }
    }
}

impl Ahead {
    /// Asks the policy, as at the beginning of any fetch.
    fn ask(&mut self, worker: &Worker) -> Option<Question> {
        let id = worker.next_id();
        if let Some(transcript) = self.transcript.upgrade() {
            transcript.note(Tag::Link, format_args!("bereq {id} fetch"));
        }
        let scribe = worker.shared.scribe.as_ref();
        let transcript =
            Transcript::begin(scribe, Side::Backend, id, "bereq", self.parent, "fetch");
        transcript.note_start();
        let request = std::mem::take(&mut self.request);
        let mut task = FetchTask {
            client_address: self.client_address,
            server_address: self.server_address,
            state: self.state.take(),
            origin: self.origin.clone(),
            goes_to_siblings: self.goes_to_siblings,
            sent_target: self.sent_target.take(),
            ..FetchTask::new(id, Rc::new(transcript), FetchKind::Miss, request, &self.site)
        };
        task.transcript.lead(&mut task.request.fields);
        task.transcript.request(Message::OriginRequest, &task.request);
        let site = self.site.clone();
        let policy = &*site.policy;
        match policy.backend_fetch(&mut task) {
            BackendFetch::Fetch => {
                super::prepare::without_spaces(&mut task.request);
                Some(Question::of(&task, &self.key, None))
            }
            BackendFetch::Abandon | BackendFetch::Error(..) => None,
        }
    }
}
