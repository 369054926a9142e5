//! What a client can say that no cache key knows.
//!
//! What is not in the key does not reach an origin that is asked for the cache: otherwise one
//! client's words end up in what all others get. Most fields are harmless or selected by `Vary`,
//! and origins need them. The ones here are known to change what widespread servers and frameworks
//! answer while their `Vary` does not say so: they name another host, path, scheme, method or
//! address than the request has ("web cache poisoning", "cache-poisoned denial of service").

use crate::fields::{Fields, is_taken_for};

/// Beginnings of names, lower case, with `-` for `_`: gateways make one of the two.
const PREFIXES: [&str; 18] = [
    // RFC 9110 §8: they describe content, and a request for the cache has none.
    "content-",
    // CTA-5004 §2: what a player says of itself.
    "cmcd-",
    // What servers in front of Rack, Rails and others ask them for in place of a file's bytes.
    "x-accel-",
    "x-forwarded",
    // Next.js: which of a page's forms is wanted, and what a server in front of it has found out.
    "x-invoke-",
    "x-nextjs-",
    "x-now-",
    "x-original-",
    "x-originating-",
    "x-rewrite-",
    // Method, host and path overrides: X-HTTP-Method-Override, X-HTTP-Host-Override …
    "x-http-",
    "x-method",
    "x-middleware-",
    "x-remote-",
    "x-sendfile",
    // RFC 9110 §13.1 and extensions of it: conditions of the client's own copy.
    "if-",
    // RFC 9110 §11.7, and `Proxy` itself, which CGI makes the address of a proxy of.
    "proxy",
    // RFC 6455 §11.3.
    "sec-websocket-",
];

/// Whole names, in the same form.
const NAMES: [&str; 34] = [
    // RFC 3229: asks for differences.
    "a-im",
    "base-url",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-visitor",
    "client-ip",
    "cluster-client-ip",
    "expect",
    "fastly-client-ip",
    "fastly-ssl",
    "forwarded",
    "front-end-https",
    "http2-settings",
    // RFC 4918 §10.4: a condition.
    "if",
    "max-forwards",
    "range",
    "request-uri",
    "script-name",
    "surrogate-capability",
    "trailer",
    "translate",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-custom-ip-authorization",
    "x-host",
    "x-matched-path",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-request-uri",
    "x-scheme",
    "x-script-name",
    "x-url-scheme",
    "x-wap-profile",
];

/// Fields beginning with `X-` that say nothing an error could be about.
const PLAIN_X: [&str; 4] =
    ["x-forwarded-for", "x-forwarded-proto", "x-playback-session-id", "x-requested-with"];

/// Bytes of a head that no known server refuses: the smallest limit in use is 8 KiB for one line or
/// for all of them.
pub const PLAIN_BYTES_MAX: usize = 4096;

/// Whether a field of a client stays behind when an origin is asked for the cache, `Range` and
/// conditions included: who fetches adds its own.
pub fn is_unkeyed(name: &[u8]) -> bool {
    PREFIXES.iter().any(|prefix| {
        name.get(..prefix.len()).is_some_and(|start| is_taken_for(start, prefix.as_bytes()))
    }) || NAMES.iter().any(|known| is_taken_for(name, known.as_bytes()))
}

/// Removes all fields that stay behind but those of which `keeps` says that a proxy in front sets
/// them.
pub fn strip(fields: &mut Fields, keeps: impl Fn(&[u8]) -> bool) {
    fields.retain(|name, _| !is_unkeyed(name) || keeps(name));
}

/// Whether it is a field in which a player says how it is doing (CTA-5004 §2.1).
pub fn is_cmcd(name: &[u8]) -> bool {
    name.get(..5).is_some_and(|start| is_taken_for(start, b"cmcd-"))
}

/// Whether a field describes the content of a request (RFC 9110 §8).
pub fn is_about_content(name: &[u8]) -> bool {
    name.get(..8).is_some_and(|start| is_taken_for(start, b"content-"))
}

/// Whether a request, as an origin got it, has nothing an error could be about that others would
/// not get: it is short, its values are printable, nobody's credentials are in it, and no field of
/// somebody's own making.
pub fn is_plain(asked: &Fields) -> bool {
    let mut bytes = 0;
    asked.iter().all(|(name, value)| {
        bytes += name.len() + value.len();
        let is_own = name.get(..2).is_some_and(|start| is_taken_for(start, b"x-"))
            && !PLAIN_X.iter().any(|known| is_taken_for(name, known.as_bytes()));
        bytes <= PLAIN_BYTES_MAX
            && !is_own
            && !name.eq_ignore_ascii_case(b"Authorization")
            && value.iter().all(|byte| (b' '..=b'~').contains(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page says what it is that stays behind.
    #[test]
    fn docs_name_every_field() {
        let page = include_str!("../../../docs/sharing.md").to_ascii_lowercase();
        for prefix in PREFIXES {
            assert!(page.contains(&format!("`{prefix}*`")), "{prefix}");
        }
        for name in NAMES {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn overrides_stay_behind_however_they_are_spelled() {
        for name in [
            "X-Forwarded-Host",
            "x-forwarded-scheme",
            "X_Forwarded_Host",
            "X-HTTP-Method-Override",
            "X-HTTP-Method",
            "X-Method-Override",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-Original-Host",
            "Forwarded",
            "Proxy",
            "Content-Type",
            "CMCD-Session",
            "Range",
            "If-Range",
            "If-None-Match",
            "If",
            "Front-End-Https",
            "X-Sendfile-Type",
            "X-Accel-Mapping",
            "X-Invoke-Path",
            "X-Nextjs-Data",
            "x-now-route-matches",
            "X_Matched_Path",
        ] {
            assert!(is_unkeyed(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn ordinary_fields_go_on() {
        for name in [
            "Accept",
            "Accept-Language",
            "Authorization",
            "Cache-Control",
            "Cookie",
            "Origin",
            "Referer",
            "Sec-Fetch-Mode",
            "User-Agent",
            "Via",
            "X-Requested-With",
            "X",
            "",
        ] {
            assert!(!is_unkeyed(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_kept_field_is_kept() {
        let mut fields: Fields =
            [("X-Forwarded-Host", "a"), ("X-Host", "b"), ("Accept", "c")].into_iter().collect();
        strip(&mut fields, |name| name.eq_ignore_ascii_case(b"x-forwarded-host"));
        let names: Vec<_> = fields.iter().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [b"X-Forwarded-Host".to_vec(), b"Accept".to_vec()]);
    }

    #[test]
    fn a_plain_request_is_short_printable_and_nobodys() {
        let plain = |name: &str, value: &str| is_plain(&[(name, value)].into_iter().collect());
        assert!(plain("User-Agent", "Mozilla/5.0 (X11; Linux)"));
        assert!(plain("X-Forwarded-For", "192.0.2.1"));
        assert!(plain("Cookie", &"a".repeat(4000)));
        assert!(!plain("Cookie", &"a".repeat(4096)));
        assert!(!plain("User-Agent", "a\tb"));
        assert!(!plain("User-Agent", "h\u{f6}"));
        assert!(!plain("X-Oversized", "1"));
        assert!(!plain("Authorization", "Basic x"));
    }
}
