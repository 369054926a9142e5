//! Whether an origin is fit to be asked.
//!
//! Three voices, in this order: an operator's word, active probes over a [`Window`], and real requests
//! that could not connect or got no answer in time. A probe can take an origin out ([`Health::Down`]);
//! requests alone only put it last for a while ([`Health::Suspect`]), because an origin without any
//! alternative is better asked than given up.

use crate::definition::{Origin, OriginId};
use crate::director::View;
use crate::probe_history::History;
use freshet_base::clock::UnixMillis;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Fitness of an origin at one moment.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Health {
    /// Ask it.
    Up,
    /// It could not be reached or did not answer just now: ask it when there is no other.
    Suspect,
    /// Probes fail or an operator took it out: do not ask it.
    Down,
}

/// An operator's word on an origin.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Override {
    /// Probes and failed connections decide.
    #[default]
    Auto,
    /// Counts as up whatever probes say.
    Up,
    /// Counts as down: drained.
    Down,
}

/// How many of the last probes have to be good, as Varnish has it: `threshold` of `size`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Window {
    /// Latest result in bit 0; 1 is good.
    results: u64,
    mask: u64,
    threshold: u32,
    up: bool,
}

/// What a probe's result changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transition {
    /// The origin is fit now.
    WentUp,
    /// The origin is unfit now.
    WentDown,
}

/// Largest window: its results are the bits of a word.
pub const WINDOW_MAX: u32 = 64;

impl Window {
    /// A window of `size` results (1 to [`WINDOW_MAX`], clamped) of which `threshold` (at most
    /// `size`) have to be good. It begins one good result short of the threshold, so that the
    /// first probe decides.
    pub fn new(size: u32, threshold: u32) -> Self {
        let size = size.clamp(1, WINDOW_MAX);
        let threshold = threshold.clamp(1, size);
        let ones = |count: u32| u64::MAX.checked_shr(64 - count).unwrap_or(0);
        Self { results: ones(threshold - 1), mask: ones(size), threshold, up: false }
    }

    /// The same with this many good results to begin with.
    #[must_use]
    pub fn beginning_with(mut self, good: u32) -> Self {
        self.results = u64::MAX.checked_shr(64 - good.min(64)).unwrap_or(0) & self.mask;
        self.up = self.good() >= self.threshold;
        self
    }

    /// Adds a result and says whether the verdict changed.
    pub fn push(&mut self, good: bool) -> Option<Transition> {
        self.results = (self.results << 1 | u64::from(good)) & self.mask;
        let up = self.good() >= self.threshold;
        if up == self.up {
            return None;
        }
        self.up = up;
        Some(if up { Transition::WentUp } else { Transition::WentDown })
    }

    /// Good results in the window.
    pub fn good(&self) -> u32 {
        self.results.count_ones()
    }

    /// Results that are looked at.
    pub fn size(&self) -> u32 {
        self.mask.count_ones()
    }

    /// How many of them have to be good.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The results, the latest in bit 0; 1 is good.
    pub fn results(&self) -> u64 {
        self.results
    }

    /// Whether enough of them are good.
    pub fn is_up(&self) -> bool {
        self.up
    }
}

/// When requests without an answer make an origin suspect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassiveRule {
    /// Requests in a row that could not connect, or were not answered in time, until it is suspect; 0
    /// never.
    pub failures: u32,
    /// For how long it is then asked last.
    pub suspect_for: Duration,
}

impl Default for PassiveRule {
    /// 3 in a row and 10 s: long enough that a dead origin costs few connect timeouts, short
    /// enough that a restarted one is found again.
    fn default() -> Self {
        Self { failures: 3, suspect_for: Duration::from_secs(10) }
    }
}

/// How long an origin is spared that does not say how long it wants to be, and that says so at most.
const REST_UNSAID: Duration = Duration::from_secs(10);
const REST_MAX: Duration = Duration::from_mins(5);

/// The health of one origin, shared by all workers. Reads are two or three relaxed loads.
#[derive(Debug, Default)]
pub struct HealthCell {
    /// 0 not probed, 1 up, 2 down.
    probed: AtomicU8,
    /// As [`Override`].
    spoken: AtomicU8,
    failures: AtomicU32,
    suspect_until_ms: AtomicU64,
    rests_until_ms: AtomicU64,
    changed_ms: AtomicU64,
    changes: AtomicU64,
    /// The last probes, for those who look; most origins have none.
    window: Mutex<Option<Box<(Window, History)>>>,
}

impl HealthCell {
    /// The verdict at `now`.
    pub fn health(&self, now: UnixMillis) -> Health {
        match self.spoken.load(Relaxed) {
            1 => Health::Up,
            2 => Health::Down,
            _ if self.probed.load(Relaxed) == 2 => Health::Down,
            _ if now.0 < self.suspect_until_ms.load(Relaxed) => Health::Suspect,
            _ => Health::Up,
        }
    }

