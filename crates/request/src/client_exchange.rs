//! A request and its response, the same for every protocol: what sessions hand to
//! `machine`, and get back from it.

use crate::delivery::ResponseBody;
use freshet_access::client::Client;
use freshet_access::identity::Identity;
use freshet_access::ledger::requests::Charge;
use freshet_base::clock::UnixMillis;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_limits::Held;
use freshet_origin::raw::RawConnection;
use freshet_site::client_body::RequestBody;
use freshet_site::interim::Interim;
use freshet_site::nesting::Nesting;
use freshet_site::sites::SiteRef;
use freshet_telemetry::transcript::{Tag, Transcript};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A client's request.
pub struct Request {
    /// Its number.
    pub id: u64,
    /// What happens to it.
    pub transcript: Rc<Transcript>,
    /// Its head.
    pub head: RequestHead,
    /// Its body, where one comes.
    pub body: Option<RequestBody>,
    /// Whether the client asks for another protocol on this connection.
    pub upgrade: bool,
    /// The connection.
    pub client: Rc<Client>,
    /// When its head was complete, by the wall clock.
    pub received: UnixMillis,
    /// The same by the monotonic clock.
    pub started: Instant,
    /// Where interim responses for the client go.
    pub interim: Interim,
    /// Where it is an include of a page: which.
    pub nesting: Option<Rc<Nesting>>,
    /// Whether a player says something of itself with it, where its site looks at that.
    pub has_player: bool,
    /// What it is charged of the memory, where it came over a connection.
    pub charge: Option<Rc<Charge>>,
}

/// What a request comes to.
pub enum Reply {
    /// A response.
    Response(Box<Response>),
    /// The connection becomes a tunnel.
    Tunnel(Box<Switch>),
    /// Nothing is said, and the connection ends.
    Hangup(Unsaid),
}

impl Reply {
    /// The reply to a request that has no connection of its own to give away or to end: its status,
    /// and nothing else.
    pub fn into_response(self) -> Box<Response> {
        let (head, facts) = match self {
            Self::Response(response) => return response,
            Self::Tunnel(switch) => {
                (switch.head.unwrap_or_else(|| ResponseHead::new(200)), switch.facts)
            }
            Self::Hangup(Unsaid { status, facts }) => (ResponseHead::new(status), facts),
        };
        Box::new(Response::new(head, ResponseBody::Empty, None, facts))
    }

    /// How it came about.
    #[inline]
    pub fn facts_mut(&mut self) -> &mut Facts {
        match self {
            Self::Response(response) => &mut response.facts,
            Self::Tunnel(switch) => &mut switch.facts,
            Self::Hangup(unsaid) => &mut unsaid.facts,
        }
    }
}

/// A connection that becomes a tunnel.
pub struct Switch {
    /// What the client is told first; `None` where its request itself is tunnelled, and the origin
    /// answers it.
    pub head: Option<ResponseHead>,
    /// The other end.
    pub tunnel: Tunnel,
    /// For logs and counters.
    pub facts: Facts,
}

/// The origin's end of a connection that becomes a tunnel.
pub struct Tunnel {
    /// The connection.
    pub connection: RawConnection,
    /// What goes first: the request's head, where the client's request itself is tunnelled.
    pub first: Vec<u8>,
    /// One in which nothing moves for this long is ended.
    pub idle: Duration,
    /// One that lasts for this long is ended, whatever moves in it.
    pub lasts_max: Option<Duration>,
    /// What is told at its end, where somebody wants to know.
    pub record: Option<PipeRecord>,
}

/// Tells of a tunnel when that is over.
pub struct PipeRecord {
    /// What happens to its request.
    pub(crate) transcript: Rc<Transcript>,
    /// The name of the origin, where one was reached.
    pub(crate) origin: Option<Arc<str>>,
}

impl Drop for PipeRecord {
    fn drop(&mut self) {
        if let Some(origin) = &self.origin {
            let text = format_args!("0 {origin} close Piped transaction");
            self.transcript.note(Tag::BackendClose, text);
        }
        // What went through is the request's.
        self.transcript.note(Tag::BereqAcct, format_args!("0 0 0 0 0 0"));
    }
}

/// A response that nobody gets.
pub struct Unsaid {
    /// The status it would have.
    pub status: u16,
    /// For logs and counters.
    pub facts: Facts,
}

/// The node's answer.
pub struct Response {
    /// Status and fields, complete but for framing.
    pub head: ResponseHead,
    /// Where the body comes from.
    pub body: ResponseBody,
    /// Length of the body; for HEAD, of the body a GET would get. `None` where it is not known or
    /// the status has none.
    pub length: Option<u64>,
    /// Whether the body is under gzip that the node put on or has checked.
    pub is_packed: bool,
    /// For logs and counters.
    pub facts: Facts,
}

impl Response {
    /// A response whose body is as it is.
    #[inline]
    pub fn new(head: ResponseHead, body: ResponseBody, length: Option<u64>, facts: Facts) -> Self {
        Self { head, body, length, is_packed: false, facts }
    }
}

/// How a response came about.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Why it is what it is.
    pub reason: Reason,
    /// Whether the body came from the cache without waiting for an origin. [`Reason::is_hit`] is more:
    /// it also has who waited for what another's fetch brought.
    pub hit: bool,
    /// The origin asked, if any.
    pub origin: Option<Arc<str>>,
    /// The site, where the request was for one.
    pub site: Option<SiteRef>,
    /// That it counts as under way, for limits on that.
    pub under_way: Option<Rc<[Held]>>,
    /// Whom the request was let in as, where it had to say.
    pub identity: Option<Rc<Identity>>,
    /// When the origin answered that had held a request for news of a playlist back, which this was for.
    pub news_at: Option<UnixMillis>,
}

impl Facts {
    /// Facts of a response without an origin.
    #[inline]
    pub fn local(reason: Reason) -> Self {
        Self {
            reason,
            hit: false,
            origin: None,
            site: None,
            under_way: None,
            identity: None,
            news_at: None,
        }
    }
}
