//! What keeps responses besides the memory they arrive in.
//!
//! An answer comes into memory, and an index finds it there. Whatever else keeps it stands behind
//! [`Keeper`]: a lower class of memory and disks; the memory of a parent or of peers would. A fetch
//! asks all of them at once and knows none; a body knows the [`Source`](freshet_store::Source) it can
//! be read from, and not what that is.
//!
//! | moment | asked |
//! |---|---|
//! | an answer came that memory takes | [`Keepers::admit`], and when it is whole [`Admitted::whole`] |
//! | one came that memory has no room for | [`Keepers::let_through`] |
//! | one turned out to be so while it came | [`Admitted::passing`] |
//! | a look-up found nothing in memory | [`Keepers::restore`] |
//! | an object was used again | [`Keepers::used`] |
//! | an origin said that one is still good | [`Keepers::renewed`] |
//! | an origin gave something else in the place of one | [`Keepers::ended`] |
//! | something is purged | [`Keepers::evict`] |

use crate::worker::Worker;
use freshet_base::clock::UnixMillis;
use freshet_cache::{
    Key, Object, ObjectSpec, Objective, Purge, Selecting, StoredHead, Ticket, Variation,
};
use freshet_config::SiteSettings;
use freshet_config::storage::Storage;
use freshet_http::fields::Fields;
use freshet_http::message::RequestHead;
use freshet_site::durability::Durability;
use freshet_site::sites::SiteRef;
use freshet_store::{Body, Standing};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Something that keeps responses.
pub trait Keeper: Send + Sync {
    /// What it is about to do with a response of which the head is known; `None` where it does not
    /// want it. It is asked once for each, before the body has come.
    fn admit(&self, candidate: &Candidate<'_>) -> Option<Box<dyn Admission>>;

    /// An object that memory has was used. One that was not wanted when it came may be now.
    #[inline]
    fn used(&self, used: &Used<'_>) {
        let _ = used;
    }

    /// An origin said that an object that memory has is still good.
    fn renewed(&self, renewed: &Renewed<'_>) {
        let _ = renewed;
    }

    /// An object that memory has is over, by an answer to a fetch that was `born` then in the order of purges on
    /// disks. It lets go what it has of the resource from before that: at least what it would give in the
    /// object's place.
    fn ended(&self, object: &Object, born: u64) {
        let _ = (object, born);
    }

    /// Whether it may have responses of a resource. It looks at memory only.
    fn may_have(&self, key: &Key) -> bool {
        let _ = key;
        false
    }

    /// Looks for a response to a request, where it may have one. The body has a source, or all its
    /// bytes.
    fn restore<'a>(&'a self, worker: &'a Rc<Worker>, wanted: Wanted<'a>) -> Restoring<'a> {
        let _ = (worker, wanted);
        Box::pin(async { None })
    }

    /// Lets go what it has of this from before now, and says what is to be waited for until that
    /// holds over a power cut. What was not purged hard may still be validated.
    fn evict(&self, what: &Purgeable<'_>, how: Purge) -> Option<Durability> {
        let _ = (what, how);
        None
    }
}

/// A response a keeper wants.
pub trait Admission {
    /// It is in memory, all of it.
    fn whole(self: Box<Self>, object: &Arc<Object>);

    /// It only passes, as memory has no room for it: who takes its bytes on the way. `length` is that
    /// of the whole, where it is known.
    fn passing(self: Box<Self>, length: Option<u64>) -> Option<Box<dyn Passing>> {
        let _ = length;
        None
    }
}

/// Takes a copy of a response that passes.
pub trait Passing {
    /// The next bytes. A keeper that cannot keep up leaves the response out, and nobody waits for it.
    fn push(&mut self, bytes: &[u8]);

    /// Whether it would leave the response out if more came now, and may take it a little later.
    fn is_busy(&self) -> bool {
        false
    }

    /// That was the last byte. One that is dropped instead is forgotten.
    fn finish(self: Box<Self>);
}

/// A response, and what decides whether and where it is kept.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The site it is of.
    pub site: &'a SiteRef,
    /// Its key.
    pub key: &'a Key,
    /// Its head, as it is stored.
    pub head: &'a StoredHead,
    /// What selects it, where there are variants.
    pub variation: Option<&'a Variation>,
    /// Its tags.
    pub tags: &'a [u64],
    /// The request's fields.
    pub request: &'a Fields,
    /// The beginning of its fetch in the order of purges on disks.
    pub born: u64,
    /// Where a policy wants it: what it wants in memory only never goes elsewhere.
    pub storage: &'a Storage,
}

/// An object that was used, and by which request.
#[derive(Clone, Copy)]
pub struct Used<'a> {
    /// The site it is of.
    pub site: &'a SiteRef,
    /// It.
    pub object: &'a Arc<Object>,
    /// The request's fields.
    pub request: &'a Fields,
}

/// An object that was found to be good, its head being what it is from now on, and by which fetch.
#[derive(Clone, Copy, Debug)]
pub struct Renewed<'a> {
    /// The site it is of.
    pub site: &'a SiteRef,
    /// It.
    pub object: &'a Arc<Object>,
    /// The request's fields.
    pub request: &'a Fields,
    /// The beginning of the fetch in the order of purges on disks.
    pub born: u64,
    /// Whether it was not stale before either.
    pub was_fresh: bool,
}

/// A response that is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Its key.
    pub key: &'a Key,
    /// Who asks for it.
    pub request: &'a RequestHead,
    /// Which variant that selects.
    pub selection: &'a dyn Selecting,
    /// Whether its first bytes are wanted too.
    pub whole: bool,
}

