//! A stored response: its head, the body it leads to and what the index knows of it.

use crate::eviction::fifo::{Busy, Resident, Usage};
use crate::eviction::{Demand, Objective};
use crate::key::{Key, hash64};
use crate::lower::Lodger;
use crate::original::Original;
use crate::purge_log::Seq;
use crate::selector::{Selector, Variation};
use crate::share::{Part, Share};
use arc_swap::{ArcSwap, ArcSwapOption};
use freshet_base::clock::UnixMillis;
use freshet_base::ledger::Ledger;
use freshet_http::fields::Fields;
use freshet_http::freshness::{Freshness, Lifetimes, Reuse};
use freshet_http::message::{Scheme, Version};
use freshet_store::{Body, prefetch};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What an object costs in the index besides itself: its place in a table that is half full at worst, its
/// place in the queues, its ghost once it is evicted, and what the allocator adds to seven pieces.
const INDEX_BYTES: usize = 320;

/// The head of a stored response. A 304 replaces it whole.
#[derive(Clone, Debug)]
pub struct StoredHead {
    /// Status code.
    pub status: u16,
    /// Reason phrase where the origin sent another than the usual one.
    pub reason: Option<Box<str>>,
    /// Version the origin spoke, which nobody needs but who writes it down.
    pub version: Version,
    /// Fields, without hop-by-hop ones, `Age` and `Content-Length`; compact.
    pub fields: Fields,
    /// For how long the response may be used, and how.
    pub freshness: Freshness,
    /// Whether the `ETag` among the fields is that of the bytes. An origin's word may have come to another
    /// one: nothing says then what the bytes are of.
    pub etag_holds: bool,
    /// The only scheme the response is for, as a redirect from `http` to `https` is. What the
    /// first head of an object says holds for the object.
    pub scheme_bound: Option<Scheme>,
    /// Whether there are fields that are for caches only, as tags.
    pub for_caches: bool,
    /// Whether the origin sent a part (206) and the body has holes nobody is filling.
    pub partial: bool,
    /// The number of the fetch that brought it, or confirmed it last.
    pub fetch_id: u64,
    /// How the body is kept.
    pub form: Form,
    /// How often it had been used when it was confirmed last.
    pub hits_before: u32,
}

impl StoredHead {
    /// A head with nothing special about it.
    pub fn new(status: u16, fields: Fields, freshness: Freshness) -> Self {
        Self {
            status,
            reason: None,
            version: Version::default(),
            fields,
            freshness,
            etag_holds: true,
            scheme_bound: None,
            for_caches: false,
            partial: false,
            fetch_id: 0,
            form: Form::default(),
            hits_before: 0,
        }
    }

    /// Whether the response may stand in for an origin that fails (RFC 5861 §4): one that is not an
    /// origin's failure itself.
    pub fn may_serve_on_error(&self, now: UnixMillis) -> bool {
        self.status < 500 && self.freshness.may_serve_on_error(now)
    }

    /// The `ETag` of the bytes, quotes and weakness included.
    pub fn etag(&self) -> Option<&[u8]> {
        self.fields.get("etag").filter(|_| self.etag_holds)
    }

    /// The `ETag` the bytes came with. An origin that compares texts knows no other, and answers with all of them.
    pub fn etag_as_it_came(&self) -> Option<&[u8]> {
        let etag = self.etag()?;
        Some(etag.strip_prefix(b"W/").filter(|_| self.form.weakened).unwrap_or(etag))
    }
}

/// How a body is kept, where that is not just as it came. What it means is for the node to know.
#[allow(clippy::struct_excessive_bools, reason = "independent facts, written as bits")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Form {
    /// Under gzip that can be taken off for clients without.
    pub gzip: bool,
    /// As parts that are put together when it is sent.
    pub parts: bool,
    /// Under another coding than it came in.
    pub recoded: bool,
    /// Which clients it is for by the codings they take.
    pub for_coding: ForCoding,
    /// With an `ETag` that was strong as it came, and is weak as the bytes are others.
    pub weakened: bool,
}

/// Which clients a body is for by what they say in `Accept-Encoding`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ForCoding {
    /// As `Vary` has it.
    #[default]
    AsVaries,
    /// For all: the field does not select it.
    Any,
    /// It is kept in several: the one that the field names first selects it.
    First,
}

