//! The policy: what to do with a request at each of its states.
//!
//! The states and their actions are those of VCL (`vcl_recv` is [`Policy::recv`] and so on), so
//! that a VCL program is one implementation of [`Policy`], and what follows RFC 9111 is another. The
//! machines of requests and fetches run the states; a policy only answers. It never waits, does no I/O, and takes the time from its task.

mod task;

pub use task::{Answer, ClientTask, FetchKind, FetchTask, Made, OriginChoice, Served, Shaping};

use crate::semantics::{self, Semantics};
use crate::site::Site;
use crate::synthetic::Synthetic;
use freshet_access::client::Client;
use freshet_cache::{KeyBuilder, Object};
use freshet_http::fields::Fields;
use freshet_http::freshness::Freshness;
use freshet_http::message::{RequestHead, ResponseHead};
use std::any::Any;
use std::time::Duration;

/// Decisions at every state of a request.
pub trait Policy: Any + Send + Sync {
    /// What it is called where it is logged which policy is used, by a request or by the fetch whose
    /// state this is.
    fn name<'a>(&'a self, fetch: Option<&'a dyn Any>) -> Option<&'a str> {
        let _ = fetch;
        None
    }
    /// A request has arrived, or was restarted.
    fn recv(&self, task: &mut ClientTask) -> Recv;
    /// What the request's cache key is made of. Always asked, also before pass and purge.
    fn hash<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a>;
    /// The same after the request was changed behind [`recv`](Self::recv).
    fn hash_again<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a> {
        self.hash(task, key)
    }
    /// An object was found and may be served.
    fn hit(&self, task: &mut ClientTask, object: &Object) -> Hit;
    /// Nothing was found: it is about to be fetched.
    fn miss(&self, task: &mut ClientTask) -> Miss;
    /// The request is about to be passed to an origin.
    fn pass(&self, task: &mut ClientTask) -> Pass;
    /// The connection is about to become a tunnel.
    fn pipe(&self, task: &mut ClientTask) -> Pipe;
    /// The origin that gets the bytes of a connection as they come, head and all, where the policy
    /// wants that of a tunnel. `None`: the client's wish for another protocol goes to an origin as a
    /// request, and it becomes a tunnel if that agrees.
    fn tunnel_origin(&self, task: &mut ClientTask) -> Option<OriginChoice> {
        let _ = task;
        None
    }
    /// What [`Recv::PassNoted`] asked about is over, or holds: what is done then.
    fn pass_noted(&self, task: &mut ClientTask, is_over: bool) -> Recv {
        let _ = task;
        if is_over { Recv::Hash } else { Recv::Pass }
    }
    /// `objects` variants of the request's key were purged.
    fn purge(&self, task: &mut ClientTask, objects: usize) -> Purge;
    /// The response is about to be sent; its head may be changed.
    fn deliver(
        &self,
        task: &mut ClientTask,
        response: &mut ResponseHead,
        served: Served<'_>,
    ) -> Deliver;
    /// A response of our own is about to be sent.
    fn synth(&self, task: &mut ClientTask, response: &mut Synthetic) -> Deliver;
    /// A fetch is about to begin for this request: what the policy wants to know in the fetch's
    /// states.
    fn begin_fetch(&self, task: &mut ClientTask, kind: FetchKind) -> Option<Box<dyn Any>> {
        let _ = (task, kind);
        None
    }
    /// The target as the client sent it, where the policy has given the request another: what a node is asked for
    /// that does the same with it.
    fn sent_target<'a>(&self, task: &'a ClientTask) -> Option<&'a str> {
        let _ = task;
        None
    }
    /// Whether it sends a request elsewhere, whoever asks: nobody has to say who they are for that, over a
    /// connection that may be in the clear.
    fn leads_elsewhere(&self, site: &Site, request: &RequestHead) -> bool {
        let _ = (site, request);
        false
    }
    /// Whether a client may purge what a request names, by where it is: it says nothing of who it is for that.
    fn lets_purge(&self, site: &Site, client: &Client, request: &RequestHead) -> bool {
        let _ = (site, client, request);
        false
    }
    /// Whether it has a word on a field of requests that are for all, by its name in small letters.
    fn writes(&self, site: &Site, name: &[u8]) -> bool {
        let _ = (site, name);
        false
    }
    /// Brings fields in line as it does for an origin that is asked for all, as far as that is known of
    /// a request before it goes there: by them, `Vary` selects.
    fn write(&self, task: &ClientTask, fields: &mut Fields) {
        let _ = (task, fields);
    }
    /// What the machine does beside it.
    fn semantics(&self) -> Semantics {
        semantics::RFC_9111
    }
    /// Whether responses may have includes, for which requests are kept as they came.
    fn includes(&self) -> bool {
        false
    }
    /// Whether it may make objects leave while they are being served.
    fn may_purge(&self) -> bool {
        false
    }
    /// Whether it changes how clients' connections send, or asks about them.
    fn controls_connections(&self) -> bool {
        false
    }
    /// Whether the bodies of requests are to be read before it is asked.
    fn keeps_body(&self) -> bool {
        false
    }
    /// A request is about to go to an origin; it may be changed.
    fn backend_fetch(&self, task: &mut FetchTask) -> BackendFetch;
    /// An origin answered: how long may the answer be kept?
    fn backend_response(&self, task: &mut FetchTask, answer: &mut Answer) -> BackendResponse;
    /// No origin answered, or none usefully; `response` is what clients get.
    fn backend_error(&self, task: &mut FetchTask, response: &mut Synthetic) -> BackendError;
}

