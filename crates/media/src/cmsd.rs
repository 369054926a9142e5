//! What a server tells players of the way to them (CTA-5006, Common Media Server Data): its member of
//! `CMSD-Dynamic`, and `CMSD-Static` where the origin has sent none.

use crate::manifest::Kind;
use freshet_http::fields::Fields;
use freshet_http::structured::{BareItem, Item};
use std::ops::Range;

/// The field, a list with a member for each server on the way, the nearest to the player last.
pub const NAME: &str = "CMSD-Dynamic";

/// What an object is, the same for all who get it: a dictionary.
pub const STATIC_NAME: &str = "CMSD-Static";

/// What is said of an object by who knows its manifest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Static {
    /// `br`: its bit rate, in kilobits per second.
    pub bitrate_kbps: Option<u64>,
    /// `d`: how long it plays, in milliseconds.
    pub duration_ms: Option<u64>,
    /// `ot`: what it is, where one letter says so.
    pub kind: Option<Kind>,
    /// `st`: whether it is of a channel that goes on.
    pub is_live: bool,
    /// `nor`: what a player asks for behind it, relative to it.
    pub next: Option<String>,
    /// `nrr`: which bytes of that, where it is not all.
    pub next_range: Option<Range<u64>>,
}

impl Static {
    /// The value of the field; `None` where there is nothing to say.
    pub fn value(&self) -> Option<String> {
        let kind = match self.kind {
            Some(Kind::Playlist) => Some("ot=m"),
            Some(Kind::Init | Kind::InitElsewhere) => Some("ot=i"),
            Some(Kind::Key) => Some("ot=k"),
            // Whether it is sound or pictures is not known.
            Some(Kind::Segment | Kind::Part | Kind::Hint) | None => None,
        };
        let number = |name: &str, value: Option<u64>| {
            value.map(|value| format!("{name}={}", value.min(INTEGER_MAX.unsigned_abs())))
        };
        // A string has no other signs (RFC 9651 §3.3.3), and a reference needs none.
        let is_plain = |next: &&String| {
            next.bytes().all(|byte| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte))
        };
        let next = self.next.as_ref().filter(is_plain);
        let range = self.next_range.as_ref().filter(|_| next.is_some());
        let all = [
            number("br", self.bitrate_kbps),
            number("d", self.duration_ms),
            next.map(|next| format!("nor=\"{next}\"")),
            range.map(|range| format!("nrr=\"{}-{}\"", range.start, range.end.saturating_sub(1))),
            kind.map(str::to_owned),
            self.is_live.then(|| "st=l".to_owned()),
        ];
        let all: Vec<_> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join(","))
    }
}

/// What one server says of one response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dynamic<'a> {
    /// Who says it; a name that is not of ASCII is left out, and all with it.
    pub server: &'a str,
    /// `rd`: from the request until there is something to send, in milliseconds.
    pub response_delay_ms: u64,
    /// `rtt`: the round trip to the client, in milliseconds.
    pub round_trip_ms: Option<u64>,
    /// `etp`: what the connection to the client can carry, in kilobits per second.
    pub throughput_kbps: Option<u64>,
}

impl Dynamic<'_> {
    /// Appends it behind what servers before have said.
    pub fn append(&self, fields: &mut Fields) {
        let mut member = Item::new(BareItem::String(self.server.to_owned()));
        let said = [
            ("etp", self.throughput_kbps),
            ("rd", Some(self.response_delay_ms)),
            ("rtt", self.round_trip_ms),
        ];
        for (key, value) in said {
            if let Some(value) = value {
                let value = i64::try_from(value).unwrap_or(INTEGER_MAX).min(INTEGER_MAX);
                member.parameters.set(key, BareItem::Integer(value));
            }
        }
        if let Ok(member) = member.serialize() {
            fields.append_to_list(NAME, member.as_bytes());
        }
    }
}

/// The largest integer of a structured field (RFC 9651 §3.3.1).
const INTEGER_MAX: i64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_http::structured::List;

    #[test]
    fn what_an_object_is_is_said_in_the_order_of_names() {
        let all = Static {
            bitrate_kbps: Some(3200),
            duration_ms: Some(2000),
            kind: Some(Kind::Init),
            is_live: true,
            next: Some("../v/2.m4s?t=1".to_owned()),
            next_range: Some(100..200),
        };
        let want = "br=3200,d=2000,nor=\"../v/2.m4s?t=1\",nrr=\"100-199\",ot=i,st=l";
        assert_eq!(all.value().as_deref(), Some(want));
        for odd in ["a\"b", "a\\b", "ä", "a\r\nb"] {
            let odd =
                Static { next: Some(odd.to_owned()), next_range: Some(0..1), ..Static::default() };
            assert_eq!(odd.value(), None);
        }
        let segment =
            Static { kind: Some(Kind::Segment), duration_ms: Some(u64::MAX), ..Static::default() };
        assert_eq!(segment.value().as_deref(), Some("d=999999999999999"));
        assert_eq!(Static::default().value(), None);
    }

    #[test]
    fn each_server_adds_a_member() {
        let mut fields = Fields::new();
        fields.append(NAME, "\"origin\";rd=12");
        let near = Dynamic {
            server: "edge \"7\"",
            response_delay_ms: 3,
            round_trip_ms: Some(42),
            throughput_kbps: Some(u64::MAX),
        };
        near.append(&mut fields);
        let expected = "\"origin\";rd=12, \"edge \\\"7\\\"\";etp=999999999999999;rd=3;rtt=42";
        assert_eq!(fields.get_str(NAME), Some(expected));
        assert_eq!(List::from_fields(&fields, NAME).unwrap().0.len(), 2);
        Dynamic { server: "größer", ..near }.append(&mut fields);
        assert_eq!(fields.get_str(NAME), Some(expected));
    }
}
