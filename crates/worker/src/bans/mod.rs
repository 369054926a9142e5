//! Bans: what matches one and is older than it is not served any more.
//!
//! A ban costs nothing when it comes. An object is tested when a request finds it, against the bans
//! that came since its fetch began or since it was tested last; a lurker tests objects nobody asks
//! for against the bans that need no request, so that the list stays short.
//!
//! The order of bans and of the beginnings of fetches is that of the cache's purges, so there is no
//! time between at which an object could slip through. The list is bounded: when its oldest end is
//! dropped too early, objects that were not tested against that are not served.
//!
//! Where there are disks, bans are kept on each as purges are, with a number in the order of the
//! disks, and come back from them.

mod lurker;
mod on_disk;
mod spec;

pub use lurker::run as lurk;

use freshet_base::clock::UnixMillis;
use freshet_base::counter::SharedCounter;
use freshet_cache::{Groups, Left, Object};
use freshet_config::bans::BanSettings;
use freshet_disk::Disks;
use freshet_http::message::RequestHead;
use freshet_site::durability::Durability;
pub use spec::plain_words;
use spec::{Seen, Spec};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::Notify;

/// Bans that are remembered. A look-up of an object nobody asked for since the oldest tests it
/// against all of them, some µs for each ten.
pub const BANS_MAX: usize = 10_000;

/// One ban.
#[derive(Debug)]
struct Ban {
    seq: u64,
    /// When in the order of the disks; 0 where there are none, or a newer ban says the same.
    number: AtomicU64,
    time: UnixMillis,
    /// `None` for the first one, which bans nothing.
    spec: Option<Spec>,
    /// Whether nothing is left that it could ban.
    is_done: AtomicBool,
}

/// All bans of a node.
#[derive(Debug)]
pub struct Bans {
    /// Newest first.
    list: RwLock<VecDeque<Arc<Ban>>>,
    newest: AtomicU64,
    /// Objects that were not tested up to here are not served.
    floor: AtomicU64,
    /// Where bans are kept, and what stays in the list while there is something older there.
    disks: Option<Arc<Disks>>,
    /// How many bans had been found on them when they were looked at last.
    found: AtomicU64,
    /// Told of each new ban.
    added: Notify,
    /// What was done.
    pub counters: BanCounters,
}

/// What bans did.
#[derive(Debug, Default)]
pub struct BanCounters {
    /// Bans added.
    pub added: SharedCounter,
    /// Bans dropped from the list.
    pub deleted: SharedCounter,
    /// Bans that took the place of an older one.
    pub duplicates: SharedCounter,
    /// Objects tested for requests.
    pub tested: SharedCounter,
    /// Conditions tested for requests.
    pub conditions_tested: SharedCounter,
    /// Objects banned, found by requests.
    pub objects_banned: SharedCounter,
    /// Objects tested by the lurker.
    pub lurker_tested: SharedCounter,
    /// Conditions tested by the lurker.
    pub lurker_conditions_tested: SharedCounter,
    /// Objects banned, found by the lurker.
    pub lurker_objects_banned: SharedCounter,
    /// Objects the lurker dropped because they were behind too many bans.
    pub lurker_objects_cut_off: SharedCounter,
}

/// A ban as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// When it came.
    pub time: UnixMillis,
    /// Objects that were tested against it and against none since.
    pub objects: u64,
    /// Whether nothing is left that it could ban.
    pub is_done: bool,
    /// Whether it is about requests.
    pub needs_request: bool,
    /// What it says; empty for the first one, which bans nothing.
    pub text: String,
}

/// A ban on its way to the process that takes over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handed {
    /// Its number in the order of its process.
    pub(crate) seq: u64,
    /// Its number in the order of the disks, 0 where it has none.
    pub(crate) number: u64,
    pub(crate) time: UnixMillis,
    /// Whether no object in memory is left that it could ban.
    pub(crate) is_done: bool,
    /// As it is read again.
    pub(crate) text: String,
}

