//! What a site does to requests and responses by its rules: redirects, paths, fields and CORS.

use crate::values::{self, Moment};
use freshet_config::rules::{Caching, Cors, FieldAction, FieldRule, Redirect, Rules};
use freshet_config::template::Template;
use freshet_http::fields::Fields;
use freshet_http::message::{Method, RequestHead, ResponseHead, Scheme};
use freshet_http::path::{self, Readings};
use freshet_http::reason::Reason;
use freshet_http::target;
use freshet_site::policy::{ClientTask, FetchKind, FetchTask};
use std::borrow::Cow;

/// Longest `Location` a redirect makes.
const LOCATION_BYTES_MAX: usize = 8 << 10;

/// Fields in which players say how they are doing (CTA-5004 §2.1).
const CMCD_FIELDS: [&str; 4] = ["CMCD-Object", "CMCD-Request", "CMCD-Session", "CMCD-Status"];

/// What is kept of a request between its states, where rules concern it.
#[derive(Debug, Default)]
pub(super) struct Ruled {
    /// The target as the client sent it, where a rule gave it another.
    sent_target: Option<String>,
    /// What the response that is made here says.
    local: Option<Local>,
}

/// A response the rules make.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Local {
    /// To another place.
    Redirect(String),
    /// To a question of a browser about what it may ask for.
    Preflight,
}

/// What the rules answer by themselves, as a status. The target is as they want it then.
pub(super) fn receive(task: &mut ClientTask) -> Option<u16> {
    let site = task.site.clone();
    let rules = &site.settings.rules;
    if rules.is_empty() {
        return None;
    }
    let request = &mut task.request;
    let location = redirect(rules, request);
    let is_preflight = request.method == Method::Options
        && request.fields.contains("origin")
        && request.fields.contains("access-control-request-method");
    let (status, local) = match location {
        Some(Led::Nowhere(status)) => (Some(status), None),
        Some(Led::To(status, to)) => (Some(status), Some(Local::Redirect(to))),
        None if rules.cors.is_some() && is_preflight => (Some(204), Some(Local::Preflight)),
        None => (None, None),
    };
    // Also of what is answered here: what is purged by its URL has a key.
    let rewritten = rules.paths.iter().find_map(|rule| {
        let rest = request.target.strip_prefix(&rule.prefix)?;
        Some((format!("{}{rest}", rule.replace), &rule.replace))
    });
    let rewritten = match rewritten {
        // It is not for the rule to lead to any other place.
        Some((target, beginning)) if !path::stays_below(&target, beginning) => return Some(400),
        rewritten => rewritten.map(|(target, _)| target),
    };
    let sent_target = rewritten.map(|target| std::mem::replace(&mut request.target, target));
    if local.is_some() || sent_target.is_some() {
        task.state = Some(Box::new(Ruled { sent_target, local }));
    }
    status
}

/// What a rule does with a request in place of an answer.
enum Led {
    /// Sends it there, with this status.
    To(u16, String),
    /// Would send it to a place that is none: it is refused with this status, as whatever else is done with it is
    /// not what the rule is there for.
    Nowhere(u16),
}

fn redirect(rules: &Rules, request: &RequestHead) -> Option<Led> {
    if request.method == Method::Purge {
        // It names what is stored, which has the same key whatever scheme is asked for.
        return None;
    }
    rules.redirects.iter().find_map(|rule| {
        let to = location(rule, request.scheme, &request.authority, &request.target)?;
        // Only clients of HTTP/1.0 may leave it out, and a place without one is none.
        let is_without_host = request.authority.is_empty() && rule.to.contains("{host}");
        // `//host` would be another host's.
        let is_place = !to.starts_with("//") && to.bytes().all(|byte| byte.is_ascii_graphic());
        Some(match to.len() {
            _ if is_without_host || !is_place => Led::Nowhere(400),
            ..=LOCATION_BYTES_MAX => Led::To(rule.status, to),
            _ => Led::Nowhere(414),
        })
    })
}

/// Whether the answer to a request is but where to go, as the client has written it.
pub(super) fn leads_elsewhere(rules: &Rules, request: &RequestHead) -> bool {
    redirect(rules, request).is_some()
}

/// Whether a rule has a GET or HEAD go to the origin by itself. Otherwise its query is as the rule for
/// it wants it.
pub(super) fn leads_past_cache(task: &mut ClientTask) -> bool {
    let site = task.site.clone();
    let (rules, request) = (&site.settings.rules, &task.request);
    let rule = match rules.caching_of(&request.target, &request.fields) {
        Caching::Past => return true,
        Caching::Through(None) => return false,
        Caching::Through(Some(rule)) => rule,
    };
    if let Some(target) = rule.query.changed(&task.request.target) {
        let sent = std::mem::replace(&mut task.request.target, target);
        if ruled(task).is_none() {
            task.state = Some(Box::new(Ruled { sent_target: Some(sent), local: None }));
        }
    }
    false
}

