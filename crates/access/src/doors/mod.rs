//! Who is let in at all: `[[access]]` of a site with its files, and `[maintenance]`.

mod service;

pub use service::Places;

use crate::certificates::SiteAuth;
use crate::client::Client;
use crate::identity::Identity;
use crate::limiter::Limiter;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_base::file;
use freshet_base::ledger::Ledger;
use freshet_base::log_limit::LogLimit;
use freshet_config::Mistake;
use freshet_config::access::{AccessRule, Maintenance};
use freshet_config::geo::Clients;
use freshet_geo::Geo;
use freshet_http::message::{Method, RequestHead, ResponseHead};
use freshet_http::path::{self, Readings};
use freshet_http::reason::Reason;
use freshet_origin::definition::Timeouts;
use freshet_origin::pool::Pool;
use freshet_telemetry::calls::{Call, Calls};
use freshet_tokens::passwords::{Credentials, Users};
use service::Service;
use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest file of names.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Passwords of one rule that are checked at a time, each on a thread of its own: they are made to
/// take long, and are not to take all processors.
const CHECKS_MAX: usize = 2;
/// Requests that wait for that; more are told to come again.
const WAITING_MAX: usize = 64;
/// Seconds after which they may.
const RETRY_S: u64 = 2;
/// Wrong passwords are in the log once in so long, with how many there were.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// An `[[access]]` in force.
pub struct SiteAccess {
    rule: AccessRule,
    geo: Arc<Geo>,
    users: Option<Arc<Users>>,
    service: Option<Arc<Service>>,
    checks: Semaphore,
    waiting: AtomicUsize,
    wrong: LogLimit,
}

/// Whether a site serves nobody for now.
#[derive(Debug)]
pub struct MaintenanceSwitch {
    configured: bool,
    is_on: AtomicBool,
}

/// The doors of a site.
#[derive(Clone, Copy)]
pub struct Doors<'a> {
    /// What it says of times when nobody is served.
    pub maintenance: &'a Maintenance,
    /// Whether it is such a time.
    pub switch: &'a MaintenanceSwitch,
    /// The rules, the first one that fits counts.
    pub rules: &'a [SiteAccess],
}

/// For which site, and with what of the node's, services are asked.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The name of the site.
    pub site: &'a str,
    /// The node's name in `CDN-Loop`.
    pub loop_id: &'a [u8],
    /// The authorities of the site for certificates of clients.
    pub client_auth: Option<&'a Arc<SiteAuth>>,
    /// Connections.
    pub pool: &'a Pool,
    /// Counts what services say how much there may be of.
    pub limiter: &'a Limiter,
    /// Counts requests by what services say of them.
    pub calls: &'a Calls,
}

/// What a request is after, as far as it matters who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Aim {
    /// What the site has.
    Content,
    /// To hear where to go instead.
    Elsewhere,
    /// That something stored is forgotten, as `cache.purge_from` lets its client have it.
    Purge,
}

/// What a client gets in the place of what it asked for.
#[derive(Debug)]
pub struct Page {
    /// Status and fields.
    pub head: ResponseHead,
    /// All of its body.
    pub body: Bytes,
}

/// Why a request is not let in.
#[derive(Debug)]
pub struct Refused {
    /// What its client gets.
    pub status: u16,
    /// For the log.
    pub reason: Reason,
    /// A field that says what helps.
    pub told: Option<(&'static str, String)>,
    /// What its client gets, where somebody else has said so.
    pub page: Option<Box<Page>>,
    /// What it is counted with, where a service knows.
    pub call: Option<Arc<Call>>,
}

impl Refused {
    fn new(status: u16, reason: Reason) -> Self {
        Self { status, reason, told: None, page: None, call: None }
    }

    fn telling(self, name: &'static str, value: String) -> Self {
        Self { told: Some((name, value)), ..self }
    }
}

/// As whom a request is let in.
type Answer = Result<Identity, Refused>;

impl MaintenanceSwitch {
    /// As the configuration says, or as somebody has said since it said so before.
    pub fn new(settings: &Maintenance, before: Option<&Arc<Self>>) -> Arc<Self> {
        match before.filter(|before| before.configured == settings.enabled) {
            Some(before) => Arc::clone(before),
            None => Arc::new(Self {
                configured: settings.enabled,
                is_on: AtomicBool::new(settings.enabled),
            }),
        }
    }

