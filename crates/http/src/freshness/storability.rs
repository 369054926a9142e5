//! The one place that decides whether a response may be stored (RFC 9111 §3) and how long it is
//! fresh (§4.2).

use super::credentials::Credentials;
use super::{Freshness, LifetimeSource};
use crate::cache_control::{CacheControl, RequestCacheControl, delta_seconds, unstored_fields};
use crate::fields::Fields;
use crate::message::Method;
use crate::range::ContentRange;
use crate::reason::Reason;
use crate::vary::Vary;
use crate::{date, status, target, unkeyed};
use freshet_base::clock::UnixMillis;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A stale response is served for this long when the origin fails and nothing else is said: long
/// enough for a night without an origin, short enough that nobody sees last week's page.
const DEFAULT_STALE_IF_ERROR: Duration = Duration::from_secs(86_400);

/// Guessed lifetimes end here. RFC 9111 §4.2.2 suggests the tenth of the time since the last
/// change; without an end a file of ten years would be kept for one.
const HEURISTIC_MAX: Duration = Duration::from_secs(86_400);

/// A response from the origin and the request it answers.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Fields of the request, as the origin got them.
    pub request: &'a Fields,
    /// Status of the response.
    pub status: u16,
    /// Fields of the response.
    pub response: &'a Fields,
    /// When the request was sent.
    pub request_time: UnixMillis,
    /// When the head of the response had arrived.
    pub response_time: UnixMillis,
    /// Authority of the request, lower case; used for POST only.
    pub authority: &'a str,
    /// Target of the request; used for POST only.
    pub target: &'a str,
}

/// What an operator may decide. The default is a shared cache as RFC 9111 has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether the cache serves more than one user.
    pub shared: bool,
    /// Whether responses without an explicit lifetime get one from `Last-Modified` (§4.2.2).
    pub heuristic: bool,
    /// The share of the time since `Last-Modified` that is taken as lifetime.
    pub heuristic_fraction: f64,
    /// The longest such lifetime.
    pub heuristic_max: Duration,
    /// `stale-while-revalidate` for responses that do not say, of those that have a lifetime or are `public`.
    pub default_grace: Duration,
    /// `stale-if-error` for the same responses.
    pub default_stale_if_error: Duration,
    /// Lifetime of errors ([`status::is_negative`]) without an explicit one. Against RFC 9111 §3
    /// for those that are not cacheable by default, so nothing unless an operator asks.
    pub negative_ttl: Option<Duration>,
    /// The lifetime an operator gives to what [`status::takes_lifetime`] says.
    pub given: Option<Given>,
    /// Fields that stand in the place of `Cache-Control` and `Expires`, most specific first (RFC
    /// 9213).
    pub targeted: Cow<'static, [&'static str]>,
    /// Whether `no-store` of a client keeps the response out of the cache, and its other wishes
    /// are to be followed ([`Freshness::reuse_as_asked`]). `only-if-cached` is always followed.
    pub honour_request_directives: bool,
    /// What becomes of a response with `Set-Cookie`, in a shared cache.
    pub set_cookie: SetCookie,
    /// What says who asks, beside `Authorization`.
    pub credentials: Option<Arc<Credentials>>,
}

/// A lifetime an operator gives, from when a response arrives. Against RFC 9111 §4.2.1 where it takes
/// the place of what an origin says, so only where somebody asks for that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Given {
    /// How long.
    pub lifetime: Duration,
    /// What it takes the place of.
    pub in_place_of: InPlaceOf,
}

/// What an operator's lifetime takes the place of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InPlaceOf {
    /// Silence, and what would be guessed.
    Silence,
    /// `max-age`, `s-maxage` and `Expires`, also in targeted fields.
    Lifetime,
    /// All directives.
    Everything,
}

