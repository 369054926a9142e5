//! What a client that asks over HTTP is told.

use crate::config::{Redirects, Scheme};
use crate::decision::key::Asked;
use crate::decision::table::Node;
use crate::decision::{Decision, Family, NodeId, Question, SiteId, Story, Table, View, Watch};
use crate::live::{Outcome, Routing};
use crate::steering;
use freshet_base::clock::UnixMillis;
use std::net::IpAddr;

/// The cookie that names a client's node.
const COOKIE: &str = "freshet-node";

/// A request, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whether it is GET or HEAD.
    pub is_reading: bool,
    /// Whether it came over TLS.
    pub is_secure: bool,
    /// Its host, perhaps with a port.
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Who asks.
    pub client: IpAddr,
    /// The value of its `Cookie`.
    pub cookie: &'a str,
}

impl<'a> Request<'a> {
    /// GET of a URL; `None` where it is none.
    pub fn of_url(url: &'a str, client: IpAddr) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_known = matches!(scheme, "http" | "https") && !host.is_empty();
        is_known.then_some(Self {
            is_reading: true,
            is_secure: scheme == "https",
            host,
            target: if target.is_empty() { "/" } else { target },
            client,
            cookie: "",
        })
    }
}

/// What is answered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// `Location`
    pub location: Option<String>,
    /// `Set-Cookie`
    pub cookie: Option<String>,
    /// What a player is told.
    pub body: Option<String>,
    /// The node it is sent to.
    pub node: Option<NodeId>,
}

/// Answers a request, and counts it.
pub fn answer(routing: &Routing, request: &Request<'_>, now: UnixMillis) -> Reply {
    let host = host_of(request.host);
    let Some(site) = routing.table.site_of(&host) else {
        return Reply { status: 421, ..Reply::default() };
    };
    let (Some(redirects), Some(counts)) =
        (routing.redirects.get(site as usize), routing.counts.get(site as usize))
    else {
        return Reply { status: 421, ..Reply::default() };
    };
    let asked = Asked::new(&host, request.target, request.client);
    if redirects.steering.as_deref() == Some(asked.path) {
        let (body, outcome) = steering::manifest(routing, site, &asked, now);
        counts.count(outcome);
        let status = match outcome {
            Outcome::Refused => 403,
            Outcome::Nobody | Outcome::Bypassed => 503,
            Outcome::Sent | Outcome::Kept => 200,
        };
        return Reply { status, body, ..Reply::default() };
    }
    let view = routing.at(now);
    let (decision, kept) = decide(routing, site, &host, request, &view, &mut ());
    let (reply, outcome) = reply(&routing.table, redirects, &host, request, &decision, kept);
    counts.count(outcome);
    if let Some(node) = reply.node {
        routing.note_sent(node);
    }
    reply
}

/// The steps to the answer of a request, the last one in words, and the answer. Nothing is counted.
pub fn explain(routing: &Routing, request: &Request<'_>, now: UnixMillis) -> (Vec<String>, Reply) {
    let host = host_of(request.host);
    let misdirected = || Reply { status: 421, ..Reply::default() };
    let Some(site) = routing.table.site_of(&host) else {
        return (vec![format!("no site has the host `{host}`: 421")], misdirected());
    };
    let mut story = Story::default();
    let (decision, kept) = decide(routing, site, &host, request, &routing.at(now), &mut story);
    let name = routing.table.site(site).map_or("", |site| &site.name);
    let mut lines = vec![format!("the site is {name}")];
    lines.extend(story.lines(&routing.table, &decision));
    let Some(redirects) = routing.redirects.get(site as usize) else {
        return (lines, misdirected());
    };
    let (reply, _) = reply(&routing.table, redirects, &host, request, &decision, kept);
    lines.push(match &reply.location {
        Some(location) => format!("{} to {location}", reply.status),
        None => format!("{} without a place to go", reply.status),
    });
    (lines, reply)
}

/// The decision, and the node the client had before.
fn decide(
    routing: &Routing,
    site: SiteId,
    host: &str,
    request: &Request<'_>,
    view: &impl View,
    watch: &mut impl Watch,
) -> (Decision, Option<NodeId>) {
    let table = &routing.table;
    let asked = Asked::new(host, request.target, request.client);
    let key = table.site(site).map_or(0, |site| site.key_of(&asked));
    let is_sticky = routing.redirects.get(site as usize).is_some_and(|one| !one.sticky.is_zero());
    let kept = cookie_of(request.cookie).filter(|_| is_sticky);
    let kept = kept.and_then(|name| table.node_named(name));
    let question = Question {
        site,
        client: request.client,
        key,
        wanted: 1,
        family: Family::Any,
        kept,
        avoid: &[],
    };
    (table.decide(&question, view, watch), kept)
}

fn reply(
    table: &Table,
    redirects: &Redirects,
    host: &str,
    request: &Request<'_>,
    decision: &Decision,
    kept: Option<NodeId>,
) -> (Reply, Outcome) {
    let scheme = match (redirects.scheme, request.is_secure) {
        (Scheme::Https, _) | (Scheme::Same, true) => "https",
        _ => "http",
    };
    let status = if request.is_reading { redirects.status } else { 307 };
    let to = |host: &str| Some(format!("{scheme}://{host}{}", request.target));
    if decision.is_refused {
        let (status, location) = match &redirects.refused_to {
            Some(url) => (302, Some(url.clone())),
            None => (403, None),
        };
        return (Reply { status, location, ..Reply::default() }, Outcome::Refused);
    }
    let Some((id, node)) = decision.picks.first().and_then(|id| Some((id, table.node(id)?))) else {
        return match &redirects.bypass {
            Some(host) => {
                (Reply { status, location: to(host), ..Reply::default() }, Outcome::Bypassed)
            }
            None => (Reply { status: 503, ..Reply::default() }, Outcome::Nobody),
        };
    };
    let location = to(&node_host(redirects, node, host));
    let cookie = (!redirects.sticky.is_zero()).then(|| {
        let secure = if request.is_secure { "; Secure" } else { "" };
        format!(
            "{COOKIE}={}; Max-Age={}; Path=/; HttpOnly; SameSite=Lax{secure}",
            node.name,
            redirects.sticky.as_secs()
        )
    });
    let outcome = if kept == Some(id) { Outcome::Kept } else { Outcome::Sent };
    (Reply { status, location, cookie, node: Some(id), body: None }, outcome)
}