impl Form {
    /// As one number.
    pub fn bits(self) -> u8 {
        u8::from(self.gzip)
            | u8::from(self.parts) << 1
            | u8::from(self.recoded) << 2
            | u8::from(self.for_coding == ForCoding::Any) << 3
            | u8::from(self.for_coding == ForCoding::First) << 4
            | u8::from(self.weakened) << 5
    }

    /// From [`Form::bits`]; others are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self {
            gzip: bits & 1 != 0,
            parts: bits & 2 != 0,
            recoded: bits & 4 != 0,
            for_coding: match bits & 24 {
                8 => ForCoding::Any,
                16 => ForCoding::First,
                _ => ForCoding::AsVaries,
            },
            weakened: bits & 32 != 0,
        }
    }
}

/// What a fetch puts into the cache.
#[derive(Debug)]
pub struct ObjectSpec {
    /// The head.
    pub head: StoredHead,
    /// The body, which may be empty yet and grow.
    pub body: Arc<Body>,
    /// The rule of `Vary` and what it makes of the request; `None` where the response does not
    /// vary.
    pub variation: Option<Variation>,
    /// Tags it can be purged by, from [`tag`]; duplicates do no harm.
    pub tags: Box<[u64]>,
    /// What a use of it counts for; `None` for what the cache is set to ([`crate::Settings`]).
    pub objective: Option<Objective>,
}

/// A stored response, shared by the index and all that are being answered from it.
pub struct Object {
    id: u64,
    key: Arc<Key>,
    head: ArcSwap<StoredHead>,
    body: Arc<Body>,
    /// What sets it apart from most, where something does.
    special: Option<Box<Special>>,
    born_seq: AtomicU64,
    bans_seen: AtomicU64,
    hits: AtomicU64,
    usage: Usage,
    /// Its stay in memory of a lower class. Changes under its shard's lock.
    lodging: ArcSwapOption<Lodger>,
    /// [`NOT_PURGED`], or when it was softly purged.
    soft_purged_ms: AtomicU64,
    charged_bytes: AtomicU32,
    indexed: AtomicBool,
    objective: Objective,
}

/// What most objects do not have: that they vary, that they are for one scheme, tags, or that they are copies.
struct Special {
    selector: Selector,
    /// The selector's.
    hash: u64,
    tags: Box<[u64]>,
    /// What it is a copy of.
    original: Option<Original>,
    /// Its part of what objects with one of its tags may have.
    part: OnceLock<Part>,
}

/// Of objects that are for any request.
static ANY: Selector = Selector { variation: None, scheme: None };

impl Special {
    fn of(selector: Selector, tags: Box<[u64]>, original: Option<Original>) -> Option<Box<Self>> {
        Self::is_needed(&selector, &tags, original.is_some()).then(|| {
            Box::new(Self {
                hash: selector.hash(),
                selector,
                tags,
                original,
                part: OnceLock::new(),
            })
        })
    }

    fn is_needed(selector: &Selector, tags: &[u64], is_copy: bool) -> bool {
        *selector != ANY || !tags.is_empty() || is_copy
    }
}

const NOT_PURGED: u64 = u64::MAX;

/// Uses up to which those of copies count: enough to stay where half of all is evicted.
const FREQUENCY_FROM_AFAR: u8 = 2;

/// The number a tag goes by: the same text is the same number in every process. Different texts
/// could share one, at odds of 1 in 2^64 per pair; then a purge of one takes the other along.
pub fn tag(text: &[u8]) -> u64 {
    hash64(text)
}

impl Object {
    /// An object that is in no index; `charged_bytes` were charged to its body's arena for it and are
    /// released with it.
    pub(crate) fn new(
        id: u64,
        key: Arc<Key>,
        spec: ObjectSpec,
        selector: Selector,
        born_seq: Seq,
        charged_bytes: u32,
        original: Option<Original>,
    ) -> Self {
        Self {
            id,
            key,
            head: ArcSwap::from_pointee(spec.head),
            body: spec.body,
            special: Special::of(selector, spec.tags, original),
            objective: spec.objective.unwrap_or_default(),
            born_seq: AtomicU64::new(born_seq),
            bans_seen: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            usage: Usage::default(),
            lodging: ArcSwapOption::empty(),
            indexed: AtomicBool::new(false),
            soft_purged_ms: AtomicU64::new(NOT_PURGED),
            charged_bytes: AtomicU32::new(charged_bytes),
        }
    }