/// What becomes of a response that sets a cookie.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum SetCookie {
    /// It is not stored: it is for the client that asked.
    Pass,
    /// It is stored without the field, which nobody gets.
    Strip,
    /// It is stored as it is, as RFC 9111 §7.3 allows, and every client gets the cookie.
    #[default]
    Store,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shared: true,
            heuristic: true,
            heuristic_fraction: 0.1,
            heuristic_max: HEURISTIC_MAX,
            default_grace: Duration::ZERO,
            default_stale_if_error: DEFAULT_STALE_IF_ERROR,
            negative_ttl: None,
            given: None,
            targeted: Cow::Borrowed(&["CDN-Cache-Control"]),
            honour_request_directives: false,
            set_cookie: SetCookie::Store,
            credentials: None,
        }
    }
}

/// Whether a response may be stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Storability {
    /// Yes, and this is how fresh it is.
    Store(Freshness),
    /// No, and this is why.
    Refuse(Reason),
}

/// Decides whether a response may be stored, and how long it is fresh.
///
/// Says yes as well to what can only be used after validation or when the origin fails, as long as
/// there is a validator or a time in which it can be used. An answer to POST is stored for later
/// GETs of the same target; the invalidation that POST causes comes first.
///
/// Allocates only where a targeted field is there or for POST.
pub fn storability(received: &Received<'_>, settings: &Settings) -> Storability {
    match decide(received, settings) {
        Ok(freshness) => Storability::Store(freshness),
        Err(reason) => Storability::Refuse(reason),
    }
}

fn decide(received: &Received<'_>, settings: &Settings) -> Result<Freshness, Reason> {
    check_status(received, settings)?;
    check_cookie(received, settings)?;
    let targeted = CacheControl::targeted(received.response, &settings.targeted);
    let is_targeted = targeted.is_some();
    let control = targeted
        .map_or_else(|| CacheControl::from_fields(received.response), |(control, _)| control);
    let given = settings.given.filter(|_| status::takes_lifetime(received.status));
    let in_place_of = given.map(|given| given.in_place_of);
    let mut control = match in_place_of {
        Some(InPlaceOf::Everything) => CacheControl::default(),
        _ => control,
    };
    check_directives(received, settings, &control)?;
    if in_place_of == Some(InPlaceOf::Lifetime) {
        // With it goes what it implies.
        (control.s_maxage, control.max_age) = (None, None);
    }

    let (lifetime, source) = match given {
        Some(Given { lifetime, in_place_of: InPlaceOf::Lifetime | InPlaceOf::Everything }) => {
            (initial_age(received).saturating_add(lifetime), LifetimeSource::Policy)
        }
        given => lifetime(received, settings, &control, is_targeted, given),
    };
    check_method(received, source)?;
    let cacheable = control.public
        || source.is_explicit()
        || (!settings.shared && control.private)
        || status::is_heuristically_cacheable(received.status)
        || matches!(source, LifetimeSource::Negative | LifetimeSource::Policy);
    if !cacheable {
        return Err(Reason::StatusNotCacheable);
    }
    let freshness = freshness(received, settings, &control, lifetime, source);
    check_usable(received, &control, &freshness)?;
    Ok(freshness)
}

fn check_status(received: &Received<'_>, settings: &Settings) -> Result<(), Reason> {
    match received.status {
        0..200 => Err(Reason::StatusNotFinal),
        304 => Err(Reason::StatusNotModified),
        status if status::is_of_request(status) => Err(Reason::StatusOfRequest),
        // Others would get the error, or the redirect to its page, that one client has provoked.
        status if !status::is_successful(status) && settings.shared => {
            let is_plain = unkeyed::is_plain(received.request)
                && !(status::is_about_form(status) && received.request.contains("Cookie"));
            if is_plain { Ok(()) } else { Err(Reason::UnusualRequest) }
        }
        206 => {
            let range = received.response.get("Content-Range").and_then(ContentRange::parse);
            let single = received.response.count("Content-Range") == 1;
            match range {
                Some(ContentRange::Satisfied { .. }) if single => Ok(()),
                _ => Err(Reason::PartialWithoutRange),
            }
        }
        _ => Ok(()),
    }
}