/// What a fetch has to know of its request.
#[derive(Debug)]
pub(super) struct Sent {
    /// The target as the client sent it.
    target: String,
    /// What the values of rules are for the request, in their order; `None` where that is nothing, or
    /// nothing an origin may hear.
    values: Vec<Option<String>>,
    /// Whether it comes from another node of its place, which has done the same with it.
    was_ruled: bool,
}

/// What a fetch has to know of its request, where rules concern it.
pub(super) fn begin_fetch(task: &ClientTask, kind: FetchKind) -> Option<Sent> {
    let rules = &task.site.settings.rules.request_fields;
    if rules.is_empty() {
        return None;
    }
    let sent = ruled(task).and_then(|ruled| ruled.sent_target.as_deref());
    let target = sent.unwrap_or(&task.request.target).to_owned();
    let is_for_one = kind == FetchKind::Pass;
    let (moment, shown) = (Moment::Fetch { is_for_one }, shown_target(task, &target, is_for_one));
    let value = |rule: &FieldRule| values::of(rule.action.template()?, task, &shown, moment);
    let values = rules.iter().map(value).collect();
    let was_ruled = task.site.is_asked_by_sibling(&task.client, &task.request.fields);
    Some(Sent { target, values, was_ruled })
}

/// The target that values are made of: as the client sent it where the response is for it alone. Where it is for
/// all, as the key and the origin have it, or one client's words would be in what all others get.
fn shown_target<'a>(task: &'a ClientTask, sent: &'a str, is_for_one: bool) -> Cow<'a, str> {
    if is_for_one {
        return sent.into();
    }
    task.site.target_for_all(&task.request.target)
}

/// Brings the fields of a request to an origin in line.
pub(super) fn fetch(task: &mut FetchTask) {
    let site = task.site.clone();
    let rules = &site.settings.rules;
    if rules.is_empty() {
        return;
    }
    let is_for_all = task.kind != FetchKind::Pass;
    let FetchTask { state, request, .. } = task;
    let sent = state.as_deref().and_then(|state| state.downcast_ref::<Sent>());
    change_request(rules, sent, is_for_all, &request.target, &mut request.fields);
}

/// Whether a rule changes a field of requests that are for all.
pub(super) fn writes(rules: &Rules, name: &[u8]) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    (rules.cors.is_some() && is("origin")) || rules.request_fields.iter().any(|rule| is(&rule.name))
}

/// Changes fields as [`fetch`] does where it is for all.
pub(super) fn write(task: &ClientTask, fields: &mut Fields) {
    let sent = begin_fetch(task, FetchKind::Miss);
    let rules = &task.site.settings.rules;
    change_request(rules, sent.as_ref(), true, &task.request.target, fields);
}

fn change_request(
    rules: &Rules,
    sent: Option<&Sent>,
    is_for_all: bool,
    target: &str,
    fields: &mut Fields,
) {
    if rules.cors.is_some() && is_for_all {
        // What the origin would say to one page's origin is kept for all.
        fields.remove("origin");
    }
    let path = Readings::of(sent.map_or(target, |sent| &sent.target));
    let was_ruled = sent.is_some_and(|sent| sent.was_ruled);
    let is_done = |rule: &FieldRule| was_ruled && matches!(rule.action, FieldAction::Add(_));
    for (index, rule) in rules.request_fields.iter().enumerate() {
        if rule.is_for(&path) && !is_done(rule) {
            let value = sent.and_then(|sent| sent.values.get(index)?.as_deref());
            // What begins a fetch by itself asks for nobody.
            let value = value.or_else(|| rule.action.template()?.plain());
            change(rule, value, fields);
        }
    }
}

/// Brings the fields of a response to a client in line, also of one that was made here.
pub(super) fn deliver(task: &ClientTask, reason: Reason, head: &mut ResponseHead) {
    let rules = &task.site.settings.rules;
    if rules.is_empty() {
        return;
    }
    let status = head.status;
    let fields = &mut head.fields;
    let ruled = ruled(task);
    match ruled.and_then(|ruled| ruled.local.as_ref()) {
        Some(Local::Redirect(to)) => fields.set("Location", to),
        Some(Local::Preflight) => {
            fields.remove("content-type");
        }
        None => {}
    }
    if task.site.is_asked_by_sibling(&task.client, &task.request.fields) {
        // It does so for each of its clients, and what it keeps stays as it came.
        return;
    }
    if let Some(cors) = &rules.cors {
        let is_preflight = ruled.is_some_and(|ruled| ruled.local == Some(Local::Preflight));
        allow(cors, &task.request.fields, is_preflight, fields);
    }
    let sent = ruled.and_then(|ruled| ruled.sent_target.as_deref());
    let target = sent.unwrap_or(&task.request.target);
    let path = Readings::of(target);
    let is_for = |rule: &&FieldRule| rule.is_for(&path) && rule.is_for_status(status);
    let is_clear = task.request.scheme == Scheme::Http;
    for rule in rules.response_fields.iter().filter(is_for) {
        let template = rule.action.template().filter(|_| !(is_clear && rule.is_for_tls()));
        match template.and_then(Template::plain) {
            plain @ Some(_) => change(rule, plain, fields),
            None => {
                let value =
                    template.and_then(|it| values::of(it, task, target, Moment::Response(reason)));
                change(rule, value.as_deref(), fields);
            }
        }
    }
}

