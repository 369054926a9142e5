//! Whether a request may go on, by who asks and what was asked for before: blocks,
//! `[[rate_limit]]`, `client_ca`, `[maintenance]`, `[[access]]` and `[[token]]`.

use crate::client_exchange::Request;
use freshet_access::client::Client;
use freshet_access::doors::{Aim, Asker, Page};
use freshet_access::identity::Identity;
use freshet_access::limiter::{SiteLimit, network_of, says_blocked};
use freshet_access::{certificates, tokens};
use freshet_base::clock::UnixMillis;
use freshet_config::rate_limits::{BlockRule, By};
use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;
use freshet_http::path;
use freshet_http::reason::Reason;
use freshet_limits::{Block, Cause, Held, Verdict, policy_field, retry_after_s, state_field};
use freshet_site::client_body::RequestBody;
use freshet_site::sites::SiteRef;
use freshet_site::synthetic::Synthetic;
use freshet_worker::worker::Worker;
use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// What became of a request's limits.
#[derive(Default)]
pub(super) struct Admission {
    /// Why it is refused, if it is, and with which status.
    pub(super) refusal: Option<(u16, Reason)>,
    /// That it is under way, until its response is sent.
    pub(super) held: Option<Rc<[Held]>>,
    /// What its client is told.
    told: Vec<(Cow<'static, str>, String)>,
    /// Whether a token of its own is in that.
    is_renewed: bool,
    /// What its client gets then, where somebody else has said so.
    pub(super) page: Option<Box<Synthetic>>,
    /// Whom it was let in as, where it had to say.
    pub(super) identity: Option<Rc<Identity>>,
}

/// Seconds after which a client may try again that has too much under way: nobody knows.
const CONCURRENT_RETRY: Duration = Duration::from_secs(1);

impl Admission {
    /// Refuses who asks too much, and says when to come again.
    fn hold_back(&mut self, wait: Duration) {
        self.refusal = Some((429, Reason::ClientTooMany));
        self.told.push(("Retry-After".into(), retry_after_s(wait).to_string()));
    }

    /// Says in a response what there is to say.
    pub(super) fn tell(&self, fields: &mut Fields) {
        for (name, value) in &self.told {
            fields.append(name.as_bytes(), value);
        }
        if self.is_renewed {
            // The response may be one for everybody, and a token is for one.
            fields.append_to_list("Cache-Control", b"private");
            fields.remove("cdn-cache-control");
        }
    }

