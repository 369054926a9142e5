//! What goes to the disks, and when.

use super::meta;
use crate::keepers::{Admission, Candidate, Passing, Renewed, Used, class_of};
use freshet_cache::{Key, Object, StoredHead};
use freshet_config::storage::Storage;
use freshet_disk::budget::Use;
use freshet_disk::{Description, Disks, ObjectStream, Wish, share_of};
use freshet_http::fields::Fields;
use freshet_store::Standing;
use std::sync::Arc;
use std::time::Duration;

/// Uses after which an object that was not let in is offered again: those that change what the
/// write budget says.
const OFFERED_AT_HITS: std::ops::RangeInclusive<u64> = 1..=2;

/// Where a response comes from.
pub(super) enum Comes {
    /// From an origin.
    Fetched,
    /// Out of memory, where it was used; whether a disk had it once.
    Used { was_kept: bool },
}

/// A response that may go to a disk.
pub(super) struct Intake {
    disks: Arc<Disks>,
    description: Description,
    shown: Use,
    wish: Wish,
}

impl Intake {
    /// What would be written of a response; `None` where it is for other keepers only, or with a
    /// lifetime too short or a head too long.
    pub(super) fn new(disks: &Arc<Disks>, candidate: &Candidate<'_>, comes: Comes) -> Option<Self> {
        let &Candidate { site, key, head, variation, tags, request, born, .. } = candidate;
        let fresh = &head.freshness;
        if head.partial || fresh.lifetime() < site.settings.store_ttl_min {
            return None;
        }
        let class = class_of(candidate).ok()?;
        let share = site.name.tag_of_all().map_or(0, share_of);
        let wish = Wish { class, bytes: None, lifetime: fresh.lifetime(), share };
        let was_seen = match comes {
            Comes::Fetched => disks.note_fetch(key.hash()),
            Comes::Used { was_kept } => was_kept,
        };
        let variant = meta::variant(variation, head.scheme_bound);
        let description =
            Description { variant, tags: tags.into(), share, ..describe(key, head, request, born) };
        let (disks, shown) = (Arc::clone(disks), Use { hits: 0, was_seen });
        let intake = Self { disks, description, shown, wish };
        intake.description.fits().then_some(intake)
    }
}

impl Admission for Intake {
    fn whole(self: Box<Self>, object: &Arc<Object>) {
        let body = object.body();
        if !object.is_indexed() || body.trailers().is_some() {
            return;
        }
        let shown = Use { hits: object.hits(), ..self.shown };
        let wish = Wish { bytes: body.total(), ..self.wish };
        self.disks.offer(self.description, body, shown, &wish);
    }

    fn passing(self: Box<Self>, length: Option<u64>) -> Option<Box<dyn Passing>> {
        let wish = Wish { bytes: length, ..self.wish };
        let stream = self.disks.stream(self.description.key, self.shown, &wish)?;
        Some(Box::new(Tee { stream: Some(stream), description: self.description, length }))
    }
}

/// Writes what passes.
struct Tee {
    stream: Option<ObjectStream>,
    description: Description,
    length: Option<u64>,
}

impl Passing for Tee {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream
            && !stream.push(bytes)
        {
            self.stream = None;
        }
    }

    fn is_busy(&self) -> bool {
        self.stream.as_ref().is_some_and(ObjectStream::is_held_up)
    }

    fn finish(self: Box<Self>) {
        if let Some(stream) = self.stream
            && self.length.is_none_or(|length| length == stream.total())
        {
            stream.finish(self.description);
        }
    }
}

/// What is written of a response besides its bytes, but for what it is found by.
fn describe(key: &Key, head: &StoredHead, request: &Fields, born: u64) -> Description {
    let fresh = &head.freshness;
    let useful = fresh.lifetime() + fresh.stale_while_revalidate().max(fresh.stale_if_error());
    Description {
        key: key.hash(),
        born,
        expires_ms: fresh.received.plus(useful).0,
        meta: meta::write(key.text(), head, request),
        ..Description::default()
    }
}

/// Has it written that an object was found to be good. Where it is good for a shorter time than
/// disks are for, that matters only where they say that it is good for longer.
pub(super) fn renew(disks: &Disks, renewed: &Renewed<'_>) {
    let Renewed { site, object, request, born, was_fresh } = *renewed;
    let (body, head) = (object.body(), object.head());
    if !was_fresh && head.freshness.lifetime() < site.settings.store_ttl_min {
        return;
    }
    match body.standing() {
        // Of what came from a process before it is not known where it is: it is written anew.
        Standing::Kept { .. } if body.stored_number() == 0 => {
            body.set_standing(Standing::Refused(0))
        }
        Standing::Kept { .. } | Standing::Waits => {
            disks.renew(describe(object.key(), &head, request, born), body);
        }
        Standing::Refused(_) | Standing::Exempt => {}
    }
}

/// Offers an object that has been used and is on no disk: it was not let in when it came, or the log
/// went round since.
pub(super) fn offer_used(disks: &Arc<Disks>, used: &Used<'_>) {
    let Used { site, object, request } = *used;
    let (body, generation) = (object.body(), disks.generation());
    match body.standing() {
        Standing::Waits | Standing::Exempt => return,
        Standing::Kept { generation: seen, .. } if seen == generation => return,
        // Not any response of the resource: a variant that is gone is written again beside its siblings.
        Standing::Kept { kind, .. } if disks.may_have_under(object.key().hash(), kind) => {
            return body.set_standing(Standing::Kept { generation, kind });
        }
        Standing::Refused(seen)
            if seen == generation && !OFFERED_AT_HITS.contains(&object.hits()) =>
        {
            return;
        }
        Standing::Kept { .. } | Standing::Refused(_) => {}
    }
    // What the log lost though memory serves it is what the disk is for: it is worth as much as what was
    // fetched before and is used again.
    let was_kept = body.stored_number() > 0;
    // Whatever comes of it, it is not asked at each use.
    body.set_standing(Standing::Refused(generation));
    let head = object.head();
    // Its fetch began before it was received; a purge since then took it out of the index.
    let born = head.freshness.received.0.saturating_sub(FETCH_MAX.as_millis() as u64) * 1000;
    let candidate = Candidate {
        site,
        key: object.key(),
        head: &head,
        variation: object.variation(),
        tags: object.tags(),
        request,
        born,
        storage: &Storage::Configured,
    };
    if let Some(intake) = Intake::new(disks, &candidate, Comes::Used { was_kept })
        .filter(|_| object.is_indexed() && !disks.disks().is_empty())
    {
        Box::new(intake).whole(object);
    }
}

/// The longest time a fetch may have taken before its head came.
const FETCH_MAX: Duration = Duration::from_secs(600);
