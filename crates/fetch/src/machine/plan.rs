//! What to fetch, and for whom.

use super::prepare;
use super::selecting;
use freshet_access::ledger::requests::Charge;
use freshet_cache::{Key, Object, Ticket};
use freshet_http::coding::Coding;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead};
use freshet_http::reason::Reason;
use freshet_media::cmcd;
use freshet_site::client_body::RequestBody;
use freshet_site::interim::Interim;
use freshet_site::policy::{ClientTask, FetchKind, OriginChoice};
use freshet_site::sites::SiteRef;
use freshet_telemetry::transcript::Transcript;
use freshet_worker::errands::Errand;
use std::any::Any;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// What to fetch and for whom.
pub struct Plan {
    /// The request it is for.
    pub(super) parent: u64,
    /// What happens to that request.
    pub(super) transcript: Rc<Transcript>,
    pub(super) kind: FetchKind,
    /// What the policy keeps for the fetch.
    pub(super) state: Option<Box<dyn Any>>,
    /// The request for the origin.
    pub(super) request: RequestHead,
    /// The client's, whose fields decide storability.
    pub(super) client: RequestHead,
    /// Those that decide which variant an answer is, where they are others.
    selecting: Option<Fields>,
    /// Whether the origin hears of who the client is, so that its answer is nothing for others.
    pub(super) names_client: bool,
    /// Whether the origin does not hear of the port that the client came to.
    pub(super) hides_port: bool,
    pub(super) client_address: Option<SocketAddr>,
    /// Where the client reached the node.
    pub(super) server_address: Option<SocketAddr>,
    /// Whom it asks, unless a policy has another word for that.
    pub(super) origin: OriginChoice,
    /// Whether other nodes of this place are among those, and for which target.
    pub(super) goes_to_siblings: bool,
    pub(super) sent_target: Option<String>,
    pub(super) site: SiteRef,
    pub(super) key: Arc<Key>,
    /// The turn to fetch; `None` for a pass.
    pub(super) ticket: Option<Ticket>,
    /// An object to validate, or to serve if the origin fails.
    pub(super) stale: Option<Arc<Object>>,
    pub(super) body: Option<RequestBody>,
    /// What the request is charged of the memory: a fetch may outlive it.
    #[expect(dead_code, reason = "it is there until the fetch ends")]
    charge: Option<Rc<Charge>>,
    /// What counts it, where nobody has asked for it yet.
    errand: Option<Rc<Errand>>,
    /// The client's request before its policy changed it, where that was kept.
    pub(super) came: Option<Rc<RequestHead>>,
    /// Where interim responses go.
    pub(super) interim: Option<Interim>,
    pub(super) reason: Reason,
    /// Whether the player that waits for it is about to stand still, as it says.
    pub(super) is_urgent: bool,
}

/// A share of what may be fetched ahead at a time.
pub(super) struct Allowance {
    errand: Rc<Errand>,
    bytes_max: u64,
}

impl Allowance {
    /// Whether it covers a body of so many bytes, which are counted then.
    pub(super) fn covers(&self, bytes: u64) -> bool {
        self.errand.holds(bytes, self.bytes_max)
    }
}

impl Plan {
    /// To fill the cache for a request that found nothing it could be served, or only `stale`.
    pub fn miss(
        task: &mut ClientTask,
        key: Arc<Key>,
        ticket: Ticket,
        stale: Option<Arc<Object>>,
    ) -> Self {
        let begun = Self::begin(task, key, FetchKind::Miss);
        let request = prepare::for_miss(task, stale.as_deref());
        Self { request, ticket: Some(ticket), stale, ..begun }
    }

    /// To renew an object that is served meanwhile.
    pub fn refresh(task: &mut ClientTask, ticket: Ticket, object: &Arc<Object>) -> Self {
        let begun = Self::begin(task, Arc::clone(object.key()), FetchKind::Background);
        let request = prepare::for_miss(task, Some(object));
        let stale = Some(Arc::clone(object));
        Self { request, ticket: Some(ticket), stale, reason: Reason::HitStale, ..begun }
    }

