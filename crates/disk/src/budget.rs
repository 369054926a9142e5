//! Endurance: how much of its write budget a disk has used, and what that lets in.
//!
//! The account is a bucket that leaks: what is written fills it, and it empties at six sevenths of the
//! budget, evenly over the day. It holds the last seventh. So no day, whenever it begins, sees more
//! than the budget; a burst is taken for hours, and what is worth most is never locked out for long.
//! The account is in the checkpoints, and what a crash left unsaid is charged when the disk is opened.

use super::geometry::Geometry;
use super::limits::CHECKPOINT_EVERY;
use freshet_base::splitmix::mixed;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const DAY_MS: f64 = DAY.as_millis() as f64;
/// The part of a day's budget that may be written at once.
const BURST_PART: f64 = 1.0 / 7.0;
/// How full the account is up to which everything eligible is let in.
const ALL_UP_TO: f64 = 0.5;
/// Up to here, what was used or is fetched again; beyond, what was both.
const USED_UP_TO: f64 = 0.8;
/// The part of the budget that is left to the journal and to the heads of segments.
const BOOKKEEPING_PART: f64 = 0.02;
/// Fetches that are remembered for each object there is room for. With one, half of what comes back
/// is not known any more where much comes once; with four, more is written and little more is hit.
const SEEN_PER_OBJECT: u64 = 2;
/// Bounds of what is remembered: 2 MiB, and 512 MiB.
const SEEN_MIN: u64 = 1 << 20;
const SEEN_MAX: u64 = 1 << 28;
/// A drive is made for its daily writes over this long.
const WARRANTY_DAYS: f64 = 5.0 * 365.0;

/// The write budget of one disk.
#[derive(Debug)]
pub struct Budget {
    /// Bytes for content, which may be written once without being charged.
    fill_bytes: u64,
    /// Bytes that may be written in a day.
    day_bytes: f64,
    /// Bytes the account holds, once it is known how long checkpoints are.
    room_bytes: AtomicU64,
    /// Bytes that are set apart for each checkpoint whose time has come.
    checkpoint_bytes: AtomicU64,
    account: Mutex<Account>,
}

/// What is remembered of writes, also over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Account {
    /// Bytes in the bucket.
    pub(crate) filled_bytes: f64,
    /// Bytes written a day, averaged over about the last one.
    pub(crate) daily_bytes: f64,
    /// When that was so, Unix milliseconds.
    pub(crate) at_ms: u64,
    /// All bytes that ever were written then.
    pub(crate) written_bytes: u64,
}

/// What is asked to be admitted has shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Use {
    /// How often it was served from memory.
    pub hits: u64,
    /// Whether it was here before and is fetched again.
    pub was_seen: bool,
}

impl Use {
    /// How full the account may be that takes it.
    fn admitted_up_to(self) -> f64 {
        match (self.hits, self.was_seen) {
            (2.., true) => 1.0,
            (0, false) => ALL_UP_TO,
            _ => USED_UP_TO,
        }
    }
}

impl Budget {
    /// A budget of `drive_writes` times its content a day for a disk with this account.
    pub(crate) fn new(geometry: &Geometry, drive_writes: f64, account: Account) -> Self {
        let fill_bytes = geometry.log_bytes();
        let day_bytes = (fill_bytes as f64 * drive_writes).max(1.0);
        let budget = Self {
            fill_bytes,
            day_bytes,
            room_bytes: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(0),
            account: Mutex::new(account),
        };
        budget.expect_checkpoints(0);
        budget
    }

    /// Sets apart what checkpoints of so many bytes need whose time has come; at most half, where the
    /// budget is less than such a disk can be used with.
    pub(crate) fn expect_checkpoints(&self, bytes: u64) {
        let checkpoints = DAY_MS / CHECKPOINT_EVERY.as_millis() as f64;
        let checkpoints_bytes = (bytes as f64 * checkpoints).min(self.day_bytes / 2.0);
        let content_bytes = self.day_bytes * (1.0 - BOOKKEEPING_PART) - checkpoints_bytes;
        self.room_bytes.store((content_bytes * BURST_PART) as u64, Relaxed);
        self.checkpoint_bytes.store((checkpoints_bytes / checkpoints) as u64, Relaxed);
    }

    fn room_bytes(&self) -> f64 {
        self.room_bytes.load(Relaxed) as f64
    }

