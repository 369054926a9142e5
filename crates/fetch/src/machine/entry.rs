//! What is known of an answer that is kept, before its body has come: the head as it is stored, its
//! place, its variant and its tags.

use super::SentPart;
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_cache::{Form, StoredHead, Variation};
use freshet_http::fields::Fields;
use freshet_http::message::{ResponseHead, Scheme};
use freshet_http::range::{ContentRange, Reconciled};
use freshet_http::reason::Reason;
use freshet_http::vary::Vary;
use freshet_http::{cache_groups, hop_by_hop};
use freshet_site::keys::key_authority;
use freshet_site::policy::Answer;
use freshet_site::sites::SiteName;
use freshet_worker::disk::meta;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Tags of one object; a response that names more is kept with these only, and a purge of the rest
/// misses it, which the log says.
const TAGS_MAX: usize = 1024;
/// Bytes of a name in `Vary`; the longest field anybody has registered has 43.
const VARY_NAME_BYTES_MAX: usize = 127;

/// Where an answer's bytes belong in the representation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) start: u64,
    /// The largest number where it is not known.
    pub(super) end: u64,
    pub(super) total: Option<u64>,
    pub(super) partial: bool,
}

impl Place {
    /// The place of an answer whose body has this length, from Content-Range for a 206 (RFC 9110
    /// §14.4).
    pub(super) fn of(head: &ResponseHead, length: Option<u64>) -> Result<Self, Reason> {
        if head.status != 206 {
            let end = length.unwrap_or(u64::MAX);
            return Ok(Self { start: 0, end, total: length, partial: false });
        }
        let part = head.fields.get("content-range").and_then(ContentRange::parse);
        let part = match (part, length) {
            (Some(part), Some(length)) => match part.reconcile(length) {
                Reconciled::Agrees => part,
                Reconciled::Shorter(part) => part,
                Reconciled::Contradicts => return Err(Reason::PartialWithoutRange),
            },
            (Some(part), None) => part,
            (None, _) => return Err(Reason::PartialWithoutRange),
        };
        let Some(Range { start, end }) = part.range() else {
            return Err(Reason::PartialWithoutRange);
        };
        let total = part.total();
        Ok(Self { start, end, total, partial: !(start == 0 && Some(end) == total) })
    }

    /// Where its bytes end, where that is known.
    pub(super) fn known_end(&self) -> Option<u64> {
        Some(self.end).filter(|_| self.total.is_some() || self.partial)
    }
}

impl SentPart {
    /// The part a 206 brought, in the origin's words: what its client gets, even where they do not
    /// quite fit the bytes.
    pub(super) fn of(head: &ResponseHead, place: &Place) -> Option<Self> {
        let content_range = head.fields.get("content-range")?;
        (head.status == 206)
            .then(|| Self { range: place.start..place.end, content_range: content_range.into() })
    }
}

/// Which requests of the resource an answer is for, by its `Vary` and the `selecting` fields of the
/// request it came for; `None` where it is for all.
///
/// # Errors
/// It is for none but the one it came for.
pub(super) fn variation(
    fields: &Fields,
    form: Form,
    selecting: &Fields,
) -> Result<Option<Variation>, Reason> {
    let too_long = |name: &[u8]| name.len() > VARY_NAME_BYTES_MAX;
    match meta::rule(fields, form) {
        Vary::None => Ok(None),
        Vary::Any => Err(Reason::VaryAny),
        Vary::On(_) if fields.tokens("vary").any(too_long) => Err(Reason::VaryAny),
        Vary::On(rule) => {
            let key = rule.key(selecting);
            Ok(Some(Variation { rule: Arc::new(rule), key }))
        }
    }
}

/// Whether a head is for the requests that its object is found for: for all, or by the same rule of `Vary`.
/// A validation may have brought another (RFC 9111 §4.3.4).
pub(super) fn is_for_same(head: &StoredHead, found_for: Option<&Variation>) -> bool {
    let by_same_rule = match (meta::rule(&head.fields, head.form), found_for) {
        (Vary::None, None) => true,
        (Vary::On(rule), Some(variation)) => rule == *variation.rule,
        _ => false,
    };
    by_same_rule && (head.scheme_bound.is_some() || !varies_by_scheme(&head.fields))
}

/// The origin is told the scheme, which is in no key. A redirect may be meant for one only: from
/// `http` to `https` of the same place, say, which would be a loop for the other. So may an error,
/// and what says itself that it varies by the scheme.
pub(super) fn scheme_bound(status: u16, fields: &Fields, scheme: Scheme) -> Option<Scheme> {
    let is_redirect = (300..400).contains(&status) && fields.contains("location");
    (is_redirect || status >= 400 || varies_by_scheme(fields)).then_some(scheme)
}

fn varies_by_scheme(fields: &Fields) -> bool {
    fields.has_token("vary", "x-forwarded-proto")
}

/// Takes over what a 304 brought.
pub(super) fn renew_head(stored: &mut StoredHead, answer: Answer, fetch_id: u64) {
    let fields = answer.head.fields;
    stored.fetch_id = fetch_id;
    // A policy may take a 304 for what it is not about. Nothing then says what the bytes are of.
    stored.etag_holds = stored.etag() == fields.get("etag");
    stored.for_caches = hop_by_hop::has_for_caches(&fields);
    stored.fields = fields.compact();
    stored.freshness = answer.freshness;
}

/// Fields with tags that are separated by spaces...
const SPACED_TAGS: [&str; 1] = ["surrogate-key"];
/// ... and, in those of Varnish's `xkey`, by commas too.
const MIXED_TAGS: [&str; 2] = ["xkey", "x-hashtwo"];

/// Tags that a response to a request for this authority can be purged by: those of [`SPACED_TAGS`], of [`MIXED_TAGS`]
/// and of `Cache-Tag`, separated by commas; and the groups it is of.
pub(super) fn tags(site: &SiteName, authority: &str, fields: &Fields) -> Box<[u64]> {
    let lines =
        |names: &'static [&'static str]| names.iter().flat_map(|name| fields.get_all(*name));
    let spaced = lines(&SPACED_TAGS).flat_map(|line| line.split(|byte| *byte == b' '));
    let mixed =
        lines(&MIXED_TAGS).flat_map(|line| line.split(|byte| matches!(byte, b' ' | b'\t' | b',')));
    let spaced = spaced.chain(mixed);
    let listed = fields.tokens("cache-tag");
    let mut tags: Vec<u64> = spaced
        .chain(listed)
        .filter(|text| !text.is_empty())
        .take(TAGS_MAX + 1)
        .map(|text| site.tag(text))
        .collect();
    if tags.len() > TAGS_MAX {
        // An origin may do that with each response.
        static LIMIT: LogLimit = LogLimit::new();
        if let Some(held_back) = LIMIT.admit(UnixMillis::now(), Duration::from_secs(10)) {
            tracing::warn!(
                held_back,
                "a response has more than {TAGS_MAX} tags; the rest is ignored"
            );
        }
        tags.truncate(TAGS_MAX);
    }
    let authority = key_authority(authority);
    let groups = cache_groups::of(fields);
    tags.truncate(TAGS_MAX.saturating_sub(groups.len()));
    tags.extend(groups.iter().map(|group| site.tag(&cache_groups::tag(authority, group))));
    tags.extend(site.tag_of_all());
    tags.sort_unstable();
    tags.dedup();
    tags.into()
}
