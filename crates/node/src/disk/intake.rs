//! What goes to the disks, and when.

use super::meta;
use crate::config::SiteSettings;
use crate::policy::Storage;
use crate::site::Site;
use crate::worker::Worker;
use freshet_cache::{Key, Object, Objective, StoredHead, Variation};
use freshet_http::fields::Fields;
use freshet_store::disk::budget::Use;
use freshet_store::disk::{Description, Disks, ObjectStream, Wish};
use std::sync::Arc;
use std::time::Duration;

/// Uses after which an object that was not let in is offered again: those that change what the
/// write budget says.
const OFFERED_AT_HITS: std::ops::RangeInclusive<u64> = 1..=2;

/// A response, and what decides whether and where it is kept besides in memory.
pub(crate) struct Candidate<'a> {
    pub(crate) site: &'a Site,
    pub(crate) key: &'a Key,
    pub(crate) head: &'a StoredHead,
    pub(crate) variation: Option<&'a Variation>,
    pub(crate) tags: &'a [u64],
    /// The request's fields.
    pub(crate) request: &'a Fields,
    /// The beginning of its fetch in the order of purges on disks.
    pub(crate) born: u64,
    /// Where a policy wants it.
    pub(crate) storage: &'a Storage,
}

/// A response that may go to a disk.
pub(crate) struct Intake {
    disks: Arc<Disks>,
    description: Description,
    shown: Use,
    wish: Wish,
}

impl Candidate<'_> {
    /// What would be written of it; `None` where it is for memory only: without disks, with a
    /// lifetime too short, or with a head too long.
    pub(crate) fn admit(&self, worker: &Worker) -> Option<Intake> {
        let &Self { site, key, head, variation, tags, request, born, storage } = self;
        let disks = Arc::clone(worker.shared.disks.as_ref()?);
        let fresh = &head.freshness;
        if head.partial || fresh.lifetime < site.settings.store_ttl_min {
            return None;
        }
        let by_rule;
        let storage = match storage {
            Storage::Configured => {
                by_rule = site.settings.storage_of(target_of(key));
                &by_rule
            }
            chosen => chosen,
        };
        let class = match storage {
            Storage::Configured => None,
            Storage::Memory => return None,
            Storage::Class(class) => Some(Arc::clone(class)),
        };
        let wish = Wish { class, bytes: None, lifetime: fresh.lifetime };
        let was_seen = disks.note_fetch(key.hash());
        let useful = fresh.lifetime + fresh.stale_while_revalidate.max(fresh.stale_if_error);
        let description = Description {
            key: key.hash(),
            variant: meta::variant(variation, head.scheme_bound),
            born,
            expires_ms: fresh.received.plus(useful).0,
            tags: tags.into(),
            meta: meta::write(key.text(), head, request),
        };
        let intake = Intake { disks, description, shown: Use { hits: 0, was_seen }, wish };
        intake.description.fits().then_some(intake)
    }
}

impl Intake {
    /// Offers an object that has arrived.
    pub(crate) fn offer(self, object: &Object) {
        let body = object.body();
        if !object.is_indexed() || body.trailers().is_some() {
            return;
        }
        let shown = Use { hits: object.hits(), ..self.shown };
        let wish = Wish { bytes: body.total(), ..self.wish };
        if self.disks.offer(self.description, body, shown, &wish) {
            body.note_offer();
        }
    }

    /// Begins to write a response that is too large for memory, while it passes.
    pub(crate) fn tee(self, length: Option<u64>) -> Option<Tee> {
        let wish = Wish { bytes: length, ..self.wish };
        let stream = self.disks.stream(self.description.key, self.shown, &wish)?;
        Some(Tee { stream: Some(stream), description: self.description, length })
    }
}

/// The path and query of a resource: the part of its key that is one, wherever a policy puts it.
pub(crate) fn target_of(key: &Key) -> &str {
    let mut parts = key.text().split(|byte| *byte == 0);
    let target = parts.find(|part| part.starts_with(b"/"));
    target.and_then(|target| std::str::from_utf8(target).ok()).unwrap_or_default()
}

/// What memory is to have the most of of such responses, where a rule of the configuration says so.
pub(crate) fn objective_of(settings: &SiteSettings, key: &Key) -> Option<Objective> {
    settings.objective_of(target_of(key))
}

/// Writes what passes.
pub(crate) struct Tee {
    stream: Option<ObjectStream>,
    description: Description,
    length: Option<u64>,
}

impl Tee {
    /// Takes a copy of bytes. Where the disk cannot keep up, this and all after it is left out.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(stream) = &mut self.stream
            && !stream.push(bytes)
        {
            self.stream = None;
        }
    }

    /// Makes it findable, after its last byte.
    pub(crate) fn finish(self) {
        if let Some(stream) = self.stream
            && self.length.is_none_or(|length| length == stream.total())
        {
            stream.finish(self.description);
        }
    }
}

/// Offers an object again that was not let in when it came and has been used since.
pub(crate) fn offer_used(worker: &Worker, site: &Site, object: &Object, request: &Fields) {
    let Some(disks) = &worker.shared.disks else { return };
    if object.body().was_offered() || !OFFERED_AT_HITS.contains(&object.hits()) {
        return;
    }
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
    if let Some(intake) =
        candidate.admit(worker).filter(|_| object.is_indexed() && !disks.disks().is_empty())
    {
        intake.offer(object);
    }
}

/// The longest time a fetch may have taken before its head came.
const FETCH_MAX: Duration = Duration::from_secs(600);