    /// There is no more to say.
    pub(super) fn has_told(&mut self) {
        self.told.clear();
        self.is_renewed = false;
    }
}

/// Looks at a request. Includes of pages count with their page.
pub(super) async fn admit(worker: &Worker, site: &SiteRef, request: &mut Request) -> Admission {
    let mut admission = limit(worker, site, request);
    if let Some(page) = &request.nesting {
        admission.identity.clone_from(&page.identity);
        return admission;
    }
    if admission.refusal.is_some() {
        return admission;
    }
    // What comes without a length is counted as it comes.
    let length = request.body.as_ref().and_then(RequestBody::length);
    if length.is_some_and(|length| length > site.settings.limits.body_bytes_max) {
        worker.stats.requests_refused.increment();
        admission.refusal = Some((413, Reason::ClientBodyTooLarge));
        return admission;
    }
    let shown = request.client.shown.as_ref();
    if shown.is_some_and(|shown| worker.shared.refused_certificates.has(shown)) {
        worker.stats.requests_without_certificate.increment();
        admission.refusal = Some((403, Reason::CertificateWrong));
        return admission;
    }
    let has_doors = site.maintenance.is_on() || !site.access.is_empty();
    let aim = match has_doors || !site.tokens.is_empty() {
        true => aim_of(site, request),
        false => Aim::Content,
    };
    let mut identity = Identity::default();
    let is_of_site =
        |name: &str| worker.snapshot().sites.of(name).is_some_and(|other| other.name == site.name);
    if let Some(auth) = &site.client_auth
        && let Err(refusal) = certificates::admit(auth, &request.client, is_of_site)
    {
        worker.stats.requests_without_certificate.increment();
        admission.refusal = Some(refusal);
        return admission;
    }
    if has_doors {
        let (head, client) = (&mut request.head, &request.client);
        let asker = Asker {
            site: site.name.as_str(),
            loop_id: site.node().loop_id.as_bytes(),
            client_auth: site.client_auth.as_ref(),
            pool: &worker.pool,
            limiter: &worker.shared.limiter,
            calls: &worker.shared.calls,
        };
        // On the heap, so that requests to sites without doors have no room for it.
        let asked = Box::pin(site.doors().admit(asker, head, client, aim));
        match asked.await {
            Ok(let_in) => identity = let_in,
            Err(refused) => {
                count_refused(worker, refused.reason);
                admission.refusal = Some((refused.status, refused.reason));
                admission.told.extend(refused.told.map(|(name, value)| (name.into(), value)));
                let page = refused.page.map(|page| *page);
                admission.page = page.map(|Page { head, body }| Box::new(Synthetic { head, body }));
                let call = refused.call.map(|call| Identity { call: Some(call), ..identity });
                admission.identity = call.map(Rc::new);
                return admission;
            }
        }
    }
    if !site.tokens.is_empty() && aim != Aim::Elsewhere {
        let now_s = request.received.0 / 1000;
        let (head, client) = (&mut request.head, &request.client);
        let geo = &site.node().geo;
        let admitted = match aim {
            Aim::Purge => {
                tokens::take_out_of(&site.tokens, head);
                Ok(None)
            }
            _ => {
                let used = &worker.shared.used_tokens;
                tokens::admit((&site.tokens, geo), head, client, used, now_s)
            }
        };
        match admitted {
            Ok(None) => {}
            Ok(Some(granted)) => {
                let renewal = granted.renewal.map(|(name, value)| (name.into(), value));
                admission.is_renewed = renewal.is_some();
                admission.told.extend(renewal);
                identity.token = Some(granted.grant);
            }
            Err(refusal) => {
                worker.stats.requests_without_token.increment();
                admission.refusal = Some((refusal.status, refusal.reason));
                let challenge =
                    refusal.challenge.map(|text| ("WWW-Authenticate".into(), text.to_owned()));
                admission.told.extend(challenge);
            }
        }
    }
    if !identity.is_nobody() {
        admission.identity = Some(Rc::new(identity));
    }
    admission
}

fn aim_of(site: &SiteRef, Request { client, head, .. }: &Request) -> Aim {
    match () {
        () if site.policy.lets_purge(site, client, head) => Aim::Purge,
        () if site.policy.leads_elsewhere(site, head) => Aim::Elsewhere,
        () => Aim::Content,
    }
}

fn count_refused(worker: &Worker, reason: Reason) {
    let stats = &worker.stats;
    match reason {
        Reason::Maintenance => stats.requests_maintenance.increment(),
        Reason::NetworkDenied => stats.requests_denied.increment(),
        Reason::ClientTooMany => stats.requests_limited.increment(),
        Reason::ServiceRefused | Reason::Loop => stats.requests_refused_by_service.increment(),
        Reason::ServiceFailed => stats.access_service_failures.increment(),
        _ => stats.requests_without_password.increment(),
    }
}

fn limit(worker: &Worker, site: &SiteRef, request: &Request) -> Admission {
    let limiter = &worker.shared.limiter;
    let client = &request.client;
    if request.nesting.is_some() {
        return Admission::default();
    }
    let address = client.address.map(|address| address.ip());
    if limiter.blocked(address, Some(site.name.as_str())).is_some() {
        worker.stats.requests_blocked.increment();
        let refusal = Some((403, Reason::ClientBlocked));
        return Admission { refusal, ..Admission::default() };
    }
    // Who comes by way of a balancer has requests under way where others have connections.
    let open_max =
        client.forwarder.and_then(|_| worker.snapshot().settings.limits.connections_network_max);
    let has_limits = !site.rate_limits.is_empty() || open_max.is_some();
    if !has_limits || site.is_peer(client, &request.head.fields) {
        return Admission::default();
    }
    let mut check = Check { worker, site, request, address, held: Vec::new() };
    let mut admission = Admission::default();
    if let Some(most) = open_max {
        match limiter.connect(client.network, most) {
            Some(held) => check.held.push(held),
            None => {
                worker.stats.connections_network_refused.increment();
                admission.hold_back(CONCURRENT_RETRY);
                return admission;
            }
        }
    }
    for limit in site.rate_limits.iter() {
        if !check.concerns(limit) {
            continue;
        }
        if let Some(wait) = check.take(limit, &mut admission.told) {
            admission.hold_back(wait);
            break;
        }
    }
    if admission.refusal.is_none() && !check.held.is_empty() {
        admission.held = Some(check.held.into());
    }
    admission
}

/// The limits of a site that are for a request, as `freshet explain` says them.
pub(crate) fn limits_of(site: &SiteRef, head: &RequestHead) -> Vec<String> {
    let for_path = |limit: &&SiteLimit| path::begins_with(&head.target, &limit.settings.path);
    site.rate_limits.iter().filter(for_path).map(|limit| limit.settings.sentence()).collect()
}

struct Check<'a> {
    worker: &'a Worker,
    site: &'a SiteRef,
    request: &'a Request,
    address: Option<IpAddr>,
    held: Vec<Held>,
}

