//! Renewals: new words about an object whose bytes stay as they are.
//!
//! An origin that finds a stored response still good says for how long, and with which fields. That
//! is written as a record without payload, whose key follows from the object's number. So all that
//! holds for the head of an object holds for it: a newer one takes the place of an older, a start
//! finds it, it moves to a longer index, it is written again with its object. Programs that do not
//! know of renewals see objects nobody asks for.
//!
//! The first renewal of an object is written as it comes, and those after it once in
//! [`RENEWAL_EVERY`], the last one of them.

use super::intake::{Description, sums};
use super::limits::{RENEWAL_EVERY, RENEWALS_BYTES_MAX, RENEWALS_MAX};
use super::purges::Verdict;
use super::read::Stored;
use super::reclaim::read_head;
use super::record::key_hash;
use super::volume::Volume;
use super::writer::{Stream, Writer};
use crate::error::DiskError;
use freshet_base::splitmix::mixed;
use freshet_store::Arena;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The key of what renews an object.
pub(super) fn renewal_key(object: u128) -> u128 {
    let high = mixed((object >> 64) as u64 ^ mixed(object as u64 ^ 0x7265_6e65_7761_6c73));
    u128::from(high) << 64 | u128::from(mixed(high ^ object as u64))
}

impl Writer {
    /// Writes what an object with this number is to be described as from now on. What it can be
    /// purged by stays as it is. Where an erasure has begun since, it is left out.
    ///
    /// # Errors
    /// [`DiskError::RecordTooLong`] where the description does not fit, or the device failed.
    pub(crate) fn renew(
        &mut self,
        object: u128,
        description: Description,
    ) -> Result<(), DiskError> {
        if self.is_cut_off_at(description.born) {
            return Ok(());
        }
        let key = renewal_key(object);
        let description = Description { key, variant: 0, tags: Box::default(), ..description };
        let mut head = description.head(object, 0);
        head.sums = sums(&[], self.volume.geometry().check_bytes);
        self.append(Stream::New, head, &[])?;
        self.volume.counts.renewals_written.add(1);
        Ok(())
    }
}

impl Volume {
    /// An object as its newest renewal describes it, where there is one.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        mut stored: Stored,
        arena: &Arc<Arena>,
    ) -> Stored {
        let key = renewal_key(stored.object);
        let mut newest = None;
        for slot in self.heads(key).iter() {
            if let Ok(found) = self.read_head(key, slot, false, arena).await
                && newest.as_ref().is_none_or(|newest: &Stored| newest.seq < found.seq)
            {
                newest = Some(found);
            }
        }
        let Some(renewal) = newest else { return stored };
        // What was only softly purged, and found to be good after that, is good.
        if stored.soft.is_some() {
            let hash = key_hash(stored.key);
            match self.common.purges.verdict(hash, &stored.tags, renewal.born) {
                Verdict::Good => stored.soft = None,
                Verdict::Stale(soft) => stored.soft = Some(soft),
                Verdict::Purged => {}
            }
        }
        stored.validated = stored.validated.max(renewal.born);
        stored.meta = renewal.meta;
        stored
    }

    /// Until when the renewal of an object says that it is of use, Unix milliseconds; 0 where there
    /// is none. Reads from the disk.
    pub(super) fn renewed_until_ms(&self, object: u128) -> u64 {
        let key = renewal_key(object);
        let unit = u64::from(self.geometry().unit_bytes);
        let slots = self.heads(key);
        let heads = slots.iter().filter_map(|slot| read_head(self, slot.units_at() * unit));
        heads.filter(|head| head.key == key).map(|head| head.expires_ms).max().unwrap_or(0)
    }
}

/// A renewal that is to be written.
#[derive(Debug)]
pub(super) struct Renewal {
    pub(super) object: u128,
    pub(super) description: Description,
}

/// Objects that were renewed lately, and what waits to be written of them.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    waiting: HashMap<u128, Option<Description>>,
    /// When which may be written again, first one first.
    due: VecDeque<(Instant, u128)>,
    bytes: usize,
}

impl Renewals {
    /// Takes note of a renewal, and gives it back where it is to be written now. What there is no
    /// room to remember is left out: the object is validated once more after a restart.
    pub(super) fn add(&mut self, renewal: Renewal, now: Instant) -> Option<Renewal> {
        let Renewal { object, description } = renewal;
        let has_room = self.waiting.len() < RENEWALS_MAX;
        match self.waiting.get_mut(&object) {
            None if has_room => {
                self.waiting.insert(object, None);
                self.due.push_back((now + RENEWAL_EVERY, object));
                Some(Renewal { object, description })
            }
            None => None,
            Some(waiting) => {
                let before = waiting.as_ref().map_or(0, |before| before.meta.len());
                let bytes = self.bytes - before + description.meta.len();
                if bytes <= RENEWALS_BYTES_MAX {
                    self.bytes = bytes;
                    *waiting = Some(description);
                }
                None
            }
        }
    }

    /// The next that has waited for long enough.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Renewal> {
        while let Some((_, object)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            match self.waiting.get_mut(&object).and_then(Option::take) {
                None => drop(self.waiting.remove(&object)),
                Some(description) => {
                    self.bytes -= description.meta.len();
                    self.due.push_back((now + RENEWAL_EVERY, object));
                    return Some(Renewal { object, description });
                }
            }
        }
        None
    }

    /// All that waits, due or not.
    pub(super) fn take(&mut self) -> Vec<Renewal> {
        self.bytes = 0;
        let all = self.waiting.iter_mut();
        all.filter_map(|(object, waiting)| {
            waiting.take().map(|description| Renewal { object: *object, description })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn renewal(object: u128, word: u8, bytes: usize) -> Renewal {
        let meta = vec![word; bytes].into();
        Renewal { object, description: Description { meta, ..Description::default() } }
    }

    fn word(renewal: Option<Renewal>) -> Option<(u128, u8)> {
        renewal.map(|renewal| (renewal.object, renewal.description.meta[0]))
    }

    #[test]
    fn of_many_renewals_the_first_is_written_and_then_the_last_of_each_minute() {
        let mut renewals = Renewals::default();
        let begun = Instant::now();
        let mut written = Vec::new();
        for second in 0..=150 {
            let now = begun + Duration::from_secs(second);
            written.extend(word(renewals.next_due(now)).map(|(_, word)| (second, word)));
            let added = renewals.add(renewal(7, second as u8, 100), now);
            written.extend(word(added).map(|(_, word)| (second, word)));
        }
        assert_eq!(written, [(0, 0), (60, 59), (120, 119)]);
        assert_eq!(
            renewals.take().into_iter().map(Some).map(word).collect::<Vec<_>>(),
            [Some((7, 150))]
        );
        let later = begun + Duration::from_secs(1000);
        assert!(renewals.next_due(later).is_none() && renewals.waiting.is_empty());
        assert_eq!((renewals.due.len(), renewals.bytes), (0, 0));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut renewals = Renewals::default();
        let now = Instant::now();
        let objects = 2 * RENEWALS_MAX as u128;
        let written = (0..objects).filter(|of| renewals.add(renewal(*of, 1, 10), now).is_some());
        assert_eq!(written.count(), RENEWALS_MAX);
        for object in 0..objects {
            assert!(renewals.add(renewal(object, 2, 10_000), now).is_none());
            assert!(renewals.bytes <= RENEWALS_BYTES_MAX);
        }
        let waiting: usize = renewals.take().iter().map(|one| one.description.meta.len()).sum();
        assert!(waiting > RENEWALS_BYTES_MAX - 10_001 && renewals.bytes == 0, "{waiting}");
    }
}