    /// Charges what was written since the last time; `written_bytes` is all that ever was. Of these,
    /// `scheduled_bytes` are a checkpoint's: what was set apart for it is no charge, and what it is longer is.
    pub(crate) fn note(&self, now_ms: u64, written_bytes: u64, scheduled_bytes: u64) {
        let mut account = self.lock();
        let now = self.at(*account, now_ms);
        let new_bytes = written_bytes.saturating_sub(now.written_bytes);
        let free_bytes = self.fill_bytes.saturating_sub(now.written_bytes).min(new_bytes);
        let worn_bytes = new_bytes - free_bytes;
        let apart_bytes = scheduled_bytes.min(self.checkpoint_bytes.load(Relaxed));
        *account = Account {
            filled_bytes: now.filled_bytes + worn_bytes.saturating_sub(apart_bytes) as f64,
            daily_bytes: now.daily_bytes + worn_bytes as f64,
            at_ms: now.at_ms,
            written_bytes: now.written_bytes.max(written_bytes),
        };
    }

    /// The account as it is now, to be kept.
    pub(crate) fn account(&self, now_ms: u64) -> Account {
        self.at(*self.lock(), now_ms)
    }

    /// Whether `bytes` of an object that was used like this may be written after the `waiting_bytes`
    /// that are let in already.
    pub fn admits(&self, now_ms: u64, waiting_bytes: u64, bytes: u64, shown: Use) -> bool {
        let account = self.account(now_ms);
        let after_bytes = account.written_bytes + waiting_bytes + bytes;
        let charged_bytes = after_bytes.saturating_sub(self.fill_bytes.max(account.written_bytes));
        charged_bytes == 0
            || account.filled_bytes + charged_bytes as f64
                <= self.room_bytes() * shown.admitted_up_to()
    }

    /// The part of the budget that was used in the last day.
    pub fn pressure(&self, now_ms: u64) -> f64 {
        self.account(now_ms).daily_bytes / self.day_bytes
    }

    /// How long the drive lasts at this rate, from now on.
    pub fn life_left(&self, now_ms: u64) -> Option<Duration> {
        let Account { daily_bytes, written_bytes, .. } = self.account(now_ms);
        let left = (self.day_bytes * WARRANTY_DAYS - written_bytes as f64).max(0.0);
        // Beyond this nobody plans.
        let days = (left / daily_bytes).min(100_000.0);
        (daily_bytes >= 1.0).then(|| Duration::from_secs_f64(days * DAY.as_secs_f64()))
    }