/// The host of a node in URLs, for a site that was asked as `host`.
pub(crate) fn node_host(redirects: &Redirects, node: &Node, host: &str) -> String {
    match redirects.node_host.as_str() {
        "" => node.host.clone(),
        template => template.replace("{node}", &node.name).replace("{host}", host),
    }
}

/// A host without its port and the dot at its end, in lower case.
pub(crate) fn host_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The node a `Cookie` names.
fn cookie_of(field: &str) -> Option<&str> {
    field.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == COOKIE).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn routing(site: &str) -> Routing {
        let text = format!(
            "[[region]]\nname = \"a\"\n[[node]]\nname = \"n-1\"\nregion = \"a\"\nhost = \"n-1.example\"\n\
             [[node]]\nname = \"n-2\"\nregion = \"a\"\nhost = \"n-2.example:81\"\n\
             [[zone]]\nname = \"z\"\nregion = \"a\"\nnetworks = [\"10.0.0.0/8\"]\n\
             [[site]]\nhosts = [\"www.example\"]\n{site}\n"
        );
        let config = read(&text).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        Routing::new(config, None).unwrap()
    }

    const GET: Request<'_> = Request {
        is_reading: true,
        is_secure: false,
        host: "WWW.example.:8080",
        target: "/a.ts?token=%41&x",
        client: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
        cookie: "",
    };

    fn ask(routing: &Routing, request: &Request<'_>) -> Reply {
        answer(routing, request, UnixMillis(1))
    }

    #[test]
    fn a_client_is_sent_to_a_node_with_all_it_asked_for() {
        let plain = routing("");
        let reply = ask(&plain, &GET);
        let location = reply.location.unwrap();
        assert_eq!(reply.status, 302);
        assert!(location.ends_with(".example/a.ts?token=%41&x") || location.contains(":81/a.ts?"));
        assert!(location.starts_with("http://n-") && reply.cookie.is_none());
        let other = ask(&plain, &Request { is_reading: false, is_secure: true, ..GET });
        assert!(other.status == 307 && other.location.unwrap().starts_with("https://n-"));
        assert_eq!(ask(&plain, &Request { host: "other.example", ..GET }).status, 421);
        assert_eq!(plain.counts[0].value(Outcome::Sent), 2);
        let templated =
            routing("node_host = \"{node}.{host}\"\nscheme = \"https\"\nstatus = \"307\"");
        let reply = ask(&templated, &GET);
        let location = reply.location.unwrap();
        assert!(location.contains(".www.example/a.ts") && location.starts_with("https://n-"));
        assert_eq!(reply.status, 307);
    }

    #[test]
    fn a_cookie_keeps_a_client_with_its_node() {
        let sticky = routing("sticky = \"1h\"");
        let cookie = ask(&sticky, &GET).cookie.unwrap();
        assert!(
            cookie.starts_with("freshet-node=n-") && cookie.contains("Max-Age=3600"),
            "{cookie}"
        );
        for name in ["n-1", "n-2"] {
            let cookie = format!("a=b; freshet-node={name}; c");
            let reply = ask(&sticky, &Request { cookie: &cookie, ..GET });
            assert!(reply.location.unwrap().starts_with(&format!("http://{name}.")));
        }
        let unknown = ask(&sticky, &Request { cookie: "freshet-node=evil", ..GET });
        assert!(unknown.location.unwrap().starts_with("http://n-"));
        assert_eq!(sticky.counts[0].value(Outcome::Kept), 2);
    }

    #[test]
    fn who_is_refused_or_has_no_node_is_told() {
        let elsewhere = Request { client: [192, 0, 2, 1].into(), ..GET };
        let closed = routing("zones_only = true");
        assert_eq!(ask(&closed, &elsewhere).status, 403);
        let sorry = routing("zones_only = true\nrefused_to = \"https://sorry.example/\"");
        assert_eq!(ask(&sorry, &elsewhere).location.as_deref(), Some("https://sorry.example/"));
        assert_eq!(ask(&sorry, &GET).status, 302);
        let nobody = |more: &str| {
            let text = format!(
                "[[region]]\nname = \"a\"\n[[node]]\nname = \"n\"\nregion = \"a\"\nhost = \"n\"\n\
                 drained = true\n[[site]]\nhosts = [\"*\"]\n{more}"
            );
            ask(&Routing::new(read(&text).unwrap(), None).unwrap(), &GET)
        };
        assert_eq!(nobody("").status, 503);
        let bypassed = nobody("bypass = \"other.example\"").location;
        assert_eq!(bypassed.as_deref(), Some("http://other.example/a.ts?token=%41&x"));
    }

    #[test]
    fn an_explanation_ends_with_the_answer() {
        let (lines, reply) = explain(&routing(""), &GET, UnixMillis(1));
        assert_eq!(reply.status, 302);
        assert_eq!(lines[0], "the site is www.example");
        assert!(lines.last().unwrap().starts_with("302 to http://n-"), "{lines:?}");
    }
}
