//! A month of a node with many drives, in virtual time: what is hit, what is written, what it takes of
//! memory, and how long a writer stands.
//!
//! Log, index, admission, what is kept, checkpoints and write budget are those of the store, with one writer for
//! each drive; above them is a small memory that evicts what was used least recently. Bodies are zeroes, of
//! which [`hollow`] keeps nothing. Drives are shorter than those they stand for and requests fewer, both by the
//! same factor. The long form is `bench/store/month`.

mod drive;
mod hollow;
mod traffic;

use super::world::{body, finish, key};
use crate::Common;
use crate::budget::{Seen, Use};
use crate::geometry::FormatOptions;
use crate::purges::{Mark, Target};
use crate::record::key_hash;
use drive::{BESIDE_GROWTH, DRIVE_WRITES, Drive};
use freshet_base::splitmix::mixed;
use freshet_store::Arena;
use freshet_store::Body;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use traffic::{ASKED_PER_DAY, BEGIN_MS, CATALOGUE, DAY_MS, Memory, NOW_US, Plan, now_us};

/// The drives of the node that is meant.
const REAL_DRIVE_BYTES: u64 = 4_000_000_000_000;
/// Bytes of memory for each of disk: 480 GB beside 96 TB.
const MEMORY_PART: f64 = 0.005;
/// Fingerprints of fetches that a node of this size remembers for each byte of its disks.
const SEEN_PER_BYTE: f64 = (1_u64 << 28) as f64 / (24.0 * REAL_DRIVE_BYTES as f64);
/// What must be written of a drive before the month begins.
const FILLED_PART: f64 = 0.95;

/// What came of a month.
#[derive(Debug, Default)]
struct Outcome {
    requests: u64,
    memory_hits: u64,
    disk_hits: u64,
    asked_bytes: u64,
    hit_bytes: u64,
    /// The most a drive was written in any 24 hours, in drive writes.
    day_max: f64,
    /// Drive writes a day, of all drives and days.
    day_mean: f64,
    /// Of what was written what was for the first time, and again.
    new_part: f64,
    again_part: f64,
    live_part: f64,
    /// Memory of the indexes for each record in them.
    index_bytes_per_record: f64,
    records: u64,
    segment_bytes: u64,
    checkpoints: u64,
    longest: BTreeMap<&'static str, Duration>,
}

struct Month {
    plan: Plan,
    common: Common,
    drives: Vec<Drive>,
    bodies: HashMap<u64, Arc<Body>>,
    arena: Arc<Arena>,
    memory: Memory,
    seen: Seen,
    outcome: Outcome,
}

impl Month {
    fn new(plan: Plan) -> Self {
        NOW_US.set(BEGIN_MS * 1000);
        let common = Common::new(now_us);
        let arena = Arena::new(64 << 20).expect("64 MiB");
        let of_length = |bytes: &u64| (*bytes, body(&arena, &vec![0; *bytes as usize]));
        Self {
            drives: (0..plan.drives).map(|_| Drive::new(&plan, &common)).collect(),
            bodies: plan.lengths.iter().map(of_length).collect(),
            memory: Memory::new((plan.bytes() as f64 * MEMORY_PART) as u64),
            seen: Seen::with_slots((plan.bytes() as f64 * SEEN_PER_BYTE) as u64),
            common,
            arena,
            plan,
            outcome: Outcome::default(),
        }
    }

    /// Fills the drives with what is in the catalogue, whatever its rank.
    fn fill(&mut self) {
        let names = CATALOGUE * self.plan.bytes() / self.plan.mean_bytes();
        for number in 0..names {
            let object = Plan::newest(mixed(number ^ 0xf1) % names);
            let drive = &mut self.drives[self.plan.home(object)];
            let filled = drive.device.written_bytes() as f64 / self.plan.drive_bytes as f64;
            if filled < FILLED_PART && !drive.opened.volume.may_have(key(object)) {
                drive.offer(object, Use::default(), &self.bodies[&self.plan.length(object)]);
            }
        }
        // Indexes grow while the drives are filled, and hardly after that.
        for drive in &mut self.drives {
            drive.longest.retain(|what, _| *what == BESIDE_GROWTH);
        }
    }

