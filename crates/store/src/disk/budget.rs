//! Endurance: how much of its write budget a disk has used, and what that lets in.

use super::codec::mix;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const DAY_MS: u64 = 24 * 3600 * 1000;
/// How often the bytes written are noted.
const SAMPLE_MS: u64 = 15 * 60 * 1000;
/// Pressure up to which everything eligible is let in.
const ALL_UP_TO: f64 = 0.7;
/// Fingerprints of what was seen: 4 MiB.
const SEEN_SLOTS: usize = 1 << 20;
/// A drive is made for its daily writes over this long.
const WARRANTY_DAYS: f64 = 5.0 * 365.0;

/// The write budget of one disk.
#[derive(Debug)]
pub struct Budget {
    /// Bytes of the drive.
    bytes: u64,
    /// Bytes that may be written in a day.
    day_bytes: f64,
    /// When, and how many bytes had been written then; a day at most.
    samples: Mutex<VecDeque<(u64, u64)>>,
}

/// What is asked to be admitted has shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Use {
    /// How often it was served from memory.
    pub hits: u64,
    /// Whether it was here before and is fetched again.
    pub was_seen: bool,
}

impl Budget {
    /// A budget of `drive_writes` times `bytes` a day.
    pub fn new(bytes: u64, drive_writes: f64) -> Self {
        let day_bytes = (bytes as f64 * drive_writes).max(1.0);
        Self { bytes, day_bytes, samples: Mutex::default() }
    }

    /// Notes how many bytes were written in all; called now and then.
    pub fn note(&self, now_ms: u64, written_bytes: u64) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.back().is_some_and(|(at, _)| now_ms < at + SAMPLE_MS) {
            return;
        }
        samples.push_back((now_ms, written_bytes));
        while samples.front().is_some_and(|(at, _)| at + DAY_MS < now_ms) {
            samples.pop_front();
        }
    }

    /// Bytes written in the last day, or in what is known of it.
    pub fn daily_bytes(&self, now_ms: u64, written_bytes: u64) -> f64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, before)) = samples.front().copied() else { return 0.0 };
        let span_ms = now_ms.saturating_sub(at).max(DAY_MS);
        written_bytes.saturating_sub(before) as f64 * DAY_MS as f64 / span_ms as f64
    }

    /// The part of the budget that is being used; above 1 the drive wears out before its time. To
    /// fill the drive for the first time is free: it is one write of its whole life.
    pub fn pressure(&self, now_ms: u64, written_bytes: u64) -> f64 {
        if written_bytes <= self.bytes {
            return 0.0;
        }
        self.daily_bytes(now_ms, written_bytes) / self.day_bytes
    }

    /// Whether an object that was used like this is worth its writing.
    pub fn admits(&self, pressure: f64, shown: Use) -> bool {
        if pressure < ALL_UP_TO {
            true
        } else if pressure < 1.0 {
            shown.hits > 0 || shown.was_seen
        } else {
            shown.was_seen && shown.hits >= 2
        }
    }

    /// How long the drive lasts at this rate, from now on.
    pub fn life_left(&self, now_ms: u64, written_bytes: u64) -> Option<Duration> {
        let daily = self.daily_bytes(now_ms, written_bytes);
        let left = (self.day_bytes * WARRANTY_DAYS - written_bytes as f64).max(0.0);
        (daily > 0.0).then(|| Duration::from_secs_f64((left / daily).min(100_000.0) * 86_400.0))
    }
}

/// Which resources were fetched lately: a fingerprint each, overwritten by others in time.
#[derive(Debug)]
pub struct Seen(Box<[AtomicU32]>);

impl Default for Seen {
    fn default() -> Self {
        Self((0..SEEN_SLOTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Seen {
    /// Notes a resource; whether it had been noted.
    pub fn note(&self, key: u128) -> bool {
        let hash = mix(key as u64);
        let Some(slot) = self.0.get(hash as usize % SEEN_SLOTS) else { return false };
        let print = (hash >> 32) as u32 | 1;
        slot.swap(print, Relaxed) == print
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_tightens_as_the_budget_is_used() {
        let budget = Budget::new(1000, 0.5);
        budget.note(0, 10_000);
        let at = DAY_MS;
        assert!((budget.pressure(at, 10_250) - 0.5).abs() < 1e-9);
        assert_eq!(budget.pressure(at, 1000), 0.0);
        let (new, used, seen) =
            (Use::default(), Use { hits: 1, was_seen: false }, Use { hits: 2, was_seen: true });
        let admitted = |written| {
            let pressure = budget.pressure(at, written);
            [new, used, seen].map(|shown| budget.admits(pressure, shown))
        };
        assert_eq!(admitted(10_250), [true, true, true]);
        assert_eq!(admitted(10_400), [false, true, true]);
        assert_eq!(admitted(10_600), [false, false, true]);
        let days = budget.life_left(at, 10_500).map(|left| left.as_secs() / 86_400);
        assert_eq!(days, Some(1804));
    }

    #[test]
    fn what_is_fetched_again_is_known() {
        let seen = Seen::default();
        assert!(!seen.note(5 << 64 | 7));
        assert!(seen.note(5 << 64 | 7));
        assert!(!seen.note(8));
    }
}
