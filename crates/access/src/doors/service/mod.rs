//! `service` of an `[[access]]`: somebody else decides whether a request may go on.

mod places;
mod told;
mod watch;

pub use places::Places;

use super::{Answer, Asker, Page, Refused};
use crate::client::Client;
use crate::identity::{Identity, Said};
use crate::limiter::Limiter;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_config::Mistake;
use freshet_config::access::AccessRule;
use freshet_config::access_service::{AccessService, Trait};
use freshet_http::cdn_loop::{self, CdnLoop};
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_http::reason::Reason;
use freshet_http::{conditional, hop_by_hop, path};
use freshet_limits::{Claim, Place, Rate, retry_after_s};
use freshet_net::tls::client_auth::ClientCertificate;
use freshet_origin::definition::Timeouts;
use freshet_origin::pool::Pool;
use freshet_origin::{Origin, OriginError, OriginSettings, exchange};
use freshet_telemetry::calls::Call;
use freshet_tokens::memory::{Digest, Memory};
use places::{Known, beginning};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use told::{lifetime, quota, share};
use watch::Watch;

/// Yeses of one rule that are remembered at a time.
const REMEMBERED_MAX: usize = 16_384;
/// Bytes of an answer's fields that are remembered with one; with more it is asked each time.
const REMEMBERED_BYTES_MAX: usize = 1 << 10;
/// Longest page of an answer that a client gets.
const PAGE_BYTES_MAX: usize = 64 << 10;
/// That a service does not answer is in the log once in so long, with how often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// What keys of rates that services name are of.
const OF_SERVICES: u64 = u64::MAX - 1;

/// What keys of places that services speak of are of.
const OF_SHARES: u64 = u64::MAX - 2;
/// After how long a place may be free that was not.
const PLACE_RETRY: Duration = Duration::from_secs(1);

/// The field in which a service says whom a request comes from.
const USER: &str = "Remote-User";

/// What of a client's request is about its content, of which a service gets none, or would have it
/// answered with something else than a page.
const OF_CONTENT: [&str; 7] = [
    "accept-encoding",
    "content-length",
    "content-type",
    "content-encoding",
    "expect",
    "range",
    "if-range",
];

/// A service that is asked.
pub(super) struct Service {
    settings: AccessService,
    /// The path of its rule.
    path: Box<str>,
    /// Names of what requests are counted by: the site, that path, and what it says of them.
    labels: Box<[Arc<str>]>,
    origin: Arc<Origin>,
    memory: Memory<Yes>,
    failing: LogLimit,
    watch: Watch,
    /// Origins it has named.
    known: Known,
}

/// What a request that may go on gets.
type Yes = Arc<Given>;

#[derive(Default)]
struct Given {
    /// Whom it comes from.
    user: Option<Box<str>>,
    fields: Arc<[Said]>,
    /// Where it goes, where the service says so.
    places: Option<Arc<Places>>,
    /// What it is counted with.
    call: Option<Arc<Call>>,
    /// How often there may be such a request.
    quota: Option<(u64, Rate)>,
    /// The place that it needs.
    claim: Option<Claim>,
    /// For how long it is good.
    lifetime: Duration,
    /// What had changed when it was asked for.
    changes: u64,
}

/// Why nobody knows whether a request may go on, or where to.
#[derive(Debug)]
enum Unknown {
    Origin(OriginError),
    Status(u16),
    Late(Duration),
    Long,
    Places(String),
    /// Its path could be another one to whoever is there.
    Path,
}

impl Service {
    /// The service of a rule, if it has one.
    ///
    /// # Errors
    /// What cannot be meant, where the rule is.
    pub(super) fn of(rule: &AccessRule, timeouts: Timeouts) -> Result<Option<Arc<Self>>, Mistake> {
        let Some(settings) = rule.service.clone() else { return Ok(None) };
        let wrong = |why: String| Mistake::error(rule.place, format!("access.service: {why}"));
        let mut of: OriginSettings =
            settings.origin.parse().map_err(|error: OriginError| wrong(error.to_string()))?;
        of.logs_outages = false;
        of.timeouts.connect = settings.timeout;
        of.timeouts.first_byte = settings.timeout;
        let origin = Origin::new(of).map_err(|error| wrong(error.to_string()))?;
        let memory = Memory::new(REMEMBERED_MAX)
            .map_err(|_| wrong("the system gives no random numbers".into()))?;
        let known = Known::new(settings.strip, timeouts);
        let (failing, watch) = (LogLimit::new(), Watch::default());
        let path = rule.path.as_str().into();
        let own = ["site", "access"].map(Into::into);
        let labels =
            own.into_iter().chain(settings.counted.iter().map(|(_, label)| Arc::clone(label)));
        let labels = labels.collect();
        Ok(Some(Arc::new(Self { settings, path, labels, origin, memory, failing, watch, known })))
    }

