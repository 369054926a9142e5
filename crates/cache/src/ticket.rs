//! The turn to fetch, and the ways a fetch can end.

use crate::cache::Cache;
use crate::key::Key;
use crate::lock::lock;
use crate::marker::Marker;
use crate::object::{Object, ObjectSpec, StoredHead, charge_bytes, head_heap_bytes};
use crate::original::Original;
use crate::purge_log::Seq;
use crate::selector::Selector;
use crate::shard::Shard;
use crate::waiting::{Failure, Pending, WaitOutcome};
use std::fmt;
use std::sync::Arc;

/// The turn to fetch a resource. Ends in one of the ways below; one that is dropped instead wakes
/// all that wait for it to look up again, and one of them gets the next turn.
///
/// A ticket knows which purges came before it. What is fetched with it never gets into the index
/// when a later purge would have removed it.
pub struct Ticket {
    cache: Arc<Cache>,
    key: Arc<Key>,
    /// Who waits; `None` where the ticket is not exclusive.
    pending: Option<Arc<Pending>>,
    born_seq: Seq,
    /// Whether nobody has asked for it yet ([`Cache::lookup_ahead`]).
    pub(crate) is_ahead: bool,
}

impl Ticket {
    pub(crate) fn new(
        cache: Arc<Cache>,
        key: Key,
        pending: Option<Arc<Pending>>,
        born_seq: Seq,
    ) -> Self {
        Self { cache, key: Arc::new(key), pending, born_seq, is_ahead: false }
    }

    /// Has the fetch begin now, of which nothing was asked yet: what was purged or banned since the look-up does not
    /// concern what it will bring. After a purge of the resource, those that waited for it look again, and nobody waits
    /// for it.
    pub fn begin_now(&mut self) {
        let seq = self.cache.order.last();
        if seq == self.born_seq {
            return;
        }
        let is_purged = self.cache.was_purged_since(self.born_seq, &self.key, &[]);
        self.born_seq = seq;
        if is_purged {
            self.end(WaitOutcome::TryAgain);
        }
    }

    /// Makes a response visible, as a rule while its body is still being filled, and wakes those
    /// that wait. It replaces the variant of equal key, and markers about the requests it answers.
    ///
    /// Where there is no room for the head, or a purge came meanwhile, the object is not indexed
    /// ([`Object::is_indexed`]): it serves its own request and nobody else, best in transit. May
    /// evict others. An object leaves the index when its body enters transit: the body's hook for
    /// that is taken.
    pub fn insert(self, spec: ObjectSpec) -> Arc<Object> {
        let born_seq = self.born_seq;
        self.insert_older(spec, born_seq)
    }

    /// As [`Ticket::insert`], for what was asked for, or validated, at `content_seq` and is only put here now, as
    /// what is made of another object; 0 for what may be something that was purged elsewhere since. A fence
    /// above that is before it, until it is validated.
    pub fn insert_older(mut self, spec: ObjectSpec, content_seq: u64) -> Arc<Object> {
        let content = content_seq.min(self.born_seq);
        let born = Born { seq: self.born_seq, content, is_ahead: self.is_ahead };
        let object = self.cache.insert(&self.key, self.pending.as_ref(), born, spec);
        self.end(WaitOutcome::TryAgain);
        object
    }

    /// Notes that the origin said the stored response is still good (304): `head` is its head,
    /// updated (RFC 9111 §3.2). Wakes those that wait. Takes a soft purge back that came before
    /// the ticket. Whether the object is still in the index; it is not where it was evicted or
    /// purged meanwhile, or the new head did not find room.
    pub fn refresh(mut self, object: &Arc<Object>, head: StoredHead) -> bool {
        let indexed = self.cache.refresh(self.pending.as_ref(), self.born_seq, object, head);
        self.end(WaitOutcome::TryAgain);
        indexed
    }

