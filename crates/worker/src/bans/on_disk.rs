//! Bans and the disks: they are kept there, come back from there, and leave when nothing there is
//! older.

use super::spec::{self, Seen, Spec};
use super::{Ban, Bans};
use freshet_base::clock::UnixMillis;
use freshet_cache::{Groups, Key, StoredHead};
use freshet_disk::Disks;
use freshet_disk::limits::NOTE_BYTES_MAX;
use freshet_http::message::RequestHead;
use freshet_site::durability::Durability;
use freshet_site::sites::SiteName;
use std::collections::HashSet;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// What the note of a ban begins with: a kind, should there ever be notes of others.
const KIND: u8 = b'b';

impl Spec {
    /// What is kept of it on disks.
    fn note(&self) -> Vec<u8> {
        let mut note = vec![KIND];
        note.extend_from_slice(self.written.as_bytes());
        note
    }

    fn of_note(note: &[u8]) -> Result<Self, String> {
        let text = note.strip_prefix(&[KIND]).ok_or("this version does not know its kind")?;
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        Self::read(&spec::words(text)?)
    }
}

/// When the ban whose note has this number was made: numbers are microseconds of the wall clock.
pub(super) fn time_of(number: u64) -> UnixMillis {
    UnixMillis(number / 1000)
}

impl Bans {
    /// Whether a ban can be kept, where there are disks.
    ///
    /// # Errors
    /// It is too long.
    pub(super) fn check_length(&self, spec: &Spec) -> Result<(), String> {
        if self.disks.is_some() && spec.note().len() > NOTE_BYTES_MAX {
            return Err(format!(
                "Too long; a ban may have {} bytes where there are disks.",
                NOTE_BYTES_MAX - 1
            ));
        }
        Ok(())
    }

    /// Has a ban kept on the disks; its number in their order, 0 without any.
    pub(super) fn keep(&self, spec: &Spec, number: Option<u64>) -> (u64, Durability) {
        let kept = self.disks.as_ref().and_then(|disks| disks.note(&spec.note(), number));
        kept.map_or_else(Default::default, |(number, pending)| (number, pending.into()))
    }

    /// Takes over bans that were found on disks and are not known. They hold for all that is in
    /// memory now: nobody knows which came first.
    pub fn restore_kept(&self, cache: &Groups) {
        let Some(disks) = &self.disks else { return };
        if self.found.load(Acquire) == disks.notes().found() {
            return;
        }
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let found = disks.notes().found();
        let known: HashSet<u64> = list.iter().map(|ban| ban.number.load(SeqCst)).collect();
        let mut count = 0;
        for note in disks.notes().all().into_iter().filter(|note| !known.contains(&note.seq)) {
            match Spec::of_note(&note.bytes) {
                Ok(spec) => {
                    let seq = cache.next_in_order();
                    let (time, number) = (time_of(note.seq), AtomicU64::new(note.seq));
                    let is_done = AtomicBool::new(false);
                    list.push_front(Arc::new(Ban { seq, number, time, spec: Some(spec), is_done }));
                    self.newest.store(seq, SeqCst);
                    count += 1;
                }
                Err(why) => {
                    tracing::warn!(why, "a ban on a disk cannot be read: what is older is refused");
                    disks.forget_notes(note.seq);
                }
            }
        }
        self.bound(&mut list);
        self.found.store(found, Release);
        drop(list);
        if count > 0 {
            tracing::info!(bans = count, "bans were found on disks");
            self.added.notify_waiters();
        }
    }

    /// Whether a response from a disk, of which the fetch began at `born` in the order of disks, is
    /// banned.
    pub fn bans_stored(
        &self,
        cache: &Groups,
        (key, head, born): (&Key, &StoredHead, u64),
        request: &RequestHead,
    ) -> bool {
        self.restore_kept(cache);
        let site = SiteName::in_key(key.text());
        // What a policy keeps beyond its grace is not known of what comes from a disk.
        let keep = Duration::ZERO;
        let (status, fields) = (head.status, &head.fields);
        let seen = Seen { status, fields, freshness: &head.freshness, keep, site };
        let tests = |ban: &Arc<Ban>| {
            ban.spec.as_ref().is_some_and(|spec| spec.test(seen, Some(request), ban.time).1)
        };
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        // The lurker does not look at disks: what is done in memory is not done there.
        let is_banned = list.iter().filter(|ban| ban.number.load(SeqCst) > born).any(tests);
        // After the list, which a ban leaves only after what is older is refused.
        is_banned || self.disks.as_ref().is_some_and(|disks| disks.refuses(born))
    }

    /// Bans up to this number have nothing on the disks that is older. O(segments).
    pub(super) fn done_on_disks(&self) -> u64 {
        let oldest = |disks: &Arc<Disks>| disks.oldest_born().unwrap_or(0);
        self.disks.as_ref().map_or(u64::MAX, oldest)
    }

    /// Lets the disks forget a ban that leaves the list, and refuse what is older.
    pub(super) fn forget_kept(&self, ban: &Ban) {
        if let (Some(disks), number @ 1..) = (&self.disks, ban.number.load(SeqCst)) {
            disks.forget_notes(number);
        }
    }
}
