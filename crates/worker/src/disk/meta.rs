//! What is written of an object besides its bytes, so that it can be the same object later.
//!
//! Numbers are little endian, texts have their length before them. The first byte is the version.

use freshet_base::clock::UnixMillis;
use freshet_cache::{ForCoding, Form, StoredHead, Variation};
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, LifetimeSource};
use freshet_http::hop_by_hop;
use freshet_http::message::Scheme;
use freshet_http::vary::{Vary, VaryRule};
use std::sync::Arc;
use std::time::Duration;

const VERSION: u8 = 1;

const SOURCES: [LifetimeSource; 8] = [
    LifetimeSource::SMaxAge,
    LifetimeSource::MaxAge,
    LifetimeSource::Expires,
    LifetimeSource::Heuristic,
    LifetimeSource::Targeted,
    LifetimeSource::Negative,
    LifetimeSource::Policy,
    LifetimeSource::None,
];

/// An object's description, read back.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) key: Box<[u8]>,
    pub(crate) head: StoredHead,
    pub(crate) variation: Option<Variation>,
}

/// Writes a description. `request` is the one that fetched it: of its fields, those are kept that
/// the response varies by.
pub(crate) fn write(key: &[u8], head: &StoredHead, request: &Fields) -> Box<[u8]> {
    let mut out = vec![VERSION];
    text(key, &mut out);
    out.extend_from_slice(&head.status.to_le_bytes());
    text(head.reason.as_deref().unwrap_or("").as_bytes(), &mut out);
    // What there is no room for among the flags below.
    let more_of_form = head.form.bits() >> 4 << 4;
    let scheme = match head.scheme_bound {
        None => 0,
        Some(Scheme::Http) => 1,
        Some(Scheme::Https) => 2,
    };
    out.push(scheme | more_of_form);
    let fresh = &head.freshness;
    number(fresh.received.0, &mut out);
    let spans = [
        fresh.initial_age(),
        fresh.lifetime(),
        fresh.stale_while_revalidate(),
        fresh.stale_if_error(),
    ];
    spans.into_iter().for_each(|span| number(millis(span), &mut out));
    let source = SOURCES.iter().position(|source| *source == fresh.source).unwrap_or(7);
    out.push(source as u8);
    out.push(
        u8::from(fresh.must_revalidate)
            | u8::from(fresh.no_cache) << 1
            | u8::from(fresh.immutable) << 2
            | u8::from(!head.etag_holds) << 3
            | head.form.bits() << 4,
    );
    fields(&head.fields, &mut out);
    let selecting = match rule(&head.fields, head.form) {
        Vary::On(rule) => {
            let mut kept = Fields::new();
            for name in rule.names() {
                request.get_all(name).for_each(|value| kept.append(name, value));
            }
            kept
        }
        Vary::None | Vary::Any => Fields::new(),
    };
    fields(&selecting, &mut out);
    out.into()
}

/// Reads a description; `None` where it is none of ours.
pub(crate) fn read(bytes: &[u8]) -> Option<Meta> {
    let mut from = Reader(bytes);
    if from.byte()? != VERSION {
        return None;
    }
    let key = from.text()?.into();
    let status = u16::from_le_bytes(from.array()?);
    let reason = from.text()?;
    let reason = std::str::from_utf8(reason).ok().filter(|text| !text.is_empty()).map(Into::into);
    let scheme_and_form = from.byte()?;
    let scheme_bound = match scheme_and_form & 0xf {
        0 => None,
        1 => Some(Scheme::Http),
        2 => Some(Scheme::Https),
        _ => return None,
    };
    let received = UnixMillis(from.number()?);
    let mut span = || from.number().map(Duration::from_millis);
    let (initial_age, lifetime) = (span()?, span()?);
    let mut freshness = Freshness::from_policy(received, lifetime);
    freshness.set_initial_age(initial_age);
    freshness.set_stale_while_revalidate(span()?);
    freshness.set_stale_if_error(span()?);
    freshness.source = *SOURCES.get(usize::from(from.byte()?))?;
    let flags = from.byte()?;
    freshness.must_revalidate = flags & 1 != 0;
    freshness.no_cache = flags & 2 != 0;
    freshness.immutable = flags & 4 != 0;
    let form = Form::from_bits(flags >> 4 | scheme_and_form & 0xf0);
    let fields = from.fields()?;
    let selecting = from.fields()?;
    let variation = match rule(&fields, form) {
        Vary::None => None,
        Vary::Any => return None,
        Vary::On(rule) => {
            let key = rule.key(&selecting);
            Some(Variation { rule: Arc::new(rule), key })
        }
    };
    let head = StoredHead {
        status,
        reason,
        version: Default::default(),
        etag_holds: flags & 8 == 0,
        for_caches: hop_by_hop::has_for_caches(&fields),
        fields: fields.compact(),
        freshness,
        scheme_bound,
        partial: false,
        fetch_id: 0,
        form,
        hits_before: 0,
    };
    Some(Meta { key, head, variation })
}