    /// Its URL.
    pub(super) fn url(&self) -> &str {
        &self.settings.url
    }

    /// Removes what a client says in the service's place.
    pub(super) fn remove_claims(&self, fields: &mut Fields) {
        for name in &self.settings.fields {
            fields.remove_claims(name);
        }
    }

    /// Asks about a request without such claims, unless the same was asked not long ago.
    pub(super) async fn ask(
        self: &Arc<Self>,
        asker: Asker<'_>,
        head: &mut RequestHead,
        client: &Client,
    ) -> Answer {
        // What was sent before the handshake was over may be another's recording.
        if !client.presence.known().await {
            return Err(Refused::new(425, Reason::ServiceRefused));
        }
        let loop_id = asker.loop_id;
        if cdn_loop::check(&head.fields, loop_id) == CdnLoop::Again {
            return Err(Refused::new(508, Reason::Loop));
        }
        if let Some(target) = &self.settings.changes {
            watch::begin(self, target, asker.pool);
        }
        let shown = client.certificate_for(asker.client_auth);
        let digest = self.digest(head, client, shown);
        let now_ms = UnixMillis::now().0;
        let changes = self.watch.changes();
        let known = (!self.settings.remember.is_zero())
            .then(|| self.memory.get(&digest, now_ms).filter(|given| given.changes == changes))
            .flatten();
        let given = match known {
            Some(given) => given,
            None => {
                let request = self.request(head, client, shown, loop_id);
                let answer =
                    timeout(self.settings.timeout, self.answer(asker.pool, &request)).await;
                let late = Unknown::Late(self.settings.timeout);
                let answer = answer.unwrap_or(Err(late)).and_then(|answer| match answer {
                    Ok(fields) => Ok(Ok(self.given(asker, &fields, &head.target, changes)?)),
                    Err(page) => Ok(Err(page)),
                });
                let given = match answer {
                    Ok(Ok(given)) => Arc::new(given),
                    Ok(Err(mut page)) => {
                        let refused = Refused::new(page.head.status, Reason::ServiceRefused);
                        let call = self.call(asker, &page.head.fields);
                        // They are for the node.
                        for (name, _) in &self.settings.counted {
                            page.head.fields.remove(name);
                        }
                        return Err(Refused { page: Some(Box::new(page)), call, ..refused });
                    }
                    Err(Unknown::Path) => {
                        return Err(Refused::new(400, Reason::ClientMalformed));
                    }
                    Err(unknown) => {
                        self.log(&unknown);
                        return Err(Refused::new(503, Reason::ServiceFailed));
                    }
                };
                let remember_ms = u64::try_from(given.lifetime.as_millis()).unwrap_or(u64::MAX);
                if remember_ms > 0 && given.bytes() <= REMEMBERED_BYTES_MAX {
                    let until_ms = now_ms.saturating_add(remember_ms);
                    self.memory.add(digest, Arc::clone(&given), now_ms, until_ms);
                }
                given
            }
        };
        let counted = |refused| Refused { call: given.call.clone(), ..refused };
        if let Some((key, rate)) = &given.quota {
            count(asker.limiter, *key, rate).map_err(counted)?;
        }
        let share =
            given.claim.map(|claim| place(asker.limiter, claim)).transpose().map_err(counted)?;
        for (name, value) in &*given.fields {
            head.fields.set(&**name, value);
            hop_by_hop::unname(&mut head.fields, name);
        }
        Ok(Identity {
            name: given.user.clone(),
            token: None,
            fields: Some(&given.fields)
                .filter(|said| !said.is_empty())
                .cloned()
                .into_iter()
                .collect(),
            places: given.places.clone(),
            call: given.call.clone(),
            share,
        })
    }

    /// The number of something that this service speaks of.
    fn key(&self, asker: Asker<'_>, of: u64, what: &str) -> u64 {
        let what = format!("{}\0{}\0{what}", asker.site, self.settings.url);
        asker.limiter.key(of, what.as_bytes())
    }