/// A cookie is for one user. One that `private` or `no-cache` names is not stored with the rest.
fn check_cookie(received: &Received<'_>, settings: &Settings) -> Result<(), Reason> {
    let passes = settings.shared && settings.set_cookie == SetCookie::Pass;
    if !passes || !received.response.contains("Set-Cookie") {
        return Ok(());
    }
    let unstored = unstored_fields(received.response, settings);
    let is_left_out = unstored.iter().any(|name| name.eq_ignore_ascii_case(b"Set-Cookie"));
    if is_left_out { Ok(()) } else { Err(Reason::SetCookie) }
}

fn check_method(received: &Received<'_>, source: LifetimeSource) -> Result<(), Reason> {
    match received.method {
        Method::Get => Ok(()),
        // RFC 9110 §9.3.3: with an explicit lifetime and the target named as location, the
        // response is what a GET would have brought.
        Method::Post if source.is_explicit() && received.status != 206 => {
            let location = received.response.get_str("Content-Location");
            let same = location
                .and_then(|to| target::resolve(received.authority, received.target, to))
                .is_some_and(|(authority, path)| {
                    authority == received.authority && path == received.target
                });
            if same { Ok(()) } else { Err(Reason::MethodNotStored) }
        }
        _ => Err(Reason::MethodNotStored),
    }
}

fn check_directives(
    received: &Received<'_>,
    settings: &Settings,
    control: &CacheControl,
) -> Result<(), Reason> {
    if control.must_understand && !status::is_understood(received.status) {
        return Err(Reason::StatusNotUnderstood);
    }
    if settings.honour_request_directives
        && RequestCacheControl::from_fields(received.request).no_store
    {
        return Err(Reason::RequestNoStore);
    }
    if settings.shared && control.private {
        return Err(Reason::Private);
    }
    let is_authorized = Credentials::are_in(settings.credentials.as_deref(), received.request);
    if settings.shared && is_authorized && !control.permits_authorized() {
        return Err(Reason::Authorization);
    }
    // Behind those for whom it is: a site may do without this one (`media.override`), and never without them.
    if control.no_store && !control.must_understand {
        return Err(Reason::NoStore);
    }
    if Vary::is_any(received.response) {
        return Err(Reason::VaryAny);
    }
    Ok(())
}

/// `freshness_lifetime` (§4.2.1). A targeted field hides `Expires` (RFC 9213 §2.2).
fn lifetime(
    received: &Received<'_>,
    settings: &Settings,
    control: &CacheControl,
    targeted: bool,
    given: Option<Given>,
) -> (Duration, LifetimeSource) {
    let own = |source| if targeted { LifetimeSource::Targeted } else { source };
    if let Some(lifetime) = control.s_maxage.filter(|_| settings.shared) {
        return (lifetime, own(LifetimeSource::SMaxAge));
    }
    if let Some(lifetime) = control.max_age {
        return (lifetime, own(LifetimeSource::MaxAge));
    }
    let date = date_value(received);
    if let Some(expires) = received.response.get("Expires").filter(|_| !targeted) {
        let expires = date::parse_near(expires, received.response_time);
        let lifetime = expires.map_or(Duration::ZERO, |expires| expires.since(date));
        return (lifetime, LifetimeSource::Expires);
    }
    if let Some(given) = given {
        return (initial_age(received).saturating_add(given.lifetime), LifetimeSource::Policy);
    }
    if let Some(lifetime) = settings.negative_ttl.filter(|_| status::is_negative(received.status)) {
        return (lifetime, LifetimeSource::Negative);
    }
    let may_guess = settings.heuristic
        && (control.public || status::is_heuristically_cacheable(received.status));
    let modified = received.response.get("Last-Modified").filter(|_| may_guess);
    let modified = modified.and_then(|text| date::parse_near(text, received.response_time));
    match modified {
        Some(modified) if modified < date => {
            let share = settings.heuristic_fraction.clamp(0.0, 1.0);
            let guessed = date.since(modified).mul_f64(share).min(settings.heuristic_max);
            (guessed, LifetimeSource::Heuristic)
        }
        _ => (Duration::ZERO, LifetimeSource::None),
    }
}

