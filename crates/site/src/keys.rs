//! Keys of a site's resources, by what a request for them says.

use crate::sites::SiteRef;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Key, KeyBuilder, Secret};
use freshet_channels::{Channels, Facts, Films, without_directives};
use freshet_http::message::RequestHead;
use freshet_http::target;
use std::borrow::Cow;

/// The key of a resource, by what a request for it says, and by what rules make of its query.
#[inline]
pub fn resource<'a>(
    key: KeyBuilder<'a>,
    site: &SiteRef,
    authority: &str,
    target: &str,
) -> KeyBuilder<'a> {
    let (authority, target) = as_in_key(site, authority, target);
    key.parts([authority.as_bytes(), target.as_bytes()])
}

/// What the key of a resource has of its authority and target.
#[inline]
pub fn as_in_key<'a>(
    site: &SiteRef,
    authority: &'a str,
    target: &'a str,
) -> (&'a str, Cow<'a, str>) {
    let rule = site.settings.rules.caching_for(target);
    let target = match rule.and_then(|rule| rule.query.changed(target)) {
        Some(changed) => Cow::Owned(target::key_target(&changed).into_owned()),
        None => target::key_target(target),
    };
    (key_authority(authority), target)
}

/// The part of an authority that tells resources apart: ports that go without saying are left out, whatever the
/// scheme. An origin sees any other one, and may write it into what it answers.
#[inline]
pub fn key_authority(authority: &str) -> &str {
    match target::split_authority(authority) {
        (host, Some(80 | 443)) => host,
        _ => authority,
    }
}

/// All authorities by which clients of a node with these ports may ask for what is purged under this one: it, its host,
/// and that with each of the ports; names with the dot of the root behind them and without it.
pub fn purged_authorities(authority: &str, own_ports: &[u16]) -> Vec<String> {
    let (host, port) = target::split_authority(authority);
    let host = host.strip_suffix('.').unwrap_or(host);
    let dotted = (!host.ends_with(']')).then(|| format!("{host}."));
    let ports: Vec<_> = port.iter().chain(own_ports).collect();
    let mut all = Vec::new();
    for host in [host].into_iter().chain(dotted.as_deref()) {
        let with_port = ports.iter().map(|port| format!("{host}:{port}"));
        all.extend(with_port.map(|one| key_authority(&one).to_owned()));
        all.push(host.to_owned());
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The key a resource of a site has in the table of channels, whatever key its policy gives it in the cache.
pub fn key_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    resource(site.name.key(secret), site, authority, target).build()
}

/// The same for what was asked for, whatever directives stand in its query.
pub fn id_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    key_of(site, secret, authority, &without_directives(target))
}

/// What is known by manifests of what a request of a site asks for, where the site reads them.
pub fn facts_of(
    (channels, films): (&Channels, &Films),
    secret: &Secret,
    site: &SiteRef,
    request: &RequestHead,
    now: UnixMillis,
) -> Option<Facts> {
    if !site.settings.media.read || (channels.is_empty() && films.is_empty()) {
        return None;
    }
    let RequestHead { authority, target, .. } = request;
    let of_channel =
        channels.of_request(target, now, |target| key_of(site, secret, authority, target));
    let of_film = || films.kind_of(&id_of(site, secret, authority, target), 0).map(Facts::of_film);
    of_channel.and_then(|belongs| belongs.facts()).or_else(of_film)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_go_without_saying_are_no_part_of_a_key() {
        assert_eq!(key_authority("tv.example"), "tv.example");
        assert_eq!(key_authority("tv.example:443"), "tv.example");
        assert_eq!(key_authority("[2001:db8::1]:80"), "[2001:db8::1]");
        assert_eq!(key_authority("tv.example:8443"), "tv.example:8443");
    }

    #[test]
    fn what_is_purged_is_so_at_each_port_of_the_node() {
        let of = |name: &str, ports: &[&str]| {
            let all = ["", "."].map(|dot| [""].iter().chain(ports).map(move |port| (dot, *port)));
            let all = all.into_iter().flatten();
            let mut all: Vec<_> = all.map(|(dot, port)| format!("{name}{dot}{port}")).collect();
            all.sort_unstable();
            all
        };
        let all = of("tv.example", &[":8000", ":8443"]);
        assert_eq!(purged_authorities("tv.example", &[443, 8000, 8443]), all);
        assert_eq!(purged_authorities("tv.example.", &[443, 8000, 8443]), all);
        assert_eq!(purged_authorities("tv.example:8443", &[80, 8000, 8443]), all);
        let all = of("tv.example", &[":9000"]);
        assert_eq!(purged_authorities("tv.example.:9000", &[80]), all);
        assert_eq!(purged_authorities("[::1]:9000", &[80]), ["[::1]", "[::1]:9000"]);
    }
}
