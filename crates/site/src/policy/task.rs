//! What a policy sees and may change: the client's side of a request and the fetch's.

use crate::durability::Durability;
use crate::nesting::Nesting;
use crate::shares::Share;
use crate::sites::SiteRef;
use bytes::Bytes;
use freshet_access::client::Client;
use freshet_access::doors::Places;
use freshet_access::identity::Identity;
use freshet_access::ledger::network::Network;
use freshet_access::ledger::requests::Charge;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Form, LeftBy, Object};
use freshet_channels::{Advice, Seen};
use freshet_config::storage::Storage;
use freshet_content::chain::Filter;
use freshet_http::coding::{Accepted, Coding};
use freshet_http::freshness::Freshness;
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_origin::{Claim, Origin, Terms, Waits};
use freshet_telemetry::transcript::{Tag, Transcript};
use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A client's request on its way.
pub struct ClientTask {
    /// The request's number; a restarted one gets another.
    pub id: u64,
    /// The request; a policy may change it.
    pub request: RequestHead,
    /// Whether the client gets content: it did not ask with HEAD, whatever a policy made of that.
    pub wants_content: bool,
    /// Whether a body comes with it.
    pub has_body: bool,
    /// Whether it was told that the body was read.
    pub is_body_told: bool,
    /// All of the body, where it is kept; empty where there is none.
    pub kept_body: Option<Bytes>,
    /// Whether the client asks for another protocol on this connection (`Upgrade`).
    pub upgrade: bool,
    /// The connection it came over.
    pub client: Rc<Client>,
    /// What happens to the request.
    pub transcript: Rc<Transcript>,
    /// What is told of the request to an origin where the connection becomes a tunnel.
    pub pipe: Option<Rc<Transcript>>,
    /// When the request arrived.
    pub received: UnixMillis,
    /// When it came to where it is.
    pub now: UnixMillis,
    /// How often it was restarted.
    pub restarts: u32,
    /// Look-up finds nothing, but what is fetched is kept (`req.hash_always_miss`).
    pub hash_always_miss: bool,
    /// Look-up does not wait for others' fetches (`req.hash_ignore_busy`).
    pub hash_ignore_busy: bool,
    /// Look-up takes any variant of the resource (`req.hash_ignore_vary`).
    pub hash_ignore_vary: bool,
    /// Which fetch says that requests like this do not wait for one another, where look-up found that.
    pub left_by: Option<LeftBy>,
    /// How long a tunnel may last that the connection becomes, where a policy has said so.
    pub tunnel_lasts_max: Option<Duration>,
    /// How long the tunnel's connection is waited for, where a policy has said so.
    pub tunnel_waits: Waits,
    /// Objects older than this are not fresh to this request (`req.ttl`).
    pub ttl_max: Option<Duration>,
    /// Objects are served stale no longer than this (`req.grace`).
    pub grace_max: Option<Duration>,
    /// Fields that are sent on though `Connection` names them: the policy has set them.
    pub spared: Vec<Box<str>>,
    /// The configuration this request began with.
    pub site: SiteRef,
    /// The request before its policy changed it, where what it leads to may be asked for before a client
    /// does.
    pub came: Option<Rc<RequestHead>>,
    /// Whether no client has asked for it yet.
    pub is_ahead: bool,
    /// Why the last decision fell, for Cache-Status, log and explain.
    pub reason: Reason,
    /// Where the request is an include of a page: which.
    pub nesting: Option<Rc<Nesting>>,
    /// What it is charged of the memory, where it came over a connection.
    pub charge: Option<Rc<Charge>>,
    /// Whom it was let in as, where it had to say.
    pub identity: Option<Rc<Identity>>,
    /// What is done to a stored body on its way to the client.
    pub shaping: Shaping,
    /// What a policy keeps from state to state.
    pub state: Option<Box<dyn Any>>,
    /// What a policy purged or banned, which is durable before the request is answered.
    pub durability: Option<Box<Durability>>,
}

impl ClientTask {
    /// A request that came over no connection.
    pub fn of_nobody(site: SiteRef, request: RequestHead, now: UnixMillis) -> Self {
        // The policy sees a client on this machine.
        let address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Self {
            received: now,
            pipe: None,
            is_body_told: false,
            id: 0,
            transcript: Rc::default(),
            wants_content: request.method != Method::Head,
            request,
            has_body: false,
            kept_body: None,
            upgrade: false,
            client: Rc::new(Client { address, ..Client::default() }),
            now,
            restarts: 0,
            hash_always_miss: false,
            hash_ignore_busy: false,
            hash_ignore_vary: false,
            left_by: None,
            tunnel_lasts_max: None,
            tunnel_waits: Waits::default(),
            ttl_max: None,
            grace_max: None,
            spared: Vec::new(),
            site,
            came: None,
            is_ahead: false,
            reason: Reason::Miss,
            nesting: None,
            charge: None,
            identity: None,
            shaping: Shaping::default(),
            state: None,
            durability: None,
        }
    }