    fn request(&mut self, object: u64) {
        let bytes = self.plan.length(object);
        self.outcome.requests += 1;
        self.outcome.asked_bytes += bytes;
        let drive = &mut self.drives[self.plan.home(object)];
        drive.tend();
        let body = &self.bodies[&bytes];
        if let Some(hits) = self.memory.hits(object) {
            self.outcome.memory_hits += 1;
            self.outcome.hit_bytes += bytes;
            if !drive.opened.volume.may_have(key(object)) {
                drive.offer(object, Use { hits, was_seen: false }, body);
            }
            return;
        }
        self.memory.put(object, bytes);
        let volume = Arc::clone(&drive.opened.volume);
        let found = volume.may_have(key(object))
            && finish(volume.read_heads(key(object), false, &self.arena))
                .is_some_and(|found| found.is_ok_and(|found| !found.is_empty()));
        if found {
            self.outcome.disk_hits += 1;
            self.outcome.hit_bytes += bytes;
            return;
        }
        let was_seen = self.seen.note(key(object));
        drive.offer(object, Use { hits: 0, was_seen }, body);
    }

    /// The process ends: its memory goes, and so does what it saw.
    fn restart(&mut self, in_order: bool) {
        self.common = Common::new(now_us);
        self.memory = self.memory.emptied();
        self.seen = Seen::with_slots((self.plan.bytes() as f64 * SEEN_PER_BYTE) as u64);
        let common = &self.common;
        self.drives.iter_mut().for_each(|drive| drive.reopen(common, in_order));
    }

    fn run(mut self) -> Outcome {
        self.fill();
        let free: Vec<u64> = self.drives.iter().map(|drive| drive.device.written_bytes()).collect();
        let per_day = ASKED_PER_DAY * self.plan.bytes() / self.plan.mean_bytes();
        for number in 0..per_day * self.plan.days {
            let hour = number * 24 / per_day;
            let is_new_hour = number == 0 || hour != (number - 1) * 24 / per_day;
            NOW_US.set(BEGIN_MS * 1000 + number * DAY_MS / per_day * 1000);
            if is_new_hour {
                self.begin_hour(hour);
            }
            let chance = mixed(number ^ 0x5eed_0000_0000);
            self.request(self.plan.object(number, chance));
        }
        self.begin_hour(24 * self.plan.days);
        self.close(&free)
    }

    fn begin_hour(&mut self, hour: u64) {
        let target = Target::Key(key_hash(key(hour)));
        let mark = Mark { target, seq: self.common.next_seq(), soft: None };
        self.common.purges.note(mark);
        for drive in &mut self.drives {
            self.outcome.day_max = self.outcome.day_max.max(drive.note_hour());
            drive.next_purge = Some(mark);
        }
        // Twice in a month: a restart in order, and one that nobody had expected.
        if hour == 24 * self.plan.days / 3 || hour == 48 * self.plan.days / 3 {
            self.restart(hour == 24 * self.plan.days / 3);
        }
    }

    fn close(mut self, free: &[u64]) -> Outcome {
        let outcome = &mut self.outcome;
        let (mut written, mut new, mut again, mut live) = (0, 0, 0, 0);
        let (mut index, mut log_bytes) = (0, 0);
        for (drive, free) in self.drives.iter().zip(free) {
            let stats = drive.opened.volume.stats();
            written += drive.device.written_bytes() - free;
            new += stats.written.admitted_bytes;
            again += stats.written.reinserted_bytes;
            live += stats.live_bytes;
            index += stats.index_bytes;
            log_bytes += stats.log_bytes;
            outcome.segment_bytes = drive.opened.volume.geometry().segment_bytes;
            outcome.records += stats.entries;
            outcome.checkpoints += drive.opened.volume.counts.checkpoints.value();
            for (what, took) in &drive.longest {
                let longest = outcome.longest.entry(what).or_default();
                *longest = (*longest).max(*took);
            }
        }
        let part = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        outcome.day_mean = part(written, log_bytes) / self.plan.days as f64;
        outcome.new_part = part(new, new + again);
        outcome.again_part = part(again, new + again);
        outcome.live_part = part(live, log_bytes);
        outcome.index_bytes_per_record = part(index, outcome.records);
        self.outcome
    }
}