    /// As [`Ticket::refresh`], of what is good for the one that asked and is not to be shared, as
    /// [`Ticket::hit_for_miss`] has it: the object is forgotten, and the same bytes under the new head are returned
    /// as one that is in no index. The object itself stays as it is for others that have it, who may ask about it
    /// as well and hear something else.
    #[must_use]
    pub fn refresh_for_one(
        mut self,
        object: &Arc<Object>,
        head: StoredHead,
        marker: Marker,
    ) -> Arc<Object> {
        let own = Arc::new(object.under(self.cache.next_id(), head, self.born_seq));
        self.cache.forget(object);
        self.cache.shard(&self.key).mark(self.key.hash(), marker);
        self.end(WaitOutcome::TryAgain);
        own
    }

    /// The same bytes under a head that is for the one that asked, as an object that is in no index. What is
    /// stored stays as it was, for whoever asks about it next.
    #[must_use]
    pub fn lend(mut self, object: &Arc<Object>, head: StoredHead) -> Arc<Object> {
        let own = Arc::new(object.under(self.cache.next_id(), head, self.born_seq));
        self.end(WaitOutcome::TryAgain);
        own
    }

    /// Notes that the response was not fit to be shared: requests it would have been for fetch side by
    /// side for a while. Wakes those that wait. A marker does not survive the insertion of an object
    /// that answers such requests, and there may be fewer than wanted where very many are set.
    pub fn hit_for_miss(mut self, marker: Marker) {
        self.cache.shard(&self.key).mark(self.key.hash(), marker);
        self.end(WaitOutcome::TryAgain);
    }

    /// Shares a failure with all that wait at present.
    pub fn fail(mut self, failure: Arc<Failure>) {
        self.end(WaitOutcome::Failed(failure));
    }

    /// The resource to fetch.
    pub fn key(&self) -> &Arc<Key> {
        &self.key
    }

    /// Whether others wait for this fetch rather than fetch themselves.
    pub fn is_exclusive(&self) -> bool {
        self.pending.is_some()
    }

    /// How many wait at present.
    pub fn waiters(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.waiters())
    }

    /// The number of the last purge before it.
    pub fn born_seq(&self) -> u64 {
        self.born_seq
    }

    fn end(&mut self, outcome: WaitOutcome) {
        if let Some(pending) = self.pending.take() {
            self.cache.shard(&self.key).end(self.key.hash(), &pending);
            pending.finish(outcome);
        }
    }
}

/// Behind which purge the fetch of a response began, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct Born {
    pub(crate) seq: Seq,
    /// Behind which its bytes are known to be: not above `seq`.
    pub(crate) content: Seq,
    /// Whether it is for a request that is still to come.
    pub(crate) is_ahead: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(WaitOutcome::TryAgain);
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.key)
            .field("exclusive", &self.is_exclusive())
            .field("born_seq", &self.born_seq)
            .finish_non_exhaustive()
    }
}

impl Cache {
    pub(crate) fn insert(
        self: &Arc<Self>,
        key: &Arc<Key>,
        pending: Option<&Arc<Pending>>,
        born: Born,
        spec: ObjectSpec,
    ) -> Arc<Object> {
        let object = self.put(key, pending, born, spec, None);
        if object.is_indexed() {
            self.drop_copies(key);
        }
        object
    }