    /// To fill the cache with what nobody has asked for yet.
    pub(super) fn ahead(task: &mut ClientTask, key: Arc<Key>, ticket: Ticket) -> Self {
        let begun = Self::begin(task, key, FetchKind::Background);
        let request = prepare::for_miss(task, None);
        Self { request, ticket: Some(ticket), reason: Reason::Miss, ..begun }
    }

    /// For one client, of which nothing is kept.
    pub fn pass(task: &mut ClientTask, key: Arc<Key>) -> Self {
        let begun = Self::begin(task, key, FetchKind::Pass);
        Self { request: prepare::for_pass(task), ..begun }
    }

    /// For one client whose connection is to become a tunnel, which `request` asks for.
    pub fn pipe(task: &mut ClientTask, key: Arc<Key>, request: RequestHead) -> Self {
        let begun = Self::begin(task, key, FetchKind::Pass);
        Self { request, reason: Reason::Pipe, ..begun }
    }

    /// Counted as fetched ahead.
    #[must_use]
    pub(super) fn on(self, errand: Errand) -> Self {
        Self { errand: Some(Rc::new(errand)), ..self }
    }

    /// Fields that decide which variant an answer is.
    pub(super) fn selecting(&self) -> &Fields {
        self.selecting.as_ref().unwrap_or(&self.client.fields)
    }

    /// Whether nobody has asked for it yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.errand.is_some()
    }

    /// What its body may come to as long as nobody asks for it; `None` where somebody has.
    pub(super) fn allowance(&self) -> Option<Allowance> {
        let is_wanted = self.ticket.as_ref().is_some_and(|ticket| ticket.waiters() > 0);
        let errand = self.errand.clone().filter(|_| !is_wanted)?;
        Some(Allowance { errand, bytes_max: self.site.settings.media.ahead_bytes })
    }

    /// With a body for the origin.
    #[must_use]
    pub fn with_body(self, body: Option<RequestBody>) -> Self {
        Self { body, ..self }
    }

    /// With somebody who is told what the origin says before its answer.
    #[must_use]
    pub fn telling(self, interim: &Interim) -> Self {
        Self { interim: Some(interim.clone()), ..self }
    }

    /// The coding its body is to be kept in, where it is one that is coded here. What is for one
    /// client is not worth more time than gzip takes.
    pub(super) fn coding(&self) -> Coding {
        match self.kind {
            FetchKind::Miss | FetchKind::Background if !self.site.codings.is_empty() => {
                Coding::first(&self.client.fields)
            }
            _ => Coding::Gzip,
        }
    }

    /// What is the same for all, with the policy asked what it wants to know later.
    fn begin(task: &mut ClientTask, key: Arc<Key>, kind: FetchKind) -> Self {
        let site = task.site.clone();
        let state = site.policy.begin_fetch(task, kind);
        let client = match kind {
            FetchKind::Pass => task.request.clone(),
            FetchKind::Miss | FetchKind::Background => prepare::for_all(task),
        };
        // The answer to POST may be for a later GET (RFC 9110 §9.3.3).
        let may_be_kept = kind != FetchKind::Pass || task.request.method == Method::Post;
        Self {
            parent: task.id,
            transcript: Rc::clone(&task.transcript),
            kind,
            state,
            request: RequestHead::default(),
            hides_port: client.authority != task.request.authority,
            client,
            selecting: (may_be_kept && !site.semantics.judges_by_client)
                .then(|| selecting::sent(task)),
            names_client: kind == FetchKind::Pass && prepare::names_client(task),
            client_address: task.client.address,
            server_address: task.client.local_address,
            origin: task.origin(),
            goes_to_siblings: prepare::goes_to_siblings(task, kind),
            sent_target: prepare::sent_target(task),
            site,
            key,
            ticket: None,
            stale: None,
            body: None,
            charge: task.charge.clone(),
            errand: None,
            came: task.came.clone(),
            interim: None,
            reason: task.reason,
            is_urgent: kind != FetchKind::Background && is_urgent(task),
        }
    }
}

/// Whether the player that sent a request says that it is about to stand still.
fn is_urgent(task: &ClientTask) -> bool {
    let RequestHead { target, fields, .. } = &task.request;
    task.site.settings.media.read && cmcd::of(target, fields, |said| said.is_urgent()) == Some(true)
}