    /// Whether nobody is served.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Has nobody served from now on, or everybody again, until the configuration says otherwise.
    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }
}

/// The rules of a site, with their files read. `timeouts` are for origins that services name.
///
/// # Errors
/// What is wrong with a file, where the rule is.
pub fn load(
    rules: &[AccessRule],
    geo: &Arc<Geo>,
    timeouts: Timeouts,
) -> Result<Arc<[SiteAccess]>, Vec<Mistake>> {
    Mistake::collect(rules.iter().map(|rule| SiteAccess::load(rule, geo, timeouts)))
}

impl Doors<'_> {
    /// Whether a request of a site may go on: by where its client is and whom it says it comes from. A
    /// password that let it in is taken out of it, unless the rule says not to. Who is but sent elsewhere, or may
    /// purge, has to come from where it may, and says nothing of who it is; a purge is nothing that maintenance keeps from
    /// clients.
    ///
    /// # Errors
    /// What is said to who is not let in.
    pub async fn admit(
        self,
        asker: Asker<'_>,
        head: &mut RequestHead,
        client: &Client,
        aim: Aim,
    ) -> Result<Identity, Refused> {
        let Self { maintenance, switch, rules } = self;
        let address = client.address.map(|address| address.ip());
        if switch.is_on()
            && aim != Aim::Purge
            && !address.is_some_and(|ip| maintenance.allow.iter().any(|one| one.contains(ip)))
        {
            let retry_s = maintenance.retry_after.as_secs();
            let refused = Refused::new(503, Reason::Maintenance);
            return Err(match retry_s {
                0 => refused,
                seconds => refused.telling("Retry-After", seconds.to_string()),
            });
        }
        // Nobody but a service of the site says what is in its fields, whether it is asked here or not.
        for service in rules.iter().filter_map(|access| access.service.as_ref()) {
            service.remove_claims(&mut head.fields);
        }
        let (mut let_in, mut is_used_up) = (Identity::default(), false);
        for access in for_path(rules, &head.target) {
            if access.lets_in_from(address)? {
                // What browsers go on sending is for this rule, whether it is asked for or not.
                is_used_up |= access.users.is_some() && !access.rule.forward && has_password(head);
                continue;
            }
            let given = match (&access.users, &access.service) {
                (None, None) => continue,
                // Browsers send no password with it (Fetch Standard §4.8), and it gives nothing away.
                _ if is_preflight(head) || aim != Aim::Content => continue,
                (Some(users), _) => {
                    let name = Some(access.ask(users, head).await?);
                    Identity { name, ..Identity::default() }
                }
                (None, Some(service)) => service.ask(asker, head, client).await?,
            };
            let_in.name = given.name.or(let_in.name);
            let_in.fields.extend(given.fields);
            let_in.places = given.places.or(let_in.places);
            let_in.call = given.call.or(let_in.call);
            let_in.share = given.share.or(let_in.share);
            is_used_up |= !access.rule.forward;
        }
        if is_used_up {
            head.fields.remove("authorization");
        }
        Ok(let_in)
    }

    /// The rules a request has to pass, as `freshet explain` says them.
    pub fn explain(self, head: &RequestHead) -> Vec<String> {
        let maintenance = self.switch.is_on().then(|| {
            let allowed = list(&self.maintenance.allow);
            match allowed.is_empty() {
                true => "the site is under maintenance".to_owned(),
                false => format!("the site is under maintenance, but for {allowed}"),
            }
        });
        let rules = for_path(self.rules, &head.target).map(SiteAccess::sentence);
        maintenance.into_iter().chain(rules).collect()
    }
}

/// The first rule whose path fits; of a path that can be read in several ways, the first of each, as
/// nobody knows which of them its origin sees.
fn for_path<'a>(
    all: &'a [SiteAccess],
    target: &str,
) -> impl Iterator<Item = &'a SiteAccess> + use<'a> {
    let fits = |access: &SiteAccess, path: &[u8]| path::is_below(path, &access.rule.path);
    let firsts = Readings::of(target).firsts(all, fits);
    firsts.places().filter_map(|place| all.get(place))
}

fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SiteAccess {
    fn load(rule: &AccessRule, geo: &Arc<Geo>, timeouts: Timeouts) -> Result<Self, Mistake> {
        let users = match &rule.users {
            Some(file) => Some(users_of(file).map_err(|why| {
                Mistake::error(rule.place, format!("access.users: {}: {why}", file.display()))
            })?),
            None => None,
        };
        Ok(Self {
            rule: rule.clone(),
            geo: Arc::clone(geo),
            users: users.map(Arc::new),
            service: Service::of(rule, timeouts)?,
            checks: Semaphore::new(CHECKS_MAX),
            waiting: AtomicUsize::new(0),
            wrong: LogLimit::new(),
        })
    }

    /// Whether it is where its client is that lets a request in, and nothing else is asked.
    fn lets_in_from(&self, address: Option<IpAddr>) -> Result<bool, Refused> {
        let rule = &self.rule;
        let is_denied = address.is_some_and(|ip| self.is_in(&rule.deny, ip));
        let is_named = address.is_some_and(|ip| self.is_in(&rule.allow, ip));
        let is_here = !is_denied && (is_named || rule.allow.is_empty());
        if !is_here && !rule.any {
            return Err(Refused::new(403, Reason::NetworkDenied));
        }
        Ok(rule.any && is_named && !is_denied)
    }

    /// The name of who asks, where the password is theirs.
    async fn ask(&self, users: &Arc<Users>, head: &RequestHead) -> Result<Box<str>, Refused> {
        let Some(value) = head.fields.get("authorization") else {
            return Err(self.unknown(Reason::PasswordMissing));
        };
        let Some(given) = Credentials::parse(value) else {
            return Err(self.unknown(Reason::PasswordWrong));
        };
        let name: Box<str> = given.name().into();
        if users.remembers(&given, UnixMillis::now().0) {
            return Ok(name);
        }
        let busy =
            || Refused::new(503, Reason::LocalLimit).telling("Retry-After", RETRY_S.to_string());
        let _waits = Waits::begin(&self.waiting).ok_or_else(busy)?;
        let _turn = self.checks.acquire().await.map_err(|_| busy())?;
        let now_ms = UnixMillis::now().0;
        // A page has many parts, and its browser asks for all of them at once.
        if users.remembers(&given, now_ms) {
            return Ok(name);
        }
        let users = Arc::clone(users);
        let checked = tokio::task::spawn_blocking(move || users.verify(&given, now_ms)).await;
        if checked.unwrap_or(false) {
            return Ok(name);
        }
        if let Some(held_back) = self.wrong.admit(UnixMillis::now(), LOG_EVERY) {
            let path = &self.rule.path;
            tracing::warn!(path, held_back, "somebody gave a wrong name or password");
        }
        Err(self.unknown(Reason::PasswordWrong))
    }

    fn unknown(&self, reason: Reason) -> Refused {
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", self.rule.realm);
        Refused::new(401, reason).telling("WWW-Authenticate", challenge)
    }

    fn is_in(&self, clients: &[Clients], ip: IpAddr) -> bool {
        clients.iter().any(|some| some.has(ip, &self.geo))
    }

    fn sentence(&self) -> String {
        let rule = &self.rule;
        let mut parts: Vec<Cow<'_, str>> = Vec::new();
        if !rule.allow.is_empty() {
            parts.push(format!("from {}", list(&rule.allow)).into());
        }
        if !rule.deny.is_empty() {
            parts.push(format!("not from {}", list(&rule.deny)).into());
        }
        if let Some(users) = &self.users {
            parts.push(format!("with one of {} passwords", users.count()).into());
        }
        if let Some(service) = &self.service {
            parts.push(format!("where {} says so", service.url()).into());
        }
        if parts.is_empty() {
            parts.push("everybody".into());
        }
        let joined = parts.join(if rule.any { ", or " } else { ", and " });
        format!("{} is let in: {joined}", rule.path)
    }
}

/// Whether a request says who it comes from by a password (RFC 7617 §2), good or not.
fn has_password(head: &RequestHead) -> bool {
    let scheme = head.fields.get("authorization").and_then(|value| value.trim_ascii().get(..6));
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "))
}

fn is_preflight(head: &RequestHead) -> bool {
    head.method == Method::Options
        && head.fields.contains("origin")
        && head.fields.contains("access-control-request-method")
}

fn users_of(path: &Path) -> Result<Users, String> {
    let text = file::read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    Users::parse(&text).map_err(|error| error.to_string())
}

/// A place among those that wait.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Relaxed) < WAITING_MAX).then_some(place)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.give_back(1, Relaxed);
    }
}