    /// Puts an object into the index, as far as it has room and the object was not purged since.
    pub(crate) fn put(
        self: &Arc<Self>,
        key: &Arc<Key>,
        pending: Option<&Arc<Pending>>,
        Born { seq: born_seq, content, is_ahead }: Born,
        mut spec: ObjectSpec,
        original: Option<Original>,
    ) -> Arc<Object> {
        self.note_time(spec.head.freshness.received);
        spec.tags.sort_unstable();
        spec.objective.get_or_insert(self.settings.objective);
        let mut selector =
            Selector { variation: spec.variation.take(), scheme: spec.head.scheme_bound };
        let wanted = charge_bytes(key, &spec, &selector, original.is_some());
        let has_room = spec.body.arena().charge_metadata(wanted.into()).is_ok();
        let charged = if has_room { wanted } else { 0 };

        let mut shard = self.shard(key);
        if let Some(resource) = shard.find(key.hash()) {
            selector = resource.variants.intern(selector);
        }
        let bans_seen = original.as_ref().map_or(born_seq, |one| one.object().bans_seen());
        let (id, own_key) = (self.next_id(), Arc::clone(key));
        let object = Object::new(id, own_key, spec, selector, content, charged, original);
        // Whoever puts it here has tested it.
        object.note_bans_seen(bans_seen);
        if is_ahead {
            object.await_first();
        }
        let object = Arc::new(object);
        // The pending fetch goes and the object comes under one lock, so that nobody in between
        // finds neither.
        let in_time = self.end_in_time(&mut shard, &object, pending, born_seq);
        if !in_time || !has_room {
            shard.counters.refused_purged += u64::from(!in_time);
            drop(shard);
            self.refused_room.add(u64::from(!has_room));
            return object;
        }
        let crowded_out = shard.counters.variants_evicted;
        let replaced = shard.insert(Arc::clone(&object));
        if shard.counters.variants_evicted > crowded_out {
            self.note_crowded();
        }
        shard.counters.inserted += 1;
        if is_ahead {
            // The monitor hears of it when it is asked for.
            shard.counters.inserted_ahead += 1;
            drop(shard);
        } else {
            self.note(shard, key.hash(), &object, None);
        }
        self.join_share(&object);
        self.with_fifo(|fifo| fifo.push(&object));
        self.keep_to_share_of(&object);
        self.retire(&replaced);
        self.forget_in_transit(&object);
        object
    }

    /// Has an object leave the index when its body enters transit: nobody new could read it.
    fn forget_in_transit(self: &Arc<Self>, object: &Arc<Object>) {
        if object.body().is_complete() {
            return;
        }
        let (cache, weak) = (Arc::downgrade(self), Arc::downgrade(object));
        object.body().on_transit(move || {
            if let (Some(cache), Some(object)) = (cache.upgrade(), weak.upgrade()) {
                cache.forget(&object);
            }
        });
    }

    fn refresh(
        &self,
        pending: Option<&Arc<Pending>>,
        born_seq: Seq,
        object: &Arc<Object>,
        head: StoredHead,
    ) -> bool {
        self.note_time(head.freshness.received);
        let more = head_heap_bytes(&head);
        let arena = object.body().arena();
        let has_room = arena.charge_metadata(more.into()).is_ok();
        if !has_room {
            self.refused_room.add(1);
            self.forget(object);
        }
        let key = object.key();
        let mut shard = self.shard(key);
        let in_time = self.end_in_time(&mut shard, object, pending, born_seq);
        // As late as this: another may have renewed it meanwhile, or forgotten it, and then nobody says what was
        // charged for its head.
        let is_charged = has_room && object.is_indexed();
        let fewer = object.with_head(head_heap_bytes);
        object.set_head(head);
        if is_charged {
            object.add_charge(more, fewer);
        }
        if in_time && object.is_indexed() {
            object.undo_soft_purge();
            object.set_born_seq(born_seq);
            shard.renew(object);
            shard.counters.validated += 1;
            self.note(shard, key.hash(), object, None);
            self.drop_copies(key);
        } else {
            drop(shard);
        }
        if has_room {
            arena.release_metadata(if is_charged { fewer } else { more }.into());
        }
        object.is_indexed()
    }

    /// Forgets the fetch; whether no purge of what it brought came while it ran.
    fn end_in_time(
        &self,
        shard: &mut Shard,
        object: &Object,
        pending: Option<&Arc<Pending>>,
        born_seq: Seq,
    ) -> bool {
        let hash = object.key().hash();
        let expected = pending.is_none_or(|pending| shard.end(hash, pending));
        let purges = lock(&self.purges);
        expected
            && !purges.purged_since(hash as u64, born_seq)
            && !object.tags().iter().any(|tag| purges.purged_since(*tag, born_seq))
    }
}