    /// An account some time later. A clock that was set back stands still for it, but for one that was more than a day
    /// ahead: what it gave away is given, and until it was right again nothing would be.
    fn at(&self, account: Account, now_ms: u64) -> Account {
        let days = now_ms.saturating_sub(account.at_ms) as f64 / DAY_MS;
        let leaked_bytes = self.room_bytes() * (1.0 / BURST_PART - 1.0) * days;
        let was_ahead = account.at_ms.saturating_sub(now_ms) > DAY.as_millis() as u64;
        Account {
            filled_bytes: (account.filled_bytes - leaked_bytes).max(0.0),
            daily_bytes: account.daily_bytes * (-days).exp(),
            at_ms: if was_ahead { now_ms } else { account.at_ms.max(now_ms) },
            ..account
        }
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which resources were fetched lately: a fingerprint each, overwritten by others in time.
#[derive(Debug)]
pub struct Seen(Box<[AtomicU16]>);

impl Seen {
    /// Of disks with room for so many objects.
    pub fn of_disks(objects: u64) -> Self {
        Self::with_slots(objects.saturating_mul(SEEN_PER_OBJECT).clamp(SEEN_MIN, SEEN_MAX))
    }

    /// With so many fingerprints.
    pub fn with_slots(slots: u64) -> Self {
        Self((0..slots.max(1)).map(|_| AtomicU16::new(0)).collect())
    }

    /// Notes a resource; whether it had been noted.
    pub fn note(&self, key: u128) -> bool {
        let hash = mixed(key as u64);
        let Some(slot) = self.0.get(hash as usize % self.0.len()) else { return false };
        let print = (hash >> 48) as u16 | 1;
        slot.swap(print, Relaxed) == print
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FormatOptions;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const HOUR_MS: u64 = 3_600_000;

    fn geometry() -> Geometry {
        Geometry::plan(4 << 30, FormatOptions::default()).expect("it is long enough")
    }

    const NEW: Use = Use { hits: 0, was_seen: false };
    const USED: Use = Use { hits: 1, was_seen: false };
    const WANTED: Use = Use { hits: 2, was_seen: true };

    #[test]
    fn admission_tightens_as_the_account_fills_and_opens_as_it_leaks() {
        let geometry = geometry();
        let budget = Budget::new(&geometry, 0.5, Account::default());
        let filled = geometry.log_bytes();
        let admitted = |at| [NEW, USED, WANTED].map(|shown| budget.admits(at, 0, 1000, shown));
        budget.note(0, filled, 0);
        assert_eq!(admitted(0), [true; 3], "the first filling is free");
        assert_eq!(budget.pressure(0), 0.0);
        let room = budget.room_bytes() as u64;
        budget.note(0, filled + room * 6 / 10, 0);
        assert_eq!(admitted(0), [false, true, true]);
        budget.note(0, filled + room * 9 / 10, 0);
        assert_eq!(admitted(0), [false, false, true]);
        assert!(!budget.admits(0, room / 10, 1000, WANTED), "what waits counts");
        budget.note(0, filled + room, 0);
        assert_eq!(admitted(0), [false; 3], "never above");
        assert_eq!(admitted(HOUR_MS), [false, true, true]);
        assert_eq!(admitted(3 * HOUR_MS), [true; 3], "nobody is locked out for a day");
        let days = budget.life_left(0).map(|left| left.as_secs() / 86_400);
        assert!(days.is_some_and(|days| days > 1000), "{days:?}");
    }

    #[test]
    fn a_checkpoint_longer_than_was_set_apart_is_charged_for_that() {
        let budget = Budget::new(&geometry(), 0.5, Account::default());
        let (filled, expected) = (geometry().log_bytes(), 10_000);
        budget.expect_checkpoints(expected);
        budget.note(0, filled + 10_000, 10_000);
        assert_eq!(budget.account(0).filled_bytes, 0.0);
        // With the marks of many purges.
        budget.note(0, filled + 35_000, 25_000);
        assert_eq!(budget.account(0).filled_bytes, 15_000.0);
    }

    #[test]
    fn a_clock_that_is_set_back_gives_nothing_away() {
        let budget = Budget::new(&geometry(), 0.5, Account::default());
        let filled = geometry().log_bytes() + budget.room_bytes() as u64;
        budget.note(10 * HOUR_MS, filled, 0);
        budget.note(HOUR_MS, filled, 0);
        assert!(!budget.admits(HOUR_MS, 0, 1000, WANTED));
        assert!(!budget.admits(10 * HOUR_MS, 0, 1000, WANTED));
        assert!(budget.admits(11 * HOUR_MS, 0, 1000, WANTED));
    }

    #[test]
    fn a_clock_that_was_years_ahead_locks_nobody_out() {
        let budget = Budget::new(&geometry(), 0.5, Account::default());
        let filled = geometry().log_bytes() + budget.room_bytes() as u64;
        budget.note(100_000 * HOUR_MS, filled, 0);
        budget.note(10 * HOUR_MS, filled, 0);
        assert!(!budget.admits(10 * HOUR_MS, 0, 1000, WANTED));
        assert!(budget.admits(11 * HOUR_MS, 0, 1000, WANTED));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A month of any demand, with restarts in order and without: what is written in any day,
        /// checkpoints included, is never more than the budget.
        #[test]
        fn no_day_sees_more_than_the_budget(
            drive_writes in 0.05..1.0f64,
            steps in prop::collection::vec((1..180u64, 0..400u64, 0..20u8), 400..1200),
        ) {
            let geometry = geometry();
            let day_bytes = geometry.log_bytes() as f64 * drive_writes;
            let checkpoint_bytes = geometry.lines * 64;
            let budget_of = |account| {
                let budget = Budget::new(&geometry, drive_writes, account);
                budget.expect_checkpoints(checkpoint_bytes);
                budget
            };
            let mut budget = budget_of(Account::default());
            let (mut now_ms, mut written) = (0, geometry.log_bytes());
            budget.note(0, written, 0);
            let mut kept = budget.account(0);
            let (mut last_day, mut sum) = (VecDeque::new(), 0);
            let mut checkpointed_ms = 0;
            for (minutes, megabytes, what) in steps {
                now_ms += minutes * 60_000;
                let mut now_written = 0;
                if now_ms >= checkpointed_ms + CHECKPOINT_EVERY.as_millis() as u64 {
                    checkpointed_ms = now_ms;
                    kept = budget.account(now_ms);
                    written += checkpoint_bytes;
                    now_written += checkpoint_bytes;
                    budget.note(now_ms, written, checkpoint_bytes);
                }
                let bytes = megabytes << 20;
                let shown = [NEW, USED, WANTED][usize::from(what % 3)];
                if budget.admits(now_ms, 0, bytes, shown) {
                    written += bytes;
                    now_written += bytes;
                    budget.note(now_ms, written, 0);
                }
                if what == 19 {
                    // The power went: what came after the checkpoint is charged again.
                    budget = budget_of(kept);
                    budget.note(now_ms, written, 0);
                }
                last_day.push_back((now_ms, now_written));
                sum += now_written;
                while last_day.front().is_some_and(|(at, _)| at + 24 * HOUR_MS <= now_ms) {
                    sum -= last_day.pop_front().map_or(0, |(_, bytes)| bytes);
                }
                prop_assert!(sum as f64 <= day_bytes, "{sum} of {day_bytes}");
            }
        }
    }

    #[test]
    fn what_is_fetched_again_is_known() {
        let seen = Seen::with_slots(1000);
        assert!(!seen.note(5 << 64 | 7));
        assert!(seen.note(5 << 64 | 7));
        assert!(!seen.note(8));
    }
}
