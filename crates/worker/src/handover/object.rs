//! The description of an object in a hand-over.

use super::frame;
use crate::disk::meta;
use freshet_base::clock::UnixMillis;
use freshet_cache::{Object, Past, StoredHead, Variation};
use freshet_http::fields::Fields;
use freshet_http::vary::{Vary, VaryKey};
use freshet_store::Standing;
use std::io;
use std::sync::Arc;

const EXEMPT_OR_KEPT: u64 = 1;
const SOFTLY_PURGED: u64 = 2;
const VARIES: u64 = 4;
/// Beside [`EXEMPT_OR_KEPT`]; programs from before it take what is on a disk for exempt.
const KEPT: u64 = 8;
/// It may have been purged elsewhere, and was not validated since.
const DOUBTED: u64 = 16;

/// An object, described.
pub(super) struct Described {
    /// What the old process calls it.
    pub(super) id: u64,
    pub(super) total: u64,
    pub(super) key: Box<[u8]>,
    pub(super) head: StoredHead,
    pub(super) variation: Option<Variation>,
    pub(super) tags: Box<[u64]>,
    pub(super) past: Past,
    /// The last ban of the old process it was tested against, or that came before it.
    pub(super) bans_seen: u64,
    /// Whether a disk has it; a disk of the old process is the new one's too.
    pub(super) standing: Standing,
}

/// Describes an object that can be given; `None` for what is not whole, for what has trailers, and
/// for what varies by a rule its head does not say.
pub(super) fn describe(object: &Object, is_doubted: bool) -> Option<Vec<u8>> {
    let body = object.body();
    let total = body.total()?;
    let head = object.head();
    if !object.is_indexed()
        || !body.is_complete()
        || body.is_transit()
        || body.trailers().is_some()
        || head.partial
    {
        return None;
    }
    let variation = object.variation();
    let key_of_variation = match (variation, meta::rule(&head.fields, head.form)) {
        (None, _) => &[][..],
        (Some(variation), Vary::On(rule)) if rule == *variation.rule => variation.key.as_bytes(),
        (Some(_), _) => return None,
    };
    let past = Past::of(object);
    let is_kept = matches!(body.standing(), Standing::Kept { .. } | Standing::Waits);
    let flags = [
        (EXEMPT_OR_KEPT, matches!(body.standing(), Standing::Exempt) || is_kept),
        (KEPT, is_kept),
        (SOFTLY_PURGED, past.soft_purged_at.is_some()),
        (VARIES, variation.is_some()),
        (DOUBTED, is_doubted),
    ];
    let flags = flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum();
    let numbers = [
        object.id(),
        total,
        flags,
        past.hits,
        u64::from(past.frequency),
        past.soft_purged_at.map_or(0, |at| at.0),
        object.bans_seen(),
        object.tags().len() as u64,
        key_of_variation.len() as u64,
    ];
    let mut out: Vec<u8> =
        numbers.iter().chain(object.tags()).flat_map(|number| number.to_le_bytes()).collect();
    out.extend_from_slice(key_of_variation);
    out.extend_from_slice(&meta::write(object.key().text(), &head, &Fields::new()));
    Some(out)
}

/// Reads a description.
///
/// # Errors
/// It is none of this version.
pub(super) fn read(bytes: &[u8]) -> io::Result<Described> {
    let ([id, total, flags, hits, frequency, soft_ms, bans_seen, tags, key], rest) =
        frame::numbers(bytes)?;
    let tag_bytes = usize::try_from(tags).ok().and_then(|tags| tags.checked_mul(8));
    let (tags, rest) =
        tag_bytes.and_then(|bytes| rest.split_at_checked(bytes)).ok_or_else(frame::malformed)?;
    let tags = tags.chunks_exact(8).filter_map(|tag| tag.try_into().ok().map(u64::from_le_bytes));
    let (key, rest) = usize::try_from(key)
        .ok()
        .and_then(|key| rest.split_at_checked(key))
        .ok_or_else(frame::malformed)?;
    let meta = meta::read(rest).ok_or_else(frame::malformed)?;
    let variation = match meta::rule(&meta.head.fields, meta.head.form) {
        Vary::On(rule) if flags & VARIES != 0 => {
            Some(Variation { rule: Arc::new(rule), key: VaryKey::from_bytes(key) })
        }
        _ if flags & VARIES == 0 => None,
        _ => return Err(frame::malformed()),
    };
    Ok(Described {
        id,
        total,
        key: meta.key,
        head: meta.head,
        variation,
        tags: tags.collect(),
        past: Past {
            hits,
            frequency: u8::try_from(frequency).unwrap_or(u8::MAX),
            soft_purged_at: (flags & SOFTLY_PURGED != 0).then_some(UnixMillis(soft_ms)),
            born_seq: 0,
            is_doubted: flags & DOUBTED != 0,
        },
        bans_seen,
        standing: match flags & (EXEMPT_OR_KEPT | KEPT) {
            EXEMPT_OR_KEPT => Standing::Exempt,
            0 => Standing::Refused(0),
            _ => Standing::Kept { generation: 0, kind: 0 },
        },
    })
}