    /// One with the same bytes under another head, which nothing is charged for.
    pub(crate) fn under(&self, id: u64, head: StoredHead, born_seq: Seq) -> Self {
        let selector = self.selector().clone();
        let spec = ObjectSpec {
            head,
            body: Arc::clone(&self.body),
            variation: None,
            tags: self.tags().into(),
            objective: Some(self.objective),
        };
        Self::new(id, Arc::clone(&self.key), spec, selector, born_seq, 0, None)
    }

    /// A number no other object of this cache has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The resource it is a response of.
    pub fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// The head as it is now. A head taken once stays as it was.
    pub fn head(&self) -> Arc<StoredHead> {
        self.head.load_full()
    }

    /// Looks at the head without taking a reference: cheaper, for short looks.
    pub fn with_head<R>(&self, look: impl FnOnce(&StoredHead) -> R) -> R {
        look(&self.head.load())
    }

    /// Asks for what a look-up needs to know of it.
    pub(crate) fn prefetch(&self) {
        prefetch(&**self.head.load());
        prefetch(&*self.body);
    }

    /// Asks for what an answer needs of it.
    pub(crate) fn prefetch_response(&self) {
        self.body.prefetch();
        self.with_head(|head| prefetch(head.fields.memory()));
    }

    /// The body.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// How it varies; `None` where it does not.
    pub fn variation(&self) -> Option<&Variation> {
        self.selector().variation.as_ref()
    }

    /// Tags it can be purged by.
    pub fn tags(&self) -> &[u64] {
        self.special.as_ref().map_or(&[], |special| &special.tags)
    }

    /// Whether it has one of these tags.
    pub fn has_one_of(&self, tags: &[u64]) -> bool {
        tags.iter().any(|tag| self.tags().binary_search(tag).is_ok())
    }

    /// Makes it one of a share's, once; false where it is one, or has no tags.
    pub(crate) fn join(&self, share: &Arc<Share>) -> bool {
        self.special.as_ref().is_some_and(|special| special.part.set(Part::of(share)).is_ok())
    }

    /// Its part of a share.
    pub(crate) fn part(&self) -> Option<&Part> {
        self.special.as_ref()?.part.get()
    }

    /// The number of the last purge before its fetch, or its last validation, began.
    pub fn born_seq(&self) -> u64 {
        self.born_seq.load(Relaxed)
    }

    /// The number, in the order of purges, of the last ban it was tested against or that came
    /// before its fetch.
    pub fn bans_seen(&self) -> u64 {
        self.born_seq().max(self.bans_seen.load(Relaxed))
    }

    /// Notes that it was tested against all bans up to this number.
    pub fn note_bans_seen(&self, seq: u64) {
        self.bans_seen.fetch_max(seq, Relaxed);
    }

    /// How often it was served from the cache.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Uses the eviction counts at present, 0 to 15.
    pub fn frequency(&self) -> u8 {
        let lodger = self.lodging.load();
        lodger.as_ref().map_or_else(|| self.usage.frequency(), |lodger| lodger.frequency())
    }

    /// Whether its bytes are in memory of the lower class.
    pub fn is_lower(&self) -> bool {
        self.lodging.load().is_some()
    }

    /// Whether look-ups can find it. An object that could not be inserted, or was evicted, purged
    /// or replaced, is still whole for those who hold it.
    pub fn is_indexed(&self) -> bool {
        self.indexed.load(Relaxed)
    }

    /// When it was softly purged, if it was and has not been validated since.
    pub fn soft_purged_at(&self) -> Option<UnixMillis> {
        let at = self.soft_purged_ms.load(Relaxed);
        (at != NOT_PURGED).then_some(UnixMillis(at))
    }

    /// Bytes of heap it is charged with, its body's not among them.
    pub fn charged_bytes(&self) -> u64 {
        self.charged_bytes.load(Relaxed).into()
    }