    /// Notes the verdict of probes.
    pub fn probed(&self, up: bool, now: UnixMillis) {
        let code = if up { 1 } else { 2 };
        let before = self.probed.swap(code, Relaxed);
        if up {
            self.clear_failures();
        }
        // The first good probe confirms what was assumed.
        if before != code && !(before == 0 && up) {
            self.note_change(now);
        }
    }

    /// Shows the results of the last probes to those who ask.
    pub fn show_window(&self, window: &Window, history: &History) {
        let shown = Some(Box::new((window.clone(), history.clone())));
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// The results of the last probes; none where it is not probed.
    pub fn window(&self) -> Option<Window> {
        self.probes().map(|(window, _)| window)
    }

    /// The results of the last probes and the steps of them; none where it is not probed.
    pub fn probes(&self) -> Option<(Window, History)> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner).as_deref().cloned()
    }

    /// Notes an operator's word.
    pub fn set_override(&self, word: Override, now: UnixMillis) {
        let code = match word {
            Override::Auto => 0,
            Override::Up => 1,
            Override::Down => 2,
        };
        if self.spoken.swap(code, Relaxed) != code {
            self.note_change(now);
        }
    }

    /// Notes a connection that failed, or a request that was not answered in time.
    pub fn went_unanswered(&self, rule: PassiveRule, now: UnixMillis) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if rule.failures == 0 || failures < rule.failures {
            return;
        }
        let until = now.plus(rule.suspect_for).0;
        if self.suspect_until_ms.swap(until, Relaxed) <= now.0 {
            self.note_change(now);
        }
    }

    /// Notes that a request is about to be sent. Where the time of a suspicion is over and nothing was answered since,
    /// it is the one that tries: until it has its answer the others find the suspicion renewed. Otherwise all would
    /// go back to an origin at once that hangs as before.
    pub fn tries(&self, rule: PassiveRule, now: UnixMillis) {
        let until = self.suspect_until_ms.load(Relaxed);
        if until != 0 && until <= now.0 {
            let renewed = now.plus(rule.suspect_for).0;
            // Who was later has nothing to renew.
            let _ = self.suspect_until_ms.compare_exchange(until, renewed, Relaxed, Relaxed);
        }
    }

    /// Notes an answer.
    pub fn answered(&self, now: UnixMillis) {
        if self.failures.load(Relaxed) != 0 && self.clear_failures() > now.0 {
            self.note_change(now);
        }
    }

    /// Notes that it answered with 429, or with 503 and a time to come again, and what it said of that.
    pub fn asks_for_rest(&self, wait: Option<Duration>, now: UnixMillis) {
        let until = now.plus(wait.unwrap_or(REST_UNSAID).min(REST_MAX));
        self.rests_until_ms.store(until.0, Relaxed);
    }

    /// Whether it wants to be asked for less: for what somebody waits for, and nothing else.
    pub fn rests(&self, now: UnixMillis) -> bool {
        now.0 < self.rests_until_ms.load(Relaxed)
    }

    /// The operator's word in force.
    pub fn spoken(&self) -> Override {
        match self.spoken.load(Relaxed) {
            1 => Override::Up,
            2 => Override::Down,
            _ => Override::Auto,
        }
    }

    /// When the verdict last changed; 0 when it never did.
    pub fn changed(&self) -> UnixMillis {
        UnixMillis(self.changed_ms.load(Relaxed))
    }

    /// How often the verdict changed. The end of a suspicion by time alone is not counted.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn clear_failures(&self) -> u64 {
        self.failures.store(0, Relaxed);
        self.suspect_until_ms.swap(0, Relaxed)
    }

    fn note_change(&self, now: UnixMillis) {
        self.changed_ms.store(now.0, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }
}

/// The origins of one configuration with their health: what directors look at. Made anew when the
/// configuration changes; the origins that stay bring their health along.
#[derive(Clone, Debug, Default)]
pub struct HealthBoard {
    /// Sorted by id.
    origins: Box<[Arc<Origin>]>,
}

impl HealthBoard {
    /// A board of these origins; of two with one id the first stays.
    pub fn new(origins: impl IntoIterator<Item = Arc<Origin>>) -> Self {
        let mut origins: Vec<_> = origins.into_iter().collect();
        origins.sort_by_key(|origin| origin.id);
        origins.dedup_by_key(|origin| origin.id);
        Self { origins: origins.into() }
    }

    /// The origin of this id. O(log n).
    pub fn origin(&self, id: OriginId) -> Option<&Arc<Origin>> {
        let at = self.origins.binary_search_by_key(&id, |origin| origin.id).ok()?;
        self.origins.get(at)
    }

    /// All origins, by id.
    pub fn origins(&self) -> &[Arc<Origin>] {
        &self.origins
    }

    /// The view of a director at `now`. An origin not on the board is down.
    pub fn at(&self, now: UnixMillis) -> BoardView<'_> {
        BoardView { board: self, now }
    }
}