/// The target as the client sent it, where a rule gave it another.
pub(super) fn sent_target(task: &ClientTask) -> Option<&str> {
    ruled(task)?.sent_target.as_deref()
}

fn ruled(task: &ClientTask) -> Option<&Ruled> {
    task.state.as_deref()?.downcast_ref()
}

/// Does what a rule says. A field that would have no value is not there: what a client sent in its
/// place could be taken for what the node says.
fn change(rule: &FieldRule, value: Option<&str>, fields: &mut Fields) {
    match (&rule.action, value) {
        (FieldAction::Set(_), Some(value)) => {
            fields.remove_claims(&rule.name);
            fields.append(&rule.name, value);
        }
        (FieldAction::Add(_), Some(value)) => fields.append(&rule.name, value),
        (FieldAction::Add(_), None) => {}
        (FieldAction::Set(_), None) | (FieldAction::Remove, _) => {
            fields.remove_claims(&rule.name);
        }
    }
}

/// Where a redirect sends a request, where it is for it.
fn location(rule: &Redirect, scheme: Scheme, authority: &str, target: &str) -> Option<String> {
    let is_scheme = match rule.scheme.as_deref() {
        None => true,
        Some("http") => scheme == Scheme::Http,
        Some(_) => scheme == Scheme::Https,
    };
    let (path, query) = target.split_once('?').map_or((target, None), |(path, q)| (path, Some(q)));
    let rest = match rule.from.strip_suffix('*') {
        Some(prefix) => path.strip_prefix(prefix)?,
        None if path == rule.from => "",
        None => return None,
    };
    if !is_scheme {
        return None;
    }
    let (host, _) = target::split_authority(authority);
    let to = rule.to.replace("{host}", host).replace("{rest}", rest);
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Some(to) };
    // It goes before a fragment (RFC 3986 §3).
    let (place, fragment) = to.split_at(to.find('#').unwrap_or(to.len()));
    let joint = if place.contains('?') { '&' } else { '?' };
    Some(format!("{place}{joint}{query}{fragment}"))
}

/// What a page of another origin may do with the response (Fetch Standard §3.3).
fn allow(cors: &Cors, request: &Fields, is_preflight: bool, fields: &mut Fields) {
    for name in [
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "access-control-expose-headers",
        "access-control-allow-methods",
        "access-control-allow-headers",
        "access-control-max-age",
    ] {
        fields.remove(name);
    }
    let is_for_all = cors.is_for_all();
    if !is_for_all && !fields.has_token("vary", "origin") && !fields.has_token("vary", "*") {
        fields.append("Vary", "Origin");
    }
    let asked = request.get_str("origin").unwrap_or_default();
    if !cors.allows(asked) {
        return;
    }
    fields.append("Access-Control-Allow-Origin", if is_for_all { "*" } else { asked });
    if cors.credentials {
        fields.append("Access-Control-Allow-Credentials", "true");
    }
    let mut list = |name: &str, values: &[String]| {
        if !values.is_empty() {
            fields.append(name, values.join(", "));
        }
    };
    if is_preflight {
        list("Access-Control-Allow-Methods", &cors.methods);
        let asked = request.get_str("access-control-request-headers").unwrap_or_default();
        if !cors.headers.iter().any(|name| name == "*") {
            list("Access-Control-Allow-Headers", &allowed_fields(cors, asked));
        } else if !asked.is_empty() {
            list("Access-Control-Allow-Headers", &[asked.to_owned()]);
        }
        fields.append("Access-Control-Max-Age", cors.max_age.as_secs().to_string());
    } else {
        list("Access-Control-Expose-Headers", &cors.expose);
    }
}