fn freshness(
    received: &Received<'_>,
    settings: &Settings,
    control: &CacheControl,
    lifetime: Duration,
    source: LifetimeSource,
) -> Freshness {
    let forbidden = control.must_revalidate
        || (settings.shared && control.proxy_revalidate)
        || control.no_cache;
    // `s-maxage` brings `proxy-revalidate` with it (§5.2.2.10). The two directives of RFC 5861
    // modify that when they stand beside it (§5.2.3): many origins send `s-maxage=60,
    // stale-while-revalidate=600` and mean both. Our own defaults do not.
    let implied = settings.shared && control.s_maxage.is_some();
    // What was never fresh may be one user's page, of an origin that says nothing of that and has all requests come
    // to it: it is nobody else's, also when they fail.
    let is_for_others = !lifetime.is_zero() || control.public;
    let window = |said: Option<Duration>, default: Duration| match said {
        _ if forbidden => Duration::ZERO,
        Some(said) => said,
        None if implied || !is_for_others => Duration::ZERO,
        None => default,
    };
    let mut freshness = Freshness {
        source,
        must_revalidate: forbidden || implied,
        no_cache: control.no_cache,
        immutable: control.immutable,
        was_aged: said_age(received.response).is_some(),
        ..Freshness::from_policy(received.response_time, lifetime)
    };
    freshness.set_initial_age(initial_age(received));
    let (grace, on_error) = (settings.default_grace, settings.default_stale_if_error);
    freshness.set_stale_while_revalidate(window(control.stale_while_revalidate, grace));
    freshness.set_stale_if_error(window(control.stale_if_error, on_error));
    freshness
}

/// Refuses what could never be used: not fresh on arrival, in no stale window and without a
/// validator. The default for errors alone is no reason to keep it.
fn check_usable(
    received: &Received<'_>,
    control: &CacheControl,
    freshness: &Freshness,
) -> Result<(), Reason> {
    let has_validator =
        received.response.contains("ETag") || received.response.contains("Last-Modified");
    if has_validator {
        return Ok(());
    }
    if control.no_cache {
        return Err(Reason::NoCacheNoValidator);
    }
    let said =
        if control.stale_if_error.is_some() { freshness.stale_if_error() } else { Duration::ZERO };
    let window = freshness.stale_while_revalidate().max(said);
    if freshness.initial_age() < freshness.lifetime().saturating_add(window) {
        Ok(())
    } else if freshness.source == LifetimeSource::None {
        Err(Reason::NoFreshness)
    } else {
        Err(Reason::StaleOnArrival)
    }
}

/// `corrected_initial_age` (§4.2.3). Dates have whole seconds, so the apparent age is counted in
/// whole seconds too: otherwise each response would look up to a second older than it is.
fn initial_age(received: &Received<'_>) -> Duration {
    let arrived = UnixMillis::from_seconds(received.response_time.seconds());
    let apparent_age = arrived.since(date_value(received));
    let response_delay = received.response_time.since(received.request_time);
    let age_value = said_age(received.response).unwrap_or(Duration::ZERO);
    let corrected_age = age_value.saturating_add(response_delay);
    apparent_age.max(corrected_age)
}

/// The `Age` field: the first number where there are several, nothing where it is not one (RFC
/// 9111 §5.1).
fn said_age(response: &Fields) -> Option<Duration> {
    let first = response.get("Age").and_then(|value| value.split(|byte| *byte == b',').next());
    first.and_then(|text| delta_seconds(text.trim_ascii()))
}

/// `Date`, or when the response arrived where there is none or it is no date (RFC 9110 §6.6.1).
fn date_value(received: &Received<'_>) -> UnixMillis {
    received
        .response
        .get("Date")
        .and_then(|text| date::parse_near(text, received.response_time))
        .unwrap_or(received.response_time)
}