    /// Whom a fetch for it asks, unless a policy has another word for that.
    #[inline]
    pub fn origin(&self) -> OriginChoice {
        let places = self.identity.as_ref().and_then(|identity| identity.places.clone());
        places.map_or_else(OriginChoice::default, OriginChoice::Among)
    }

    /// Tells, once, that the request's body was read, into this part of the memory.
    #[inline]
    pub fn note_body_read(&mut self, kind: &str, share: &str) {
        if !self.has_body || std::mem::replace(&mut self.is_body_told, true) {
            return;
        }
        if self.site.semantics.pages_failures {
            self.transcript.note(Tag::Storage, format_args!("{kind} {share}"));
            self.transcript.timestamp("ReqBody");
        }
    }

    /// Says in the request which coding its client is to get, where bodies are kept in several;
    /// whether they are.
    #[inline]
    pub fn name_coding(&mut self) -> bool {
        let codings = &self.site.codings;
        if codings.is_empty() {
            return false;
        }
        let words = Accepted::of(&self.request.fields).words(codings);
        self.request.fields.set("Accept-Encoding", words);
        true
    }
}

/// What may be done to a stored body on its way to a client, where there is occasion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shaping {
    /// Includes are put in.
    pub esi: bool,
    /// gzip is taken off for a client without.
    pub gunzip: bool,
    /// Ranges are looked at.
    pub range: bool,
    /// Whether a policy named what is to be done.
    pub is_chosen: bool,
}

impl Default for Shaping {
    fn default() -> Self {
        Self { esi: true, gunzip: true, range: true, is_chosen: false }
    }
}

/// What a fetch is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FetchKind {
    /// To fill the cache, with clients waiting.
    Miss,
    /// For one client, nothing kept.
    Pass,
    /// To refresh an object that is served meanwhile.
    Background,
}

/// A request to an origin on its way.
pub struct FetchTask {
    /// The fetch's number; a retried one gets another.
    pub id: u64,
    /// What happens to the fetch.
    pub transcript: Rc<Transcript>,
    /// The request for the origin; a policy may change it.
    pub request: RequestHead,
    /// What it is for.
    pub kind: FetchKind,
    /// The coding its body is to be kept in, where it is one that is coded here.
    pub coding: Coding,
    /// The address of the client that caused it.
    pub client_address: Option<SocketAddr>,
    /// Time of the last event.
    pub now: UnixMillis,
    /// How often it was retried.
    pub retries: u32,
    /// Which origin is asked.
    pub origin: OriginChoice,
    /// The address of the origin that answered.
    pub origin_address: Option<SocketAddr>,
    /// Whether the client's body is not to be sent.
    pub body_dropped: bool,
    /// Whether what comes is not to be kept, as far as is known.
    pub is_uncacheable: bool,
    /// Whether others wait for it, to whom a page in the place of its answer may be given as well.
    pub is_awaited: bool,
    /// Where the client reached the node, for origins that are told of it.
    pub server_address: Option<SocketAddr>,
    /// How long the origin is waited for, where that is not what its settings say.
    pub waits: Waits,
    /// Whether it is not sent again where the connection it went over turns out to be dead.
    pub is_sent_once: bool,
    /// Whether a player is about to stand still without it, as that says.
    pub is_urgent: bool,
    /// Whether other nodes of this place may be asked, as for what is nothing to one client alone.
    pub goes_to_siblings: bool,
    /// What they are asked for then, where that is another target: they do with a request what this node did.
    pub sent_target: Option<String>,
    /// The configuration this request began with.
    pub site: SiteRef,
    /// What a policy keeps from state to state.
    pub state: Option<Box<dyn Any>>,
}

impl FetchTask {
    /// A fetch that has asked nobody yet, now.
    pub fn new(
        id: u64,
        transcript: Rc<Transcript>,
        kind: FetchKind,
        request: RequestHead,
        site: &SiteRef,
    ) -> Self {
        Self {
            id,
            transcript,
            request,
            kind,
            coding: Coding::Gzip,
            client_address: None,
            now: UnixMillis::now(),
            retries: 0,
            origin: OriginChoice::default(),
            origin_address: None,
            body_dropped: false,
            is_uncacheable: kind == FetchKind::Pass,
            is_awaited: false,
            server_address: None,
            waits: Waits::default(),
            is_sent_once: false,
            is_urgent: false,
            goes_to_siblings: false,
            sent_target: None,
            site: site.clone(),
            state: None,
        }
    }