impl Check<'_> {
    fn concerns(&self, limit: &SiteLimit) -> bool {
        let except = |ip| limit.settings.except.iter().any(|network| network.contains(ip));
        path::begins_with(&self.request.head.target, &limit.settings.path)
            && !self.address.is_some_and(except)
    }

    /// The key a request counts under; `None` where it has none.
    fn key(&self, rule: u64, by: &By) -> Option<u64> {
        let limiter = &self.worker.shared.limiter;
        let head = &self.request.head;
        Some(match by {
            By::Client => limiter.key(rule, &self.request.client.network.to_bytes()),
            By::Site => limiter.key(rule, b""),
            By::Path => limiter.key(rule, &path::plain(path::path_of(&head.target))),
            By::Header(name) => limiter.key(rule, &head.fields.joined(name)?),
        })
    }

    /// How long to wait, where a limit refuses the request.
    fn take(
        &mut self,
        limit: &SiteLimit,
        told: &mut Vec<(Cow<'static, str>, String)>,
    ) -> Option<Duration> {
        let limiter = &self.worker.shared.limiter;
        let settings = &limit.settings;
        let rule = limit.rule;
        let key = self.key(rule, &settings.by)?;
        let now = limiter.ticks(self.request.started);
        let mut wait = None;
        if let Some(rate) = &settings.rate {
            let verdict = limiter.rates().take(key, rate, now);
            wait = (!verdict.is_allowed()).then(|| verdict.retry_after());
            if !settings.dry_run && (settings.always_tells || wait.is_some()) {
                tell(&settings.name, rate, &verdict, told);
            }
        }
        if let Some(most) = settings.concurrent_max.filter(|_| wait.is_none()) {
            match limiter.counts().enter(key, most) {
                Some(held) => self.held.push(held),
                None => wait = Some(CONCURRENT_RETRY),
            }
        }
        let wait = wait?;
        limit.refused.add(1);
        if settings.dry_run {
            return None;
        }
        self.worker.stats.requests_limited.increment();
        if let Some(block) = settings.block {
            let refusals =
                limiter.key(rule.wrapping_add(1), &self.request.client.network.to_bytes());
            if !limiter.rates().take(refusals, &block.after, now).is_allowed() {
                self.block(limit, block, &self.request.client);
            }
        }
        Some(wait)
    }

    fn block(&self, limit: &SiteLimit, rule: BlockRule, client: &Client) {
        let limiter = &self.worker.shared.limiter;
        let prefixes = self.worker.snapshot().settings.limits.network;
        let Some(network) = network_of(client, prefixes) else { return };
        let now = UnixMillis::now().0;
        let until_ms = now.saturating_add(u64::try_from(rule.time.as_millis()).unwrap_or(u64::MAX));
        let cause = Cause::Limit((*limit.label).into());
        let site = Some(self.site.name.as_str().into());
        match limiter.blocks.add(Block { network, site, until_ms, cause }, now) {
            Ok(()) => {
                limit.blocked.add(1);
                if let Some(held_back) = says_blocked(limiter) {
                    let (limit, seconds) = (&*limit.label, rule.time.as_secs());
                    tracing::warn!(%network, limit, seconds, held_back, "a client was blocked");
                }
            }
            Err(error) => {
                if let Some(held_back) = says_blocked(limiter) {
                    tracing::error!(%network, held_back, %error, "a client could not be blocked");
                }
            }
        }
    }
}

fn tell(
    name: &str,
    rate: &freshet_limits::Rate,
    verdict: &Verdict,
    told: &mut Vec<(Cow<'static, str>, String)>,
) {
    told.push(("RateLimit-Policy".into(), policy_field(name, rate)));
    told.push(("RateLimit".into(), state_field(name, verdict)));
}