/// What a response that is kept in this form varies by.
pub fn rule(fields: &Fields, form: Form) -> Vary {
    if form.for_coding == ForCoding::First {
        VaryRule::from_fields_by_coding(fields)
    } else if form.for_coding == ForCoding::Any {
        VaryRule::from_fields_but_encoding(fields)
    } else {
        VaryRule::from_fields(fields)
    }
}

/// A number for what selects a response: 0 where nothing does.
pub(crate) fn variant(variation: Option<&Variation>, scheme: Option<Scheme>) -> u64 {
    if variation.is_none() && scheme.is_none() {
        return 0;
    }
    let mut bytes = vec![match scheme {
        None => 0,
        Some(Scheme::Http) => 1,
        Some(Scheme::Https) => 2,
    }];
    if let Some(variation) = variation {
        bytes.extend_from_slice(variation.key.as_bytes());
    }
    freshet_cache::tag(&bytes) | 1
}

/// Whole milliseconds, as they are written.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn fields(fields: &Fields, out: &mut Vec<u8>) {
    let lines = u32::try_from(fields.iter().count()).unwrap_or(u32::MAX);
    out.extend_from_slice(&lines.to_le_bytes());
    for (name, value) in fields.iter() {
        text(name, out);
        text(value, out);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.array()?);
        self.bytes(len as usize)
    }

    fn fields(&mut self) -> Option<Fields> {
        let lines = u32::from_le_bytes(self.array()?);
        let mut fields = Fields::new();
        for _ in 0..lines {
            let (name, value) = (self.text()?, self.text()?);
            if name.len() > usize::from(u16::MAX) {
                return None;
            }
            fields.append(name, value);
        }
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> StoredHead {
        let mut fields = Fields::new();
        fields.append("Content-Type", "text/plain");
        fields.append("ETag", "\"a\"");
        fields.append("Vary", "Accept-Language, X-A");
        let freshness = Freshness::from_policy(UnixMillis(12), Duration::from_secs(60));
        StoredHead {
            reason: Some("Fine".into()),
            scheme_bound: Some(Scheme::Https),
            form: Form { gzip: true, for_coding: ForCoding::Any, ..Form::default() },
            ..StoredHead::new(200, fields, freshness)
        }
    }

    #[test]
    fn a_description_comes_back_with_what_selects_it() {
        let mut request = Fields::new();
        request.append("X-A", "1");
        request.append("X-B", "2");
        let written = write(b"host\0/path", &head(), &request);
        let read = read(&written).expect("it was just written");
        assert_eq!(&*read.key, b"host\0/path");
        assert_eq!((read.head.status, read.head.reason.as_deref()), (200, Some("Fine")));
        assert_eq!(read.head.etag(), Some(b"\"a\"".as_slice()));
        assert_eq!(read.head.freshness, head().freshness);
        assert_eq!(read.head.scheme_bound, Some(Scheme::Https));
        assert_eq!(read.head.form, head().form);
        let variation = read.variation.expect("it varies");
        assert_eq!(variation.rule.key(&request), variation.key);
        let mut other = request.clone();
        other.set("X-A", "3");
        assert_ne!(variation.rule.key(&other), variation.key);
        assert_ne!(variant(Some(&variation), None), 0);
        assert_eq!(variant(None, None), 0);
    }

    #[test]
    fn one_of_several_codings_comes_back_as_that() {
        let form =
            Form { recoded: true, for_coding: ForCoding::First, weakened: true, ..Form::default() };
        let request: Fields = [("Accept-Encoding", "br, gzip")].into_iter().collect();
        let written = write(b"k", &StoredHead { form, ..head() }, &request);
        let read = read(&written).expect("it was just written");
        assert_eq!((read.head.form, read.head.scheme_bound), (form, Some(Scheme::Https)));
        assert_eq!(read.head.etag_as_it_came(), Some(&b"\"a\""[..]));
        let variation = read.variation.expect("it varies");
        assert_eq!(variation.rule.key(&request), variation.key);
        assert_ne!(variation.rule.key(&Fields::new()), variation.key);
    }

    #[test]
    fn an_entity_tag_that_is_not_of_the_bytes_is_not_taken_for_theirs() {
        let written = write(b"k", &StoredHead { etag_holds: false, ..head() }, &Fields::new());
        let read = read(&written).expect("it was just written");
        assert_eq!((read.head.etag(), read.head.fields.get("etag")), (None, Some(&b"\"a\""[..])));
        assert_eq!((read.head.freshness, read.head.form), (head().freshness, head().form));
    }

    proptest! {
        #[test]
        fn spoiled_descriptions_do_no_harm(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut written = write(b"k", &head(), &Fields::new()).into_vec();
            let at = at.index(written.len());
            written[at] = byte;
            let _ = read(&written);
            let _ = read(&written[..at]);
        }
    }
}