    /// What its head says of its freshness, or, where it was softly purged, the same with no
    /// lifetime and with stale windows that end where they would if its lifetime had ended then.
    /// So it is stale even for a worker whose clock is behind that of the purge.
    pub fn freshness(&self) -> Freshness {
        let freshness = self.with_head(|head| head.freshness.clone());
        match self.soft_purged_at() {
            None => freshness,
            Some(at) => freshness.ended(at),
        }
    }

    /// How it may be used at `now` (RFC 9111 §4.2), soft purges respected.
    pub fn reuse(&self, now: UnixMillis) -> Reuse {
        match self.soft_purged_at() {
            None => self.with_head(|head| head.freshness.reuse(now)),
            Some(_) => self.freshness().reuse(now),
        }
    }

    /// Whether it is a copy of what is in another index, and in the listing of that one.
    pub fn is_copy(&self) -> bool {
        self.copied().is_some()
    }

    /// What it is a copy of; itself where it is none.
    pub fn original(self: &Arc<Self>) -> &Arc<Self> {
        self.copied().map_or(self, Original::object)
    }

    /// The original of a copy.
    pub(crate) fn copied(&self) -> Option<&Original> {
        self.special.as_ref()?.original.as_ref()
    }

    /// Whether this is its head now.
    pub(crate) fn has_head(&self, head: &Arc<StoredHead>) -> bool {
        Arc::ptr_eq(&self.head.load(), head)
    }

    pub(crate) fn selector(&self) -> &Selector {
        self.special.as_ref().map_or(&ANY, |special| &special.selector)
    }

    pub(crate) fn selector_hash(&self) -> u64 {
        self.special.as_ref().map_or(0, |special| special.hash)
    }

    /// Counts a hit. Called under the shard's lock, so that no count is lost.
    pub(crate) fn touch(&self) {
        if !self.usage.touch()
            && let Some(lodger) = &*self.lodging.load()
        {
            lodger.touch();
        }
        self.hits.store(self.hits.load(Relaxed) + 1, Relaxed);
    }

    /// Has the next hit be what it was brought for.
    pub(crate) fn await_first(&self) {
        self.usage.await_first();
    }

    /// Whether that use is still to come.
    pub(crate) fn is_awaited(&self) -> bool {
        self.usage.is_awaited()
    }

    /// Counts a hit of a copy, as long as it would be the next to be evicted without: what is asked for
    /// elsewhere stays here, and its memory is hardly written to.
    pub(crate) fn touch_from_afar(&self) {
        if self.frequency() < FREQUENCY_FROM_AFAR
            && !self.usage.touch()
            && let Some(lodger) = &*self.lodging.load()
        {
            lodger.touch();
        }
    }

    /// A request for it, as the monitor wants to know of it.
    pub(crate) fn demand(&self, point: u32) -> Demand {
        let (fingerprint, bytes) = (self.fingerprint(), self.bytes_expected());
        Demand { point, fingerprint, bytes, objective: self.objective }
    }

    /// Gives it the past of the object it was in another process.
    pub(crate) fn set_past(&self, hits: u64, frequency: u8, soft_purged_at: Option<UnixMillis>) {
        self.hits.store(hits, Relaxed);
        self.usage.set_frequency(frequency);
        if let Some(at) = soft_purged_at {
            self.soft_purge(at);
        }
    }

    /// Notes that its bytes are in the lower class; false where that is known already. Under the
    /// shard's lock.
    pub(crate) fn begin_stay(&self, lodger: &Arc<Lodger>) -> bool {
        let begins = self.lodging.load().is_none();
        if begins {
            self.lodging.store(Some(Arc::clone(lodger)));
            self.usage.leave();
        }
        begins
    }

    /// Notes that they are not any more: it may come to the queues of the first class, with the uses
    /// it had. Where it is in the index, under the shard's lock.
    pub(crate) fn end_stay(&self) -> Option<Arc<Lodger>> {
        let lodger = self.lodging.swap(None)?;
        self.usage.come_back(lodger.frequency());
        Some(lodger)
    }

    pub(crate) fn set_indexed(&self, indexed: bool) {
        self.indexed.store(indexed, Relaxed);
    }

    /// Makes it stale from `at` on, or from an earlier purge on. Under the shard's lock.
    pub(crate) fn soft_purge(&self, at: UnixMillis) {
        if self.soft_purged_at().is_none() {
            self.soft_purged_ms.store(at.0.min(NOT_PURGED - 1), Relaxed);
        }
    }

