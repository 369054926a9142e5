//! Fields that are for the next hop only (RFC 9110 §7.6.1).

use crate::fields::Fields;

/// Fields that belong to one connection even where `Connection` does not name them.
const ALWAYS: [&[u8]; 6] =
    [b"Connection", b"Keep-Alive", b"Proxy-Connection", b"TE", b"Transfer-Encoding", b"Upgrade"];

/// Fields between a client and the proxy it chose, which a cache does not store (RFC 9111 §3.1).
const PROXY: [&[u8]; 3] =
    [b"Proxy-Authenticate", b"Proxy-Authentication-Info", b"Proxy-Authorization"];

/// Fields that tell caches of a response what to do with it, and nobody else: tags, and what
/// surrogates are told (W3C Note Edge Architecture Specification).
const FOR_CACHES: [&[u8]; 7] = [
    b"Cache-Tag",
    b"Edge-Cache-Tag",
    b"Edge-Control",
    b"Surrogate-Control",
    b"Surrogate-Key",
    b"X-HashTwo",
    b"xkey",
];

/// Fields for all recipients, which `Connection` may not name (RFC 9110 §7.6.1). Without this list
/// a client could have a field removed that the origin or the cache relies on.
const NEVER: [&[u8]; 22] = [
    b"Age",
    b"Authorization",
    b"Cache-Control",
    b"CDN-Cache-Control",
    b"CDN-Loop",
    b"Content-Encoding",
    b"Content-Length",
    b"Content-Range",
    b"Content-Type",
    b"Cookie",
    b"Date",
    b"ETag",
    b"Expires",
    b"Forwarded",
    b"Host",
    b"Last-Modified",
    b"Range",
    b"Set-Cookie",
    b"Vary",
    b"Via",
    b"X-Forwarded-For",
    b"X-Forwarded-Proto",
];

/// Removes the fields that are for one connection only: those that `Connection` names and the
/// well-known ones. Read `Upgrade` and `Transfer-Encoding` before. Allocates only where
/// `Connection` names other fields than the well-known ones.
pub fn strip(fields: &mut Fields) {
    strip_but(fields, &[]);
}

/// As [`strip`], but for fields of these names that `Connection` names: they did not come with it.
pub fn strip_but(fields: &mut Fields, spared: &[Box<str>]) {
    strip_named(fields, spared);
    fields.retain(|name, _| !names_any(&ALWAYS, name));
}

/// As [`strip_but`], without the well-known ones: what a tunnel is asked for with remains.
pub fn strip_named(fields: &mut Fields, spared: &[Box<str>]) {
    let is_spared =
        |name: &[u8]| spared.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name));
    let named: Vec<Vec<u8>> = fields
        .tokens("Connection")
        .filter(|name| !names_any(&ALWAYS, name) && !names_any(&NEVER, name) && !is_spared(name))
        .filter(|name| !name.eq_ignore_ascii_case(b"close") && fields.contains(name))
        .map(<[u8]>::to_vec)
        .collect();
    if !named.is_empty() {
        fields.retain(|name, _| !named.iter().any(|other| other.eq_ignore_ascii_case(name)));
    }
}

/// Has `Connection` not name a field: one that this node sets did not come with the connection.
pub fn unname(fields: &mut Fields, name: &str) {
    let is_it = |option: &[u8]| option.eq_ignore_ascii_case(name.as_bytes());
    if fields.tokens("Connection").any(is_it) {
        let others: Vec<_> = fields.tokens("Connection").filter(|option| !is_it(option)).collect();
        let others = others.join(&b", "[..]);
        fields.remove("Connection");
        if !others.is_empty() {
            fields.append("Connection", others);
        }
    }
}

/// As [`strip`], and removes what is meant for a proxy: what may be kept in a cache remains.
pub fn strip_for_storage(fields: &mut Fields) {
    strip(fields);
    fields.retain(|name, _| !names_any(&PROXY, name));
}

/// Whether there are fields that are for caches only.
pub fn has_for_caches(fields: &Fields) -> bool {
    fields.iter().any(|(name, _)| names_any(&FOR_CACHES, name))
}

/// Removes the fields that are for caches only.
pub fn strip_for_caches(fields: &mut Fields) {
    fields.retain(|name, _| !names_any(&FOR_CACHES, name));
}

/// Whether this is a field for one connection, without regard to what `Connection` names.
pub fn is_hop_by_hop(name: &[u8]) -> bool {
    names_any(&ALWAYS, name)
}

fn names_any(list: &[&[u8]], name: &[u8]) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_and_well_known_fields_go_and_the_rest_stays() {
        let mut fields: Fields = [
            ("Connection", "a, B"),
            ("A", "1"),
            ("b", "2"),
            ("c", "3"),
            ("Keep-Alive", "timeout=5"),
            ("connection", "upgrade"),
            ("Upgrade", "websocket"),
            ("TE", "trailers"),
            ("Proxy-Authenticate", "Basic"),
        ]
        .into_iter()
        .collect();
        let mut tunnelled = fields.clone();
        strip_named(&mut tunnelled, &[]);
        assert!(!tunnelled.contains("a") && !tunnelled.contains("b"));
        assert!(tunnelled.contains("connection") && tunnelled.contains("upgrade"));
        let mut spared = fields.clone();
        strip_but(&mut spared, &["a".into()]);
        assert!(spared.contains("a") && !spared.contains("b") && !spared.contains("connection"));
        strip(&mut fields);
        let want: Fields = [("c", "3"), ("Proxy-Authenticate", "Basic")].into_iter().collect();
        assert_eq!(fields, want);
        strip_for_storage(&mut fields);
        assert_eq!(fields, [("c", "3")].into_iter().collect());
    }

    #[test]
    fn what_this_node_sets_is_named_no_longer() {
        for (said, left) in [("X-User", None), ("close, x-user,te, X-USER", Some("close, te"))] {
            let mut fields: Fields = [("Connection", said), ("X-User", "1")].into_iter().collect();
            unname(&mut fields, "X-User");
            assert_eq!(fields.get_str("connection"), left);
            strip(&mut fields);
            assert!(fields.contains("x-user"));
        }
    }

    #[test]
    fn fields_for_all_recipients_cannot_be_named_away() {
        let mut fields: Fields =
            [("Connection", "close, cache-control, cookie"), ("Cache-Control", "no-store")]
                .into_iter()
                .collect();
        strip(&mut fields);
        assert_eq!(fields, [("Cache-Control", "no-store")].into_iter().collect());
    }
}