/// After [`Policy::recv`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Recv {
    /// Look it up.
    Hash,
    /// Ask the origin and keep nothing.
    Pass,
    /// The same while that is remembered of the response of the fetch with this number: [`Policy::pass_noted`] is
    /// told.
    PassNoted(u64),
    /// Make the connection a tunnel.
    Pipe,
    /// Forget the target.
    Purge,
    /// Begin again.
    Restart,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
    /// Say nothing, and end the connection: the request's body could not be kept for the policy.
    Hangup,
}

/// After [`Policy::hit`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hit {
    /// Serve the object.
    Deliver,
    /// Ask the origin and keep nothing.
    Pass,
    /// Begin again at [`Policy::recv`].
    Restart,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
}

/// After [`Policy::miss`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Miss {
    /// Fetch it for the cache.
    Fetch,
    /// Ask the origin and keep nothing.
    Pass,
    /// Begin again at [`Policy::recv`].
    Restart,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
}

/// After [`Policy::pass`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Pass {
    /// Ask the origin.
    Fetch,
    /// Begin again at [`Policy::recv`].
    Restart,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
}

/// After [`Policy::pipe`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Pipe {
    /// Make the connection a tunnel.
    Pipe,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
}

/// After [`Policy::purge`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Purge {
    /// Begin again at [`Policy::recv`].
    Restart,
    /// Answer with this status.
    Synth(u16, Option<Box<str>>),
}

/// After [`Policy::deliver`] and [`Policy::synth`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Deliver {
    /// Send it.
    Deliver,
    /// Begin again at [`Policy::recv`].
    Restart,
    /// Answer with this status instead.
    Synth(u16, Option<Box<str>>),
    /// Send its head with the page of the site in the place of its body.
    Dress,
}

/// After [`Policy::backend_fetch`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BackendFetch {
    /// Send the request.
    Fetch,
    /// Do not; the client gets a 503.
    Abandon,
    /// Answer with this status as if the origin had.
    Error(u16, Option<Box<str>>),
}

/// After [`Policy::backend_response`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BackendResponse {
    /// Take the answer, and keep it unless it is marked uncacheable.
    Deliver,
    /// Send the request again.
    Retry,
    /// Drop the answer; the client gets a 503.
    Abandon,
    /// Answer with this status as if the origin had.
    Error(u16, Option<Box<str>>),
}

/// After [`Policy::backend_error`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BackendError {
    /// Give this response to the waiting clients, or a stale object where one may be used.
    Deliver,
    /// Give this response to the client that asked, whatever is stored; others that ask for it look again. Where it
    /// has a life, and so much of a keep behind that, they do not wait for one another until that is over.
    Page(Option<(Freshness, Duration)>),
    /// Keep this response for as long as this, behind that for so long as something to be validated, and give
    /// it to the waiting clients.
    Keep(Freshness, Duration),
    /// Send the request again.
    Retry,
    /// Give nothing; the clients get a 503.
    Abandon,
}