    /// Gives it other lifetimes, in the place of those it has and of a soft purge. Under the shard's
    /// lock.
    pub(crate) fn give(&self, lifetimes: &Lifetimes) {
        let head = self.head();
        let freshness = head.freshness.clone().given(lifetimes);
        self.set_head(StoredHead { freshness, ..StoredHead::clone(&head) });
        self.undo_soft_purge();
    }

    pub(crate) fn undo_soft_purge(&self) {
        self.soft_purged_ms.store(NOT_PURGED, Relaxed);
    }

    /// Gives up the memory of the body of an object that left the index, as far as nobody uses it;
    /// what is read stays until its readers leave. Returns the bytes that came free.
    ///
    /// A fill goes on for those who read along. If memory is short, or nobody reads, it does so in
    /// transit, which drops what has been read and ends with the last reader; otherwise it goes on
    /// as before, so that slow readers do not hold up quick ones.
    pub(crate) fn release_body(&self, memory_is_short: bool) -> u64 {
        if self.body.is_transit() {
            return 0;
        }
        if self.body.writers() == 0 || !(memory_is_short || self.body.readers() == 0) {
            return self.body.clear();
        }
        let before = self.body.held_bytes();
        self.body.enter_transit();
        before.saturating_sub(self.body.held_bytes())
    }

    pub(crate) fn set_born_seq(&self, seq: Seq) {
        self.born_seq.store(seq, Relaxed);
    }

    pub(crate) fn set_head(&self, head: StoredHead) {
        self.head.store(Arc::new(head));
    }

    /// Notes that `bytes` more, or fewer, were charged for it.
    pub(crate) fn add_charge(&self, more: u32, fewer: u32) {
        self.charged_bytes.recount(fewer, more, Relaxed);
    }
}

/// What is charged for the object made of `key` and `spec`: an estimate of its heap. The body
/// charges for itself.
pub(crate) fn charge_bytes(
    key: &Key,
    spec: &ObjectSpec,
    selector: &Selector,
    is_copy: bool,
) -> u32 {
    // Each with its counts.
    let fixed = size_of::<Object>() + size_of::<StoredHead>() + size_of::<Key>() + 3 * 16;
    // The rule is shared as a rule, so it is not counted for each variant.
    let variation = selector.variation.as_ref().map_or(0, |one| one.key.as_bytes().len());
    let is_special = Special::is_needed(selector, &spec.tags, is_copy);
    let special = if is_special { size_of::<Special>() } else { 0 };
    let bytes = fixed + INDEX_BYTES + key.text().len() + special + variation;
    saturated(bytes + size_of_val(&*spec.tags)).saturating_add(head_heap_bytes(&spec.head))
}

/// Heap behind a head.
pub(crate) fn head_heap_bytes(head: &StoredHead) -> u32 {
    let reason = head.reason.as_ref().map_or(0, |reason| reason.len());
    saturated(head.fields.heap_bytes() + reason)
}

/// What is charged fits, by far: heads and keys are limited to less than a thousandth of that.
fn saturated(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Drop for Object {
    fn drop(&mut self) {
        self.body.arena().release_metadata(self.charged_bytes());
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("id", &self.id)
            .field("key", &self.key)
            .field("status", &self.with_head(|head| head.status))
            .field("indexed", &self.is_indexed())
            .finish_non_exhaustive()
    }
}

impl Resident for Object {
    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn bytes(&self) -> u64 {
        self.charged_bytes() + self.body.held_bytes()
    }

    fn bytes_expected(&self) -> u64 {
        self.charged_bytes() + self.body.held_bytes().max(self.body.total().unwrap_or(0))
    }

    fn may_grow(&self) -> bool {
        !self.body.is_complete()
    }

    fn busy(&self) -> Busy {
        if self.body.writers() > 0 {
            Busy::Filling
        } else if self.body.readers() > 0 {
            Busy::Read
        } else {
            Busy::Idle
        }
    }

    fn fingerprint(&self) -> u64 {
        self.key.hash() as u64 ^ self.selector_hash()
    }

    fn objective(&self) -> Objective {
        self.objective
    }

    fn note_counted(&self, bytes: u64) {
        if let Some(part) = self.part() {
            part.count(bytes);
        }
    }
}