    /// The terms an origin is asked on.
    pub fn terms(&self) -> Terms {
        let ends = self.client_address.zip(self.server_address);
        let prefixes = self.site.node().settings.limits.network;
        let network = Network::of(self.client_address.map(|address| address.ip()), prefixes);
        let party = network.party(self.site.settings.limits.origin_network_percent);
        let limits = self.site.response_limits;
        let is_sent_once = self.is_sent_once;
        let claim = Claim { site: self.site.index(), is_urgent: self.is_urgent };
        Terms { waits: self.waits, ends, limits, party: Some(party), claim, is_sent_once }
    }
}

/// An origin's answer, with what is to become of it.
pub struct Answer {
    /// The response; a policy may change it.
    pub head: ResponseHead,
    /// How long it is fresh and what is allowed afterwards.
    pub freshness: Freshness,
    /// Set where it may not be kept, and why.
    pub uncacheable: Option<Reason>,
    /// Whether it was a 304 for a stored object.
    pub was_not_modified: bool,
    /// Where it may not be kept: for how long requests for it do not wait for one another; the
    /// configuration's span where `None`.
    pub hit_for_miss: Option<Duration>,
    /// Whether clients get the body while it arrives; otherwise, where it is kept, when it is all
    /// there.
    pub stream: bool,
    /// Where it may be kept.
    pub storage: Storage,
    /// How long it is kept beyond what else can be done with it, to be validated; `None` for as long
    /// as there is memory.
    pub keep: Option<Duration>,
    /// The part of the memory it comes out of, where there are parts.
    pub share: Option<Arc<Share>>,
    /// What is done to the body before it is kept, in this order.
    pub filters: Vec<Filter>,
    /// What follows from the channel it belongs to, where it does.
    pub media: Option<Advice>,
    /// That it is held to be read as a manifest.
    pub manifest: Option<Seen>,
    /// Whether a policy has said how long it lives: nothing that is found out later changes that.
    pub has_own_life: bool,
    /// Whether clients get it in a coding they take whichever it is kept in, so that
    /// `Accept-Encoding` does not select it.
    pub any_coding: bool,
    /// Whether it is a part that its policy wants a page made of, which is a mistake where it has a body.
    pub is_part_of_page: bool,
}

impl Answer {
    /// An answer that may be kept as the configuration says, and comes as it is.
    pub fn new(head: ResponseHead, freshness: Freshness) -> Self {
        Self {
            head,
            freshness,
            uncacheable: None,
            was_not_modified: false,
            hit_for_miss: None,
            stream: true,
            storage: Storage::default(),
            keep: None,
            share: None,
            filters: Vec::new(),
            media: None,
            manifest: None,
            has_own_life: false,
            any_coding: false,
            is_part_of_page: false,
        }
    }
}

/// Which origin a fetch asks.
#[derive(Clone, Default)]
pub enum OriginChoice {
    /// The director's choice, and the next ones where that cannot be reached.
    #[default]
    Director,
    /// This one.
    Exactly(Arc<Origin>),
    /// One of these, and the next one where that cannot be reached.
    Among(Arc<Places>),
    /// None: the fetch fails, for this reason.
    Nobody(Box<str>),
}

/// The fetch behind a response that is not kept.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its number.
    pub id: u64,
    /// How long the response would be of use.
    pub freshness: Freshness,
    /// How long it would be kept beyond that, to be asked about.
    pub keep: Duration,
    /// Whether it was not to be kept, whatever that would have been good for.
    pub is_uncacheable: bool,
    /// Whether somebody keeps it besides memory, which has no room for it.
    pub is_kept: bool,
}

/// What a response on its way to a client is made from.
#[derive(Clone, Copy)]
pub struct Served<'a> {
    /// The object; `None` for what was not kept.
    pub object: Option<&'a Object>,
    /// Whether it was there before the request.
    pub hit: bool,
    /// Why the response is what it is.
    pub reason: Reason,
    /// How the body is kept, or was made while it passes.
    pub form: Form,
    /// Whether it has fields that are for caches only ([`freshet_http::hop_by_hop`]).
    pub for_caches: bool,
    /// The fetch behind what was not kept.
    pub made: Option<&'a Made>,
    /// Bytes of the whole body, where they are known.
    pub length: Option<u64>,
}
