//! Whether a disk has become slow, judged once a second from how long its reads take.
//!
//! A disk that slows answers every read, late. What its users see is compared with what is usual for
//! it and with what the disks beside it do in the same second. Three things look like it and are not:
//! a queue (the disk is asked for more than it can do), a processor with too much to do (answers lie
//! about before they are seen), and a hiccup. So a second counts as slow only where reads also end
//! more rarely than they do usually, and where a read made for the purpose, by a thread that waits for
//! nothing else, is late too; and one such second is not enough.
//!
//! What is usual is learned as a distribution, of the seconds in which the disk was written to and of the
//! others apart: its own writes may make a drive's reads take long. A second is late that takes many times
//! longer than usual, and longer than hardly a second of this disk does.
//!
//! Of a second the mean is watched rather than a quantile: two sums per disk, and slow reads outweigh the
//! others in it. Reads that do not end at all are noticed by [`super::health`].

use super::limits::HEDGE_AFTER;
use freshet_device::ReadTimes;
use std::time::{Duration, Instant};

/// How many times longer than usual, and than beside it, reads take on a slow disk.
const LATE_TIMES: f64 = 10.0;
/// Reads that take less than this are in time until what is usual is known: it is twice what a read of a
/// slow disk is waited for, and more than a queue on a working drive costs.
const LATE_MIN: Duration = Duration::from_millis(100);
/// Reads that take less than this are in time whatever is usual: a processor with other work costs that.
const LATE_LEAST: Duration = Duration::from_millis(3);
/// Seconds after which what is usual is known.
const KNOWN_SECONDS: f64 = 60.0;
/// How many standard deviations of the logarithm a late second is above the mean: one of a thousand
/// million is where they are distributed as logarithms of such seconds nearly are.
const DEVIATIONS: f64 = 6.0;
/// What is taken for usual at most, and while nothing is known: more than a drive with turning plates
/// needs. So a disk that was slow from the beginning is found out too.
const USUAL_MAX: Duration = Duration::from_millis(25);
/// How many times more rarely than usual reads end, while there are any, on a slow disk. On one that
/// is only asked for too much they end as often as ever.
const STEP_TIMES: f64 = 4.0;
/// Seconds over which what is usual is learned.
const USUAL_SECONDS: f64 = 600.0;
/// Slow seconds, less good ones, after which a disk is suspect.
const SLOW_SECONDS: u32 = 10;
/// Good seconds one after another after which a slow disk is not suspect any more.
const GOOD_SECONDS: u32 = 10;
/// The same for a disk that did not answer at all for a moment.
const GOOD_SECONDS_STALLED: u32 = 1;
/// Each time a disk becomes suspect again this soon after it was, twice as many are wanted.
const RELAPSE: Duration = Duration::from_secs(600);
/// Reads for the purpose, one after another, that all have to be late where that is less than
/// [`LATE_MIN`].
const PROBES: u32 = 3;
/// The most that are wanted.
const GOOD_SECONDS_MAX: u32 = 320;

/// A second of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    /// Reads that ended in it.
    pub(super) reads: ReadTimes,
    /// Whether much was written.
    pub(super) is_written: bool,
    /// How long reads took of the disks beside it, in microseconds.
    pub(super) peers_us: Option<f64>,
}

/// What is usual for a disk.
#[derive(Clone, Copy, Debug)]
struct Usual {
    /// How long a read takes.
    read_us: f64,
    /// The time between the ends of two reads while there are any.
    step_us: f64,
    /// Mean and variance of the logarithm of how many microseconds a read takes.
    log: f64,
    log_variance: f64,
    /// Seconds it was learned from, as far as they count.
    seconds: f64,
}

impl Usual {
    const fn new() -> Self {
        let us = USUAL_MAX.as_micros() as f64;
        Self { read_us: us, step_us: us, log: 0.0, log_variance: 0.0, seconds: 0.0 }
    }

    fn learn(&mut self, mean_us: f64, step_us: f64) {
        self.seconds = (self.seconds + 1.0).min(USUAL_SECONDS);
        self.read_us += (mean_us - self.read_us) / self.seconds;
        self.step_us += (step_us - self.step_us) / self.seconds;
        let off = mean_us.max(1.0).ln() - self.log;
        self.log += off / self.seconds;
        let squared = off * (mean_us.max(1.0).ln() - self.log);
        self.log_variance += (squared - self.log_variance) / self.seconds;
    }

