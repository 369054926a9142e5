//! Keys of a site's resources, by what a request for them says.

use crate::sites::SiteRef;
use freshet_cache::{Key, KeyBuilder, Secret};
use freshet_channels::without_directives;
use freshet_http::target;

/// The key of a resource, by what a request for it says, and by what rules make of its query.
#[inline]
pub fn resource<'a>(
    key: KeyBuilder<'a>,
    site: &SiteRef,
    authority: &str,
    target: &str,
) -> KeyBuilder<'a> {
    let rule = site.settings.rules.caching_for(target);
    let changed = rule.and_then(|rule| rule.query.changed(target));
    let target = target::key_target(changed.as_deref().unwrap_or(target));
    let authority = key_authority(authority, &site.node().own_ports);
    key.parts([authority.as_bytes(), target.as_bytes()])
}

/// The part of an authority that tells resources apart.
#[inline]
pub fn key_authority<'a>(authority: &'a str, own_ports: &[u16]) -> &'a str {
    match target::split_authority(authority) {
        (host, Some(port)) if matches!(port, 80 | 443) || own_ports.contains(&port) => host,
        _ => authority,
    }
}

/// The key a resource of a site has in the table of channels, whatever key its policy gives it in the cache.
pub fn key_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    resource(site.name.key(secret), site, authority, target).build()
}

/// The same for what was asked for, whatever directives stand in its query.
pub fn id_of(site: &SiteRef, secret: &Secret, authority: &str, target: &str) -> Key {
    key_of(site, secret, authority, &without_directives(target))
}

#[cfg(test)]
mod tests {
    use super::key_authority;

    #[test]
    fn ports_of_the_node_and_of_the_schemes_are_no_part_of_a_key() {
        assert_eq!(key_authority("tv.example", &[]), "tv.example");
        assert_eq!(key_authority("tv.example:443", &[]), "tv.example");
        assert_eq!(key_authority("tv.example:8443", &[8000, 8443]), "tv.example");
        assert_eq!(key_authority("[2001:db8::1]:80", &[]), "[2001:db8::1]");
        assert_eq!(key_authority("tv.example:9999", &[8000, 8443]), "tv.example:9999");
    }
}