/// Whether a text is a ban, for who hands it on to nodes.
///
/// # Errors
/// What is wrong with it.
pub fn check(text: &str) -> Result<(), String> {
    Spec::read(&spec::words(text)?).map(drop)
}

impl Bans {
    /// Bans that came after this number, oldest first, for another process.
    pub(crate) fn after(&self, seq: u64) -> Vec<Handed> {
        if self.newest.load(SeqCst) <= seq {
            return Vec::new();
        }
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let of = |ban: &Arc<Ban>| {
            let text = ban.spec.as_ref()?.written.clone();
            let (is_done, number) = (ban.is_done.load(Relaxed), ban.number.load(SeqCst));
            Some(Handed { seq: ban.seq, number, time: ban.time, is_done, text })
        };
        list.iter().rev().filter(|ban| ban.seq > seq).filter_map(of).collect()
    }

    /// Takes over a ban of another process, with its time, and returns its number here.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn restore(
        &self,
        cache: &Groups,
        handed: &Handed,
    ) -> Result<(u64, Durability), String> {
        let spec = Spec::read(&spec::words(&handed.text)?)?;
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let number = Some(handed.number).filter(|number| *number > 0);
        let found = |ban: &&Arc<Ban>| number.is_some_and(|one| ban.number.load(SeqCst) == one);
        if let Some(known) = list.iter().find(found) {
            return Ok((known.seq, Durability::default()));
        }
        // One that a newer ban stands for need not be kept.
        let (number, durability) = match (number, handed.is_done) {
            (None, true) => (0, Durability::default()),
            (number, _) => self.keep(&spec, number),
        };
        let seq = cache.next_in_order();
        let (time, is_done) = (handed.time, AtomicBool::new(handed.is_done));
        let number = AtomicU64::new(number);
        list.push_front(Arc::new(Ban { seq, number, time, spec: Some(spec), is_done }));
        self.bound(&mut list);
        self.newest.store(seq, SeqCst);
        drop(list);
        self.added.notify_waiters();
        Ok((seq, durability))
    }

    /// No bans but those that are on the disks, if there are any.
    pub fn new(disks: Option<Arc<Disks>>) -> Self {
        let first = Ban {
            seq: 0,
            number: AtomicU64::new(0),
            time: UnixMillis::now(),
            spec: None,
            is_done: AtomicBool::new(true),
        };
        Self {
            list: RwLock::new([Arc::new(first)].into()),
            newest: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            disks,
            found: AtomicU64::new(0),
            added: Notify::new(),
            counters: BanCounters::default(),
        }
    }

    /// Adds a ban that is one text; what has space in it is quoted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add(
        &self,
        cache: &Groups,
        text: &str,
        settings: &BanSettings,
    ) -> Result<Durability, String> {
        self.add_words(cache, &spec::words(text)?, settings)
    }

    /// Adds a ban of these words.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn add_words(
        &self,
        cache: &Groups,
        words: &[String],
        settings: &BanSettings,
    ) -> Result<Durability, String> {
        let spec = Spec::read(words)?;
        self.check_length(&spec)?;
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        self.counters.added.add(1);
        if settings.drops_duplicates && !spec.depends_on_time {
            let same = |ban: &&Arc<Ban>| {
                ban.spec.as_ref().is_some_and(|old| old.text == spec.text)
                    && !ban.is_done.load(Relaxed)
            };
            for old in list.iter().filter(same) {
                old.is_done.store(true, Relaxed);
                old.number.store(0, SeqCst);
                self.counters.duplicates.add(1);
            }
        }
        let (number, durability) = self.keep(&spec, None);
        // The same as when it is read from the disks again.
        let time = if number == 0 { UnixMillis::now() } else { on_disk::time_of(number) };
        let (number, is_done) = (AtomicU64::new(number), AtomicBool::new(false));
        let seq = cache.next_in_order();
        list.push_front(Arc::new(Ban { seq, number, time, spec: Some(spec), is_done }));
        self.bound(&mut list);
        self.newest.store(seq, SeqCst);
        drop(list);
        self.added.notify_waiters();
        Ok(durability)
    }

    /// Drops the oldest where there are too many; what was not tested against them is refused.
    fn bound(&self, list: &mut VecDeque<Arc<Ban>>) {
        while list.len() > BANS_MAX {
            let Some(oldest) = list.pop_back() else { break };
            self.drop_oldest(&oldest);
        }
    }

    fn drop_oldest(&self, oldest: &Ban) {
        self.counters.deleted.add(1);
        self.floor.fetch_max(oldest.seq, SeqCst);
        self.forget_kept(oldest);
    }

    /// Whether an object that a request found is banned. It is not tested again before the next
    /// ban.
    #[inline]
    pub fn bans(&self, object: &Object, request: &RequestHead) -> bool {
        object.bans_seen() < self.newest.load(Relaxed) && self.test(object, request)
    }

    #[cold]
    fn test(&self, object: &Object, request: &RequestHead) -> bool {
        let (head, freshness) = (object.head(), object.freshness());
        let what = Seen::of(object, &head, &freshness);
        let spared = self.spares(what, object.bans_seen(), request);
        spared.inspect(|newest| object.note_bans_seen(*newest)).is_none()
    }

    /// Whether a response is banned that was not kept, of which a request found what it left. It is not tested again
    /// before the next ban.
    pub fn bans_left(&self, left: &Left, request: &RequestHead) -> bool {
        let seen = left.bans_seen();
        if seen >= self.newest.load(Relaxed) {
            return false;
        }
        let spared = self.spares(Seen::of_left(left), seen, request);
        spared.inspect(|newest| left.note_bans_seen(*newest)).is_none()
    }

    /// The newest ban, where none of those that came after `seen` is about this; `None` where one is.
    fn spares(&self, what: Seen<'_>, seen: u64, request: &RequestHead) -> Option<u64> {
        if seen < self.floor.load(SeqCst) {
            self.counters.objects_banned.add(1);
            return None;
        }
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let Some(newest) = list.front().map(|ban| ban.seq) else { return Some(seen) };
        for ban in list.iter().take_while(|ban| ban.seq > seen) {
            let Some(spec) = ban.spec.as_ref().filter(|_| !ban.is_done.load(Relaxed)) else {
                continue;
            };
            let (conditions, is_banned) = spec.test(what, Some(request), ban.time);
            self.counters.tested.add(1);
            self.counters.conditions_tested.add(conditions);
            if is_banned {
                self.counters.objects_banned.add(1);
                return None;
            }
        }
        Some(newest)
    }

    /// All bans, newest first. O(objects).
    pub fn list(&self, cache: &Groups) -> Vec<Listed> {
        self.restore_kept(cache);
        let bans: Vec<_> = {
            let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
            list.iter().map(Arc::clone).collect()
        };
        let mut objects = vec![0u64; bans.len()];
        cache.each_object(&mut |object| {
            let seen = object.bans_seen();
            let at = bans.partition_point(|ban| ban.seq > seen);
            if let Some(count) = objects.get_mut(at) {
                *count += 1;
            }
        });
        bans.iter()
            .zip(objects)
            .map(|(ban, objects)| Listed {
                time: ban.time,
                objects,
                is_done: ban.is_done.load(Relaxed),
                needs_request: ban.spec.as_ref().is_some_and(|spec| spec.needs_request),
                text: ban.spec.as_ref().map_or_else(String::new, |spec| spec.text.clone()),
            })
            .collect()
    }

    /// Bans in the list, those of them that are done, those that need a request, and those that are
    /// about objects only. The first one of all, which bans nothing, is neither.
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let done = list.iter().filter(|ban| ban.is_done.load(Relaxed)).count() as u64;
        let with_request = list
            .iter()
            .filter(|ban| ban.spec.as_ref().is_some_and(|spec| spec.needs_request))
            .count() as u64;
        let saying = list.iter().filter(|ban| ban.spec.is_some()).count() as u64;
        (list.len() as u64, done, with_request, saying - with_request)
    }
}