    /// How long a read may take on the average, where disks beside this one take `peers_us`.
    fn limit(&self, peers_us: Option<f64>) -> Duration {
        let usual = self.read_us.min(micros(USUAL_MAX)).max(peers_us.unwrap_or(0.0));
        let rare = (self.log + DEVIATIONS * self.log_variance.max(0.0).sqrt()).exp();
        let rare = Duration::from_micros(rare.min(1e9) as u64).clamp(LATE_LEAST, LATE_MIN);
        let least = if self.seconds < KNOWN_SECONDS { LATE_MIN } else { rare };
        Duration::from_micros((usual * LATE_TIMES) as u64).max(least)
    }
}

/// What is known of a disk's speed.
#[derive(Debug)]
pub(super) struct Pace {
    /// In seconds without writes, and with them.
    usual: [Usual; 2],
    slow_seconds: u32,
    suspicion: Option<Suspicion>,
    /// When the last suspicion ended, and how many good seconds it took.
    last: Option<(Instant, u32)>,
}

#[derive(Debug)]
struct Suspicion {
    why: String,
    wanted: u32,
    good: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { usual: [Usual::new(); 2], slow_seconds: 0, suspicion: None, last: None }
    }

    /// Why the disk is suspect, while it is.
    pub(super) fn suspicion(&self) -> Option<&str> {
        self.suspicion.as_ref().map(|suspicion| suspicion.why.as_str())
    }

    /// How long a read of the disk is waited for while it is suspect: what is hardly ever longer where it is as usual.
    pub(super) fn hedge_after(&self) -> Duration {
        self.usual[0].limit(None).min(HEDGE_AFTER)
    }

    /// Judges a second by its reads, and by a probe where these are late or the disk is suspect. A
    /// second without reads says nothing of a disk that is not.
    pub(super) fn judge(
        &mut self,
        second: Second,
        now: Instant,
        mut probe: impl FnMut() -> Option<Duration>,
    ) {
        let is_late = self.is_late(second);
        if second.reads.count == 0 && self.suspicion.is_none() {
            return;
        }
        let limit = self.usual[usize::from(second.is_written)].limit(second.peers_us);
        let mut slow = None;
        if is_late || self.suspicion.is_some() {
            // A processor with other work makes one of them late, and hardly all.
            for _ in 0..PROBES {
                slow = probe().filter(|took| *took > limit);
                if slow.is_none() || limit >= LATE_MIN {
                    break;
                }
            }
        }
        self.note(slow, second, now);
    }

    /// Whether reads are late; learns from them where they are as usual.
    fn is_late(&mut self, second: Second) -> bool {
        let Some(mean_us) = second.reads.mean_us() else { return false };
        let step_us = mean_us.min(1e6 / second.reads.count as f64);
        let usual = &mut self.usual[usize::from(second.is_written)];
        if mean_us > micros(usual.limit(None)) {
            return mean_us > micros(usual.limit(second.peers_us))
                && step_us > usual.step_us.min(micros(USUAL_MAX)) * STEP_TIMES;
        }
        usual.learn(mean_us, step_us);
        false
    }

    /// Takes note of a second: that reads were late and so was the probe, or that one of them was
    /// not.
    fn note(&mut self, slow: Option<Duration>, second: Second, now: Instant) {
        self.slow_seconds = match slow {
            Some(_) => (self.slow_seconds + 1).min(SLOW_SECONDS),
            None => self.slow_seconds.saturating_sub(1),
        };
        match (&mut self.suspicion, slow) {
            (Some(suspicion), Some(_)) => suspicion.good = 0,
            (Some(suspicion), None) => {
                suspicion.good += 1;
                if suspicion.good >= suspicion.wanted {
                    self.last = Some((now, suspicion.wanted));
                    self.suspicion = None;
                    self.slow_seconds = 0;
                }
            }
            (None, Some(took)) if self.slow_seconds >= SLOW_SECONDS => {
                let why = format!(
                    "it is slow: a read took {} ms, {:.1} ms are usual",
                    took.as_millis(),
                    self.usual[usize::from(second.is_written)].read_us / 1e3
                );
                self.suspect(why, GOOD_SECONDS, now);
            }
            (None, _) => {}
        }
    }

    /// Takes note that the disk has had work for a while and has finished none.
    pub(super) fn note_stall(&mut self, now: Instant) {
        match &mut self.suspicion {
            Some(suspicion) => suspicion.good = 0,
            None => self.suspect("it does not answer".into(), GOOD_SECONDS_STALLED, now),
        }
    }

    fn suspect(&mut self, why: String, good_seconds: u32, now: Instant) {
        let again = self.last.filter(|(ended, _)| now.duration_since(*ended) < RELAPSE);
        let wanted =
            again.map_or(0, |(_, before)| before * 2).clamp(good_seconds, GOOD_SECONDS_MAX);
        self.suspicion = Some(Suspicion { why, wanted, good: 0 });
    }
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is watched, in a time of its own.
    struct Watched {
        pace: Pace,
        now: Instant,
        is_written: bool,
    }

    impl Watched {
        fn new() -> Self {
            Self { pace: Pace::new(), now: Instant::now(), is_written: false }
        }

        /// Lets seconds pass in which so many reads took so long, and probes as well; whether the
        /// disk was suspect at each end.
        fn pass(&mut self, seconds: u64, count: u64, read_ms: f64, probe_ms: u64) -> Vec<bool> {
            self.pass_beside(seconds, (count, read_ms), probe_ms, None)
        }

        fn pass_beside(
            &mut self,
            seconds: u64,
            (count, read_ms): (u64, f64),
            probe_ms: u64,
            peers_us: Option<f64>,
        ) -> Vec<bool> {
            let reads = ReadTimes { count, total_us: (count as f64 * read_ms * 1e3) as u64 };
            (0..seconds)
                .map(|_| {
                    self.now += Duration::from_secs(1);
                    let probe = || Some(Duration::from_millis(probe_ms));
                    let is_written = self.is_written;
                    self.pace.judge(Second { reads, is_written, peers_us }, self.now, probe);
                    self.pace.suspicion().is_some()
                })
                .collect()
        }

        fn is_suspect_after(&mut self, seconds: u64, count: u64, read_ms: f64) -> bool {
            self.pass(seconds, count, read_ms, read_ms as u64).last() == Some(&true)
        }
    }

    #[test]
    fn a_disk_whose_reads_take_200_ms_is_suspect_after_ten_seconds() {
        // Of all loads: an idle node's, a steady one, and one that waits for its answers.
        for (before, after) in [(1, 1), (50, 50), (4000, 20)] {
            let mut disk = Watched::new();
            assert!(!disk.is_suspect_after(60, before, 0.8));
            let states = disk.pass(15, after, 200.0, 200);
            let first = states.iter().position(|is_suspect| *is_suspect);
            assert_eq!(first, Some(9), "{before} reads a second: {states:?}");
            assert!(disk.pace.suspicion().is_some_and(|why| why.contains("0.8 ms are usual")));
        }
    }

    /// As its users see it: 60 times is much, whether or not it is 100 ms.
    #[test]
    fn a_disk_sixty_times_slower_than_usual_is_suspect_after_ten_seconds() {
        for (usual_ms, count) in [(0.1, 500), (0.3, 500), (0.8, 100), (1.5, 50)] {
            let mut disk = Watched::new();
            assert!(!disk.is_suspect_after(90, count, usual_ms));
            let slow_ms = usual_ms * 60.0;
            let states = disk.pass(15, count / 10, slow_ms, slow_ms as u64);
            let first = states.iter().position(|is_suspect| *is_suspect);
            assert_eq!(first, Some(9), "{usual_ms} ms: {states:?}");
            let hedge_after = disk.pace.hedge_after();
            assert!(hedge_after.as_secs_f64() * 1e3 < slow_ms, "{usual_ms} ms: {hedge_after:?}");
            let states = disk.pass(12, count, usual_ms, 0);
            assert_eq!(states.iter().position(|is_suspect| !is_suspect), Some(9));
        }
    }

    /// What a drive does now and then is usual for it: no fixed number of milliseconds says that.
    #[test]
    fn a_disk_is_judged_by_its_own_distribution() {
        let mut disk = Watched::new();
        for round in 0..60 {
            let ms = [0.2, 0.4, 8.0, 0.3, 2.0][round % 5];
            assert!(!disk.is_suspect_after(2, 100, ms));
        }
        assert!(!disk.is_suspect_after(60, 10, 12.0), "it takes 8 ms one second in five");
        assert!(disk.is_suspect_after(15, 2, 110.0));
    }

    /// Its own writes make reads of a drive late, and that is no reason to write nothing.
    #[test]
    fn a_disk_that_is_slow_while_it_is_written_to_is_not_suspect() {
        let mut disk = Watched::new();
        assert!(!disk.is_suspect_after(90, 500, 0.2));
        disk.is_written = true;
        assert!(!disk.is_suspect_after(120, 40, 15.0), "nothing is known of such seconds yet");
        disk.is_written = false;
        assert!(!disk.is_suspect_after(30, 500, 0.2));
        disk.is_written = true;
        assert!(!disk.is_suspect_after(60, 40, 15.0), "this is usual");
        assert!(disk.is_suspect_after(15, 1, 900.0));
    }

    #[test]
    fn a_disk_that_is_hardly_read_is_judged_by_what_is() {
        let mut disk = Watched::new();
        disk.pass(60, 1, 0.8, 1);
        for _ in 0..12 {
            disk.pass(3, 0, 0.0, 200);
            disk.pass(1, 1, 200.0, 200);
        }
        assert!(disk.pace.suspicion().is_some());
    }

    #[test]
    fn a_disk_that_was_slow_from_the_beginning_is_suspect_too() {
        assert!(Watched::new().is_suspect_after(15, 5, 400.0));
    }

    #[test]
    fn a_queue_is_not_slowness() {
        let mut disk = Watched::new();
        for reads in [100, 500, 1000, 2000] {
            assert!(!disk.is_suspect_after(30, reads, 0.5));
        }
        // Asked for more than it can do: as many reads as ever end, each after all before it.
        assert!(!disk.is_suspect_after(60, 2000, 250.0));
        // A drive with turning plates, and too many readers.
        let mut disk = Watched::new();
        assert!(!disk.is_suspect_after(60, 30, 12.0));
        assert!(!disk.is_suspect_after(60, 80, 400.0));
    }

    #[test]
    fn reads_that_only_look_slow_to_their_users_are_not_the_disks_fault() {
        let mut disk = Watched::new();
        disk.pass(60, 500, 0.5, 1);
        assert!(!disk.pass(60, 20, 300.0, 2).contains(&true), "the probe was in time");
    }

    #[test]
    fn a_hiccup_is_forgiven() {
        let mut disk = Watched::new();
        disk.pass(60, 500, 0.5, 1);
        for _ in 0..20 {
            let hiccup = disk.pass(4, 10, 500.0, 500);
            let calm = disk.pass(6, 500, 0.5, 1);
            assert!(!hiccup.contains(&true) && !calm.contains(&true));
        }
    }

    #[test]
    fn what_is_slow_everywhere_is_no_disks_fault() {
        let mut disk = Watched::new();
        disk.pass_beside(60, (100, 0.5), 1, Some(500.0));
        assert!(!disk.pass_beside(60, (10, 200.0), 200, Some(150_000.0)).contains(&true));
        assert!(disk.pass_beside(60, (10, 200.0), 200, Some(600.0)).contains(&true));
    }

    #[test]
    fn a_disk_comes_back_once_its_probes_are_good_and_does_not_flap() {
        let mut disk = Watched::new();
        disk.pass(60, 500, 0.5, 1);
        assert!(disk.is_suspect_after(11, 20, 200.0));
        // Nobody reads from it: probes decide.
        assert!(disk.pass(30, 0, 0.0, 200).iter().all(|is_suspect| *is_suspect));
        let states = disk.pass(12, 0, 0.0, 1);
        assert_eq!(states.iter().position(|is_suspect| !is_suspect), Some(9));
        // Ten seconds good, ten seconds slow, for an hour.
        let mut changes = 0;
        let mut before = false;
        for round in 0..180 {
            let (count, ms) = if round % 2 == 0 { (20, 200.0) } else { (500, 0.5) };
            for is_suspect in disk.pass(10, count, ms, ms as u64) {
                changes += u32::from(is_suspect != before);
                before = is_suspect;
            }
        }
        assert!(before && changes <= 3, "{changes}");
    }

    #[test]
    fn a_moment_without_an_answer_costs_a_good_second() {
        let mut disk = Watched::new();
        disk.pace.note_stall(disk.now);
        assert_eq!(disk.pace.suspicion(), Some("it does not answer"));
        assert_eq!(disk.pass(2, 10, 1.0, 1), [false, false]);
        disk.pace.note_stall(disk.now);
        assert_eq!(disk.pass(2, 10, 1.0, 1), [true, false], "twice as long the next time");
    }
}