    /// What requests are counted under by the quota of an answer. What was counted by another rate means
    /// nothing by this one.
    fn quota(&self, asker: Asker<'_>, answer: &Fields) -> Option<(u64, Rate)> {
        let named = quota(answer)?;
        let key = self.key(asker, OF_SERVICES, &format!("{}\0{}", named.name, named.rate));
        Some((key, named.rate))
    }

    /// Which place a request needs, where an answer says something of that.
    fn claim(&self, asker: Asker<'_>, answer: &Fields) -> Option<Claim> {
        let said = share(answer.get_str(self.settings.share_field.as_ref()?)?)?;
        let key = |what: &str| self.key(asker, OF_SHARES, &format!("{}\0{what}", said.server));
        let (pool, member) = (key(""), key(&format!("member {}", said.member)));
        Some(Claim { pool, places: said.places, member, weight: said.weight })
    }

    /// What a request is counted with, where an answer says something of that.
    fn call(&self, asker: Asker<'_>, answer: &Fields) -> Option<Arc<Call>> {
        let said = |(name, _): &(String, Arc<str>)| answer.get_str(name).unwrap_or_default();
        let said: Vec<&str> = self.settings.counted.iter().map(said).collect();
        if said.iter().all(|value| value.is_empty()) {
            return None;
        }
        let values = [asker.site, &self.path].into_iter().chain(said);
        Some(asker.calls.group(self.labels.iter().zip(values)))
    }

    /// What a yes to this request is remembered under.
    fn digest(
        &self,
        head: &RequestHead,
        client: &Client,
        shown: Option<&ClientCertificate>,
    ) -> Digest {
        let certificate = shown.map_or(&b""[..], |shown| shown.fingerprint.as_bytes());
        // Whose connection it comes over always counts: a service may have looked.
        let mut parts: Vec<Cow<'_, [u8]>> = Vec::with_capacity(3 + 2 * self.settings.by.len());
        parts.push(head.method.as_str().as_bytes().into());
        parts.push(head.authority.as_bytes().into());
        parts.push(certificate.into());
        for one in &self.settings.by {
            match one {
                Trait::Client => {
                    let address = client.address.map(|address| address.ip().to_string());
                    parts.push(address.unwrap_or_default().into_bytes().into());
                }
                Trait::Target => parts.push(head.target.as_bytes().into()),
                Trait::Path => parts.push(path::path_of(&head.target).as_bytes().into()),
                // What can be read in several ways is remembered by all of it.
                Trait::Beginning(segments) => {
                    let begun = beginning(&head.target, *segments);
                    parts.push(begun.unwrap_or(&head.target).as_bytes().into());
                }
                Trait::Field(name) => {
                    let mut values = head.fields.get_all(name);
                    let value: Option<Cow<'_, [u8]>> = match (values.next(), values.next()) {
                        (Some(one), None) => Some(one.into()),
                        (None, _) => None,
                        (Some(_), Some(_)) => head.fields.joined(name).map(Into::into),
                    };
                    // None at all is something else than an empty one.
                    parts.push(if value.is_some() { b"=" } else { &b""[..] }.into());
                    parts.push(value.unwrap_or_default());
                }
            }
        }
        self.memory.digest(parts.iter().map(Cow::as_ref))
    }

    /// What it is asked: the client's fields, and what it asks for.
    fn request(
        &self,
        head: &RequestHead,
        client: &Client,
        shown: Option<&ClientCertificate>,
        loop_id: &[u8],
    ) -> RequestHead {
        let mut fields = head.fields.clone();
        hop_by_hop::strip(&mut fields);
        conditional::strip(&mut fields);
        for name in OF_CONTENT {
            fields.remove(name);
        }
        let address = client.address.map(|address| address.ip().to_canonical().to_string());
        let shown = shown.map(|shown| format!("Hash={}", shown.fingerprint));
        for (name, value) in [
            ("X-Forwarded-Client-Cert", shown.as_deref().unwrap_or_default()),
            ("X-Forwarded-Method", head.method.as_str()),
            ("X-Forwarded-Proto", head.scheme.as_str()),
            ("X-Forwarded-Host", &head.authority),
            ("X-Forwarded-Uri", &head.target),
            ("X-Forwarded-For", address.as_deref().unwrap_or_default()),
        ] {
            // What a client says there is no word of ours.
            fields.remove_claims(name);
            if !value.is_empty() {
                fields.append(name, value);
            }
        }
        fields.append_to_list("CDN-Loop", loop_id);
        RequestHead {
            method: Method::Get,
            target: self.settings.target.clone(),
            fields,
            ..RequestHead::default()
        }
    }

    /// Yes, or the page that the client gets.
    async fn answer(
        &self,
        pool: &Pool,
        request: &RequestHead,
    ) -> Result<Result<Fields, Page>, Unknown> {
        let mut on_interim = |_interim| {};
        let asked = exchange(pool, &self.origin, request, None, &mut on_interim);
        let mut response = asked.await.map_err(Unknown::Origin)?;
        let status = response.head.status;
        let is_yes = (200..300).contains(&status);
        // Who says when to come again speaks of what is asked for, not of itself.
        let is_later = status == 503 && response.head.fields.contains("retry-after");
        if !is_yes && !is_later && !matches!(status, 301 | 302 | 303 | 307 | 308 | 400..=499) {
            return Err(Unknown::Status(status));
        }
        // Read to its end, so that the connection can be used again.
        let page = response.body.read_whole(PAGE_BYTES_MAX).await.map_err(Unknown::Origin)?;
        Ok(match (is_yes, page) {
            (true, _) => Ok(response.head.fields),
            (false, Some(page)) => Err(as_page(response.head, page)),
            (false, None) => return Err(Unknown::Long),
        })
    }

    /// What of an answer goes on with a request.
    fn given(
        &self,
        asker: Asker<'_>,
        answer: &Fields,
        target: &str,
        changes: u64,
    ) -> Result<Given, Unknown> {
        let user = answer.get_str(USER).filter(|name| !name.is_empty()).map(Into::into);
        let value = |name: &String| Some((name.as_str().into(), answer.joined(name)?));
        let said = self.settings.origin_field.as_ref().and_then(|name| answer.joined(name));
        let places = said.map(|said| self.known.places(&said, target)).transpose();
        Ok(Given {
            user,
            fields: self.settings.fields.iter().filter_map(value).collect(),
            places: places?,
            call: self.call(asker, answer),
            quota: self.quota(asker, answer),
            claim: self.claim(asker, answer),
            lifetime: lifetime(answer, self.settings.remember),
            changes,
        })
    }

    fn log(&self, unknown: &Unknown) {
        let Some(held_back) = self.failing.admit(UnixMillis::now(), LOG_EVERY) else { return };
        let service = self.url();
        let why = match unknown {
            Unknown::Origin(error) => error.to_string(),
            Unknown::Status(status) => format!("it answers with {status}"),
            Unknown::Late(limit) => format!("no answer within {} ms", limit.as_millis()),
            Unknown::Places(why) => format!("it names an origin that is none: {why}"),
            Unknown::Path => "the path could be another one".to_owned(),
            Unknown::Long => format!("its page is longer than {PAGE_BYTES_MAX} bytes"),
        };
        tracing::error!(service, held_back, "nobody is let in by access.service: {why}");
    }
}