/// The fields a preflight is told: those of the configuration, and those of the asked ones in which
/// players say how they are doing (CTA-5004 §2.1). They stay here, so no page can do harm with them.
fn allowed_fields(cors: &Cors, asked: &str) -> Vec<String> {
    let of_players = asked.split(',').map(str::trim).filter(|name| {
        CMCD_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known))
            && !cors.headers.iter().any(|known| name.eq_ignore_ascii_case(known))
    });
    cors.headers.iter().cloned().chain(of_players.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_config::mistake::Place;
    use std::time::Duration;

    fn redirect(from: &str, scheme: Option<&str>, to: &str) -> Redirect {
        let scheme = scheme.map(str::to_owned);
        Redirect { from: from.into(), scheme, to: to.into(), status: 301, place: Place::default() }
    }

    fn to(rule: &Redirect, target: &str) -> Option<String> {
        location(rule, Scheme::Http, "tv.example:8080", target)
    }

    #[test]
    fn a_redirect_takes_host_rest_and_query_along() {
        let https = redirect("/*", Some("http"), "https://{host}/{rest}");
        assert_eq!(to(&https, "/a/b?c=d").as_deref(), Some("https://tv.example/a/b?c=d"));
        assert_eq!(location(&https, Scheme::Https, "tv.example", "/"), None);
        let moved = redirect("/old", None, "/new?from=old");
        assert_eq!(to(&moved, "/old?x").as_deref(), Some("/new?from=old&x"));
        assert_eq!(to(&moved, "/older"), None);
        assert_eq!(to(&moved, "/old?").as_deref(), Some("/new?from=old"));
        let part = redirect("/part", None, "/new#top");
        assert_eq!(to(&part, "/part?z=1").as_deref(), Some("/new?z=1#top"));
    }

    #[test]
    fn what_a_redirect_cannot_lead_goes_nowhere_else() {
        let rules =
            Rules { redirects: vec![redirect("/old/*", None, "/{rest}")], ..Rules::default() };
        let led = |target: &str| {
            let request = RequestHead { target: target.into(), ..RequestHead::default() };
            super::redirect(&rules, &request)
        };
        assert!(matches!(led("/old/a"), Some(Led::To(301, to)) if to == "/a"));
        assert!(matches!(led("/old//evil.example"), Some(Led::Nowhere(400))));
        let long = "a".repeat(LOCATION_BYTES_MAX);
        assert!(matches!(led(&format!("/old/{long}")), Some(Led::Nowhere(414))));
        assert!(led("/new").is_none());
    }

    fn allowed(cors: &Cors, request: &[(&str, &str)], is_preflight: bool) -> Fields {
        let mut fields: Fields =
            [("Access-Control-Allow-Origin", "https://other.example")].into_iter().collect();
        allow(cors, &request.iter().copied().collect(), is_preflight, &mut fields);
        fields
    }

    #[test]
    fn cors_names_the_asking_origin_and_no_other() {
        let cors = Cors {
            origins: vec!["https://a.example".into()],
            methods: vec!["GET".into()],
            headers: vec!["*".into()],
            expose: vec!["Date".into()],
            credentials: true,
            max_age: Duration::from_secs(60),
        };
        let known = allowed(&cors, &[("origin", "https://a.example")], false);
        assert_eq!(known.get_str("access-control-allow-origin"), Some("https://a.example"));
        assert_eq!(known.get_str("access-control-expose-headers"), Some("Date"));
        assert_eq!(known.get_str("vary"), Some("Origin"));
        let stranger = allowed(&cors, &[("origin", "https://evil.example")], false);
        assert_eq!(stranger.get_str("access-control-allow-origin"), None);
        assert_eq!(stranger.get_str("vary"), Some("Origin"));
        let none = allowed(&cors, &[], false);
        assert_eq!(none.get_str("access-control-allow-origin"), None);
        let asks =
            [("origin", "https://a.example"), ("access-control-request-headers", "range, x-token")];
        let preflight = allowed(&cors, &asks, true);
        assert_eq!(preflight.get_str("access-control-allow-headers"), Some("range, x-token"));
        assert_eq!(preflight.get_str("access-control-max-age"), Some("60"));
        assert_eq!(preflight.get_str("access-control-expose-headers"), None);
        let some = Cors { headers: vec!["Range".into()], ..cors.clone() };
        let words = "range, cmcd-session, x-token, CMCD-Object, cmcd-evil";
        let asks = [("origin", "https://a.example"), ("access-control-request-headers", words)];
        let preflight = allowed(&some, &asks, true);
        assert_eq!(
            preflight.get_str("access-control-allow-headers"),
            Some("Range, cmcd-session, CMCD-Object")
        );
        let all = Cors { origins: vec!["*".into()], credentials: false, ..cors };
        let anybody = allowed(&all, &[], false);
        assert_eq!(anybody.get_str("access-control-allow-origin"), Some("*"));
        assert_eq!(anybody.get_str("vary"), None);
    }
}
