//! `Cache-Status` (RFC 9211).

use crate::fields::Fields;
use crate::reason::Reason;
use crate::structured::is_token;
use std::io::Write as _;

/// The field name.
pub const NAME: &str = "Cache-Status";

/// Why a request went to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Forward {
    /// The cache was not to handle the request.
    Bypass,
    /// The method asks for the origin.
    Method,
    /// Nothing was stored for the target.
    UriMiss,
    /// What was stored did not fit the request.
    VaryMiss,
    /// What was stored was not enough, where it is not known which of the two.
    Miss,
    /// What was stored was good, and the client asked for the origin.
    Request,
    /// What was stored was stale.
    Stale,
    /// Only parts of the response were stored.
    Partial,
}

impl Forward {
    /// The value of the `fwd` parameter.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// How this cache handled a request: one member of the field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheStatus<'a> {
    /// What this cache is called, such as `freshet`.
    pub cache: &'a str,
    /// Whether a stored response was used without asking the origin; not together with `forward`.
    pub hit: bool,
    /// Why the origin was asked.
    pub forward: Option<Forward>,
    /// What the origin answered, where that is not what the client gets.
    pub forward_status: Option<u16>,
    /// Freshness left in seconds; negative where stale.
    pub ttl_seconds: Option<i64>,
    /// Whether the response was stored.
    pub stored: bool,
    /// Whether it was shared with another request that was already under way.
    pub collapsed: bool,
    /// The cache key, where it is to be shown.
    pub key: Option<&'a str>,
    /// Our own code.
    pub detail: Option<Reason>,
}

impl CacheStatus<'_> {
    /// Appends the member as text, such as `freshet; hit; ttl=57`. Allocates nothing but for the
    /// growth of `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_name(self.cache, out);
        if self.hit {
            out.extend_from_slice(b"; hit");
        } else if let Some(forward) = self.forward {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(forward.code().as_bytes());
            if let Some(status) = self.forward_status {
                write!(out, "; fwd-status={status}").expect("writing to a vector succeeds");
            }
        }
        if let Some(ttl) = self.ttl_seconds {
            write!(out, "; ttl={ttl}").expect("writing to a vector succeeds");
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            write_string(key, out);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(detail.code().as_bytes());
        }
    }

    /// Adds the member after those of the caches before us: the last is the nearest to the client
    /// (RFC 9211 §2).
    pub fn append(&self, fields: &mut Fields) {
        let mut value = Vec::with_capacity(64);
        self.write(&mut value);
        fields.append(NAME, value);
    }
}

/// A name as a token where it can be one, else as a string.
pub(crate) fn write_name(name: &str, out: &mut Vec<u8>) {
    if is_token(name) {
        out.extend_from_slice(name.as_bytes());
    } else {
        write_string(name, out);
    }
}

/// A structured string; what it cannot carry is written as `?`.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structured::{BareItem, List, Member};

    fn text(status: &CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hits_and_misses() {
        let base = CacheStatus { cache: "freshet", ..CacheStatus::default() };
        let hit = CacheStatus { hit: true, ttl_seconds: Some(57), ..base };
        assert_eq!(text(&hit), "freshet; hit; ttl=57");
        let miss = CacheStatus {
            forward: Reason::Miss.forward(),
            forward_status: Some(200),
            stored: true,
            collapsed: true,
            detail: Some(Reason::Miss),
            ..base
        };
        let want = "freshet; fwd=uri-miss; fwd-status=200; stored; collapsed; detail=miss";
        assert_eq!(text(&miss), want);
    }

    #[test]
    fn what_is_written_is_a_structured_list() {
        let status = CacheStatus {
            cache: "edge 1",
            forward: Some(Forward::Stale),
            ttl_seconds: Some(-412),
            key: Some("h\"\\\u{f6}/x"),
            detail: Some(Reason::HitRevalidated),
            ..CacheStatus::default()
        };
        let mut fields: Fields = [("Cache-Status", "parent; hit")].into_iter().collect();
        status.append(&mut fields);
        let list = List::from_fields(&fields, NAME).unwrap();
        let Member::Item(ours) = &list.0[1] else { panic!("an item") };
        assert_eq!(ours.value, BareItem::String("edge 1".into()));
        assert_eq!(ours.parameters.get("ttl"), Some(&BareItem::Integer(-412)));
        assert_eq!(ours.parameters.get("key"), Some(&BareItem::String("h\"\\??/x".into())));
        assert_eq!(ours.parameters.get("detail"), Some(&BareItem::Token("revalidated".into())));
    }

    #[test]
    fn every_reason_can_be_a_detail() {
        assert!(Reason::ALL.iter().all(|reason| is_token(reason.code())));
    }
}