/// What may be purged.
pub enum Purgeable<'a> {
    /// A resource.
    Key(&'a Key),
    /// All with a tag.
    Tag(u64),
    /// Everything.
    All,
}

/// What is found of a response, in time.
pub type Restoring<'a> = Pin<Box<dyn Future<Output = Option<Restored>> + 'a>>;

/// A response that was found.
pub struct Restored {
    /// What goes into the index.
    pub spec: ObjectSpec,
    /// Whether it may be something that was purged elsewhere since.
    pub is_doubted: bool,
}

/// The keepers of a node, in the order in which they are asked.
#[derive(Default)]
pub struct Keepers(Vec<Box<dyn Keeper>>);

/// A response with those that want it.
pub struct Admitted(Vec<Box<dyn Admission>>);

impl Keepers {
    /// These.
    pub fn new(all: impl IntoIterator<Item = Box<dyn Keeper>>) -> Self {
        Self(all.into_iter().collect())
    }

    /// Asks all about a response whose body is about to come.
    pub fn admit(&self, candidate: &Candidate<'_>, body: &Body) -> Admitted {
        let admitted = self.0.iter().filter_map(|keeper| keeper.admit(candidate)).collect();
        if *candidate.storage != Storage::Configured {
            // What a policy decided is not asked again when the object is used.
            body.set_standing(Standing::Exempt);
        }
        Admitted(admitted)
    }

    /// Asks who takes a response that passes; the first that does.
    pub fn let_through(
        &self,
        candidate: &Candidate<'_>,
        length: Option<u64>,
    ) -> Option<Box<dyn Passing>> {
        self.0.iter().find_map(|keeper| keeper.admit(candidate)?.passing(length))
    }

    /// Tells all that an object was used.
    #[inline]
    pub fn used(&self, used: Used<'_>) {
        self.0.iter().for_each(|keeper| keeper.used(&used));
    }

    /// Tells all that an object was found to be good.
    pub fn renewed(&self, renewed: Renewed<'_>) {
        self.0.iter().for_each(|keeper| keeper.renewed(&renewed));
    }

    /// Tells all that an object is over, by an answer to a fetch that was `born` then in the order of purges on disks.
    pub fn ended(&self, object: &Object, born: u64) {
        self.0.iter().for_each(|keeper| keeper.ended(object, born));
    }

    /// Whether one may have responses of a resource. It looks at memory only.
    pub fn may_have(&self, key: &Key) -> bool {
        self.0.iter().any(|keeper| keeper.may_have(key))
    }

    /// Looks for a response and puts it into the index. The caller looks up again then; what is found
    /// may be stale.
    ///
    /// # Errors
    /// The ticket, where there is none.
    pub async fn restore(
        &self,
        worker: &Rc<Worker>,
        wanted: Wanted<'_>,
        ticket: Ticket,
    ) -> Result<(), Ticket> {
        for keeper in self.0.iter().filter(|keeper| keeper.may_have(wanted.key)) {
            if let Some(found) = keeper.restore(worker, wanted).await {
                let Restored { spec, is_doubted } = found;
                // What holds for all that is stored holds for what was stored elsewhere.
                let is_fenced = worker.shared.cache.trusts_nothing(UnixMillis::now());
                let content_seq = if is_doubted || is_fenced { 0 } else { ticket.born_seq() };
                ticket.insert_older(spec, content_seq);
                return Ok(());
            }
        }
        Err(ticket)
    }

    /// Has all let something go, and says what is to be waited for.
    pub fn evict(&self, what: &Purgeable<'_>, how: Purge) -> Durability {
        let mut all = Durability::default();
        self.0.iter().filter_map(|keeper| keeper.evict(what, how)).for_each(|one| all.add(one));
        all
    }
}

impl Admitted {
    /// Whether nobody else is to have it.
    pub fn is_by_nobody(&self) -> bool {
        self.0.is_empty()
    }

    /// A response that nobody else is to have.
    pub fn by_nobody() -> Self {
        Self(Vec::new())
    }

    /// The response turned out to be too long for memory: who takes its bytes while it passes, the first that does.
    pub fn passing(&mut self) -> Option<Box<dyn Passing>> {
        self.0.drain(..).find_map(|admission| admission.passing(None))
    }

    /// The response is in memory, all of it.
    pub fn whole(self, object: &Arc<Object>) {
        self.0.into_iter().for_each(|admission| admission.whole(object));
    }
}

/// The path and query of a resource: the part of its key that is one, wherever a policy puts it.
pub fn target_of(key: &Key) -> &str {
    let mut parts = key.text().split(|byte| *byte == 0);
    let target = parts.find(|part| part.starts_with(b"/"));
    target.and_then(|target| std::str::from_utf8(target).ok()).unwrap_or_default()
}

/// What memory is to have the most of of such responses, where a rule of the configuration says so.
pub fn objective_of(settings: &SiteSettings, key: &Key) -> Option<Objective> {
    settings.objective_of(target_of(key))
}

/// The class of keepers a response is for, where a policy or a rule names one.
///
/// # Errors
/// It is for memory only.
pub(crate) fn class_of(candidate: &Candidate<'_>) -> Result<Option<Arc<str>>, MemoryOnly> {
    let by_rule;
    let storage = match candidate.storage {
        Storage::Configured => {
            by_rule = candidate.site.settings.storage_of(target_of(candidate.key));
            &by_rule
        }
        chosen => chosen,
    };
    match storage {
        Storage::Configured => Ok(None),
        Storage::Memory => Err(MemoryOnly),
        Storage::Class(class) => Ok(Some(Arc::clone(class))),
    }
}

/// A response that is to be in memory only.
#[derive(Debug)]
pub(crate) struct MemoryOnly;