impl Given {
    fn bytes(&self) -> usize {
        let of_fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        of_fields.sum::<usize>() + self.user.as_ref().map_or(0, |user| user.len())
    }
}

/// Counts a request that a yes is for, where there may be only so many.
fn count(limiter: &Limiter, key: u64, rate: &Rate) -> Result<(), Refused> {
    let verdict = limiter.rates().take(key, rate, limiter.ticks(Instant::now()));
    if verdict.is_allowed() {
        return Ok(());
    }
    let wait_s = retry_after_s(verdict.retry_after());
    let refused = Refused::new(429, Reason::ClientTooMany);
    Err(refused.telling("Retry-After", wait_s.to_string()))
}

/// A place for a request, where it is due one.
fn place(limiter: &Limiter, claim: Claim) -> Result<Place, Refused> {
    limiter.pools.enter(claim, limiter.ticks(Instant::now())).ok_or_else(|| {
        let wait_s = retry_after_s(PLACE_RETRY).to_string();
        Refused::new(429, Reason::ClientTooMany).telling("Retry-After", wait_s)
    })
}

/// An answer that refuses, as its client gets it.
fn as_page(mut head: ResponseHead, body: Vec<u8>) -> Page {
    hop_by_hop::strip(&mut head.fields);
    head.fields.remove("content-length");
    if !head.fields.contains("cache-control") {
        head.fields.append("Cache-Control", "no-store");
    }
    Page { head, body: body.into() }
}