/// A [`HealthBoard`] at one moment.
#[derive(Clone, Copy, Debug)]
pub struct BoardView<'a> {
    board: &'a HealthBoard,
    now: UnixMillis,
}

impl View for BoardView<'_> {
    fn health(&self, origin: OriginId) -> Health {
        let cell = self.board.origin(origin).map(|origin| &origin.health);
        cell.map_or(Health::Down, |cell| cell.health(self.now))
    }

    fn in_flight(&self, origin: OriginId) -> u64 {
        self.board.origin(origin).map_or(0, |origin| origin.stats.in_flight.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_probe_decides() {
        assert_eq!(Window::new(8, 3).push(true), Some(Transition::WentUp));
        let mut window = Window::new(8, 3);
        assert_eq!(window.push(false), None);
        assert!(!window.is_up());
    }

    #[test]
    fn three_good_of_eight_keep_an_origin_up() {
        let mut window = Window::new(8, 3);
        for _ in 0..8 {
            window.push(true);
        }
        let changes: Vec<_> = (0..8).map(|_| window.push(false)).collect();
        assert_eq!(changes.iter().position(Option::is_some), Some(5));
        assert_eq!(changes[5], Some(Transition::WentDown));
        assert_eq!([window.push(true), window.push(true)], [None, None]);
        assert_eq!(window.push(true), Some(Transition::WentUp));
    }

    #[test]
    fn suspicion_comes_after_failures_in_a_row_and_ends_by_time_or_success() {
        let cell = HealthCell::default();
        let rule = PassiveRule::default();
        let [t0, later] = [UnixMillis(1_000), UnixMillis(11_000)];
        cell.went_unanswered(rule, t0);
        cell.went_unanswered(rule, t0);
        cell.answered(t0);
        cell.went_unanswered(rule, t0);
        cell.went_unanswered(rule, t0);
        assert_eq!(cell.health(t0), Health::Up);
        cell.went_unanswered(rule, t0);
        assert_eq!(cell.health(t0), Health::Suspect);
        assert_eq!((cell.changed(), cell.changes()), (t0, 1));
        assert_eq!(cell.health(later), Health::Up);
        // Still failing after the time: suspect again at once.
        cell.went_unanswered(rule, later);
        assert_eq!(cell.health(later), Health::Suspect);
        cell.answered(later);
        assert_eq!((cell.health(later), cell.changes()), (Health::Up, 3));
    }

    #[test]
    fn one_request_tries_an_origin_that_was_silent_and_the_others_go_past_it_meanwhile() {
        let (cell, rule) = (HealthCell::default(), PassiveRule::default());
        let [t0, later, last] = [1_000, 11_000, 21_000].map(UnixMillis);
        cell.tries(rule, t0);
        assert_eq!(cell.health(t0), Health::Up);
        (0..3).for_each(|_| cell.went_unanswered(rule, t0));
        // Who has nobody else to ask renews nothing.
        cell.tries(rule, t0);
        assert_eq!(cell.health(later), Health::Up);
        cell.tries(rule, later);
        assert_eq!(cell.health(later), Health::Suspect);
        // If it hangs, or its client has left, another one tries after as long again.
        assert_eq!(cell.health(last), Health::Up);
        cell.tries(rule, last);
        assert_eq!(cell.health(last), Health::Suspect);
        cell.answered(last);
        cell.tries(rule, last);
        assert_eq!(cell.health(last), Health::Up);
    }

    #[test]
    fn probes_go_before_failures_and_the_operator_before_both() {
        let cell = HealthCell::default();
        let now = UnixMillis(5);
        cell.probed(true, now);
        assert_eq!((cell.health(now), cell.changes()), (Health::Up, 0));
        cell.probed(false, now);
        assert_eq!((cell.health(now), cell.changed()), (Health::Down, now));
        cell.set_override(Override::Up, now);
        assert_eq!(cell.health(now), Health::Up);
        cell.set_override(Override::Auto, now);
        cell.probed(true, now);
        cell.set_override(Override::Down, now);
        assert_eq!((cell.health(now), cell.spoken()), (Health::Down, Override::Down));
    }

    proptest! {
        #[test]
        fn the_window_is_the_count_of_its_last_results(
            size in 1_u32..70, threshold in 1_u32..70, results in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            let mut window = Window::new(size, threshold);
            let size = size.min(WINDOW_MAX) as usize;
            let threshold = (threshold as usize).min(size);
            let mut all = vec![false; size - (threshold - 1)];
            all.resize(size, true);
            for result in results {
                let before = window.is_up();
                let change = window.push(result);
                all.push(result);
                let good = all[all.len() - size..].iter().filter(|good| **good).count();
                prop_assert_eq!(window.good() as usize, good);
                prop_assert_eq!(window.is_up(), good >= threshold);
                prop_assert_eq!(change.is_some(), before != window.is_up());
            }
        }
    }
}