impl Outcome {
    fn print(&self, plan: &Plan) {
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let hit = percent(self.memory_hits + self.disk_hits, self.requests);
        let of_disk = percent(self.disk_hits, self.requests - self.memory_hits);
        let lengths: Vec<String> = plan.lengths.iter().map(u64::to_string).collect();
        println!(
            "{} drives of {} MB in segments of {} KB, {} days, objects of {} B: {} requests, {hit:.2} % hit \
             ({:.2} % of bytes; of what memory had not {of_disk:.2} %)",
            plan.drives,
            plan.drive_bytes >> 20,
            self.segment_bytes >> 10,
            plan.days,
            lengths.join(" and "),
            self.requests,
            percent(self.hit_bytes, self.asked_bytes),
        );
        println!(
            "  drive writes in any 24 h {:.4} at most, {:.4} on the average; written anew {:.0} %, again {:.0} %",
            self.day_max,
            self.day_mean,
            100.0 * self.new_part,
            100.0 * self.again_part,
        );
        let real = self.records as f64 / plan.bytes() as f64 * 24.0 * REAL_DRIVE_BYTES as f64;
        println!(
            "  {:.1} % of the logs live; {} records, {:.2} B of index each: {:.2} GB for 24 drives of 4 TB; \
             {} checkpoints",
            100.0 * self.live_part,
            self.records,
            self.index_bytes_per_record,
            real * self.index_bytes_per_record / 1e9,
            self.checkpoints,
        );
        let longest = self.longest.iter().map(|(what, took)| format!("{what} {took:.1?}"));
        println!("  longest: {}", longest.collect::<Vec<_>>().join(", "));
    }
}

/// The lengths that are asked for: pictures and parts of low bit rates, segments of video, both.
const MIXES: [&[u64]; 3] = [&[72_000], &[1_000_000], &[72_000, 1_000_000]];

/// The figures of `bench/store/month`: with drives of so many MB each, and of one drive with segments as
/// long as 4 TB have them.
fn long_form(megabytes: &str) {
    let options = FormatOptions::default();
    for lengths in MIXES {
        for megabytes in megabytes.split(',').map(|text| text.parse::<u64>().expect("a number")) {
            let plan =
                Plan { drives: 24, drive_bytes: megabytes << 20, lengths, days: 30, options };
            let outcome = Month::new(plan).run();
            outcome.print(&plan);
            outcome.judge(Duration::from_millis(10));
        }
        let options = FormatOptions { segment_bytes: Some(256 << 20), ..options };
        let plan = Plan { drives: 1, drive_bytes: 6 << 30, lengths, days: 30, options };
        let outcome = Month::new(plan).run();
        outcome.print(&plan);
        // Of so few segments each is a large part of what a day may write: that is not what it is for.
        assert!(outcome.day_max <= DRIVE_WRITES, "{outcome:?}");
    }
}

impl Outcome {
    /// `purge_max`: also a purge that came while a segment was freed has waited no longer, though the object
    /// before which it came may have taken more.
    fn judge(&self, purge_max: Duration) {
        assert!(self.day_max <= DRIVE_WRITES, "{self:?}");
        assert!(self.longest["purge"] < purge_max, "{self:?}");
        // Far more is asked for than may be written, so what may be is.
        assert!(self.day_mean > 0.7 * DRIVE_WRITES, "{self:?}");
        assert!(self.live_part > 0.8, "{self:?}");
        // Of a catalogue of four times the disks, in which popularity falls as it does here, the quarter that
        // is asked for most has 76 % of the requests; a tenth of all is asked for once, and a twentieth of the
        // catalogue is replaced each day.
        assert!(self.memory_hits + self.disk_hits > self.requests / 2, "{self:?}");
    }
}

#[test]
fn no_drive_of_24_is_worn_beyond_its_budget_on_any_day_of_a_month() {
    if let Ok(megabytes) = std::env::var("FRESHET_MONTH_DRIVE_MB") {
        return long_form(&megabytes);
    }
    let options = FormatOptions { record_bytes_max: Some(128 << 10), ..FormatOptions::default() };
    let plan = Plan { drives: 24, drive_bytes: 32 << 20, lengths: MIXES[0], days: 30, options };
    let outcome = Month::new(plan).run();
    outcome.print(&plan);
    outcome.judge(Duration::from_micros(2_500));
}
