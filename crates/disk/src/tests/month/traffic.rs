//! What clients ask for in a month, and what memory has of it.

use crate::geometry::FormatOptions;
use freshet_base::splitmix::mixed;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

const HOUR_MS: u64 = 3_600_000;
pub(super) const DAY_MS: u64 = 24 * HOUR_MS;
/// When the month begins, Unix milliseconds.
pub(super) const BEGIN_MS: u64 = 1_800_000_000_000;
/// What clients ask for in a day, in bytes of all drives: 44 Gbit/s, day and night, from 24 of 4 TB.
pub(super) const ASKED_PER_DAY: u64 = 5;
/// All that is asked for again and again, in bytes of all drives.
pub(super) const CATALOGUE: u64 = 4;
/// How long something of the catalogue is asked for before something else takes its place.
const LIFE_MS: u64 = 20 * DAY_MS;
/// Of so many requests one is for what nobody else asks for.
const ONCE_IN: u64 = 10;

thread_local! {
    pub(super) static NOW_US: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn now_us() -> u64 {
    NOW_US.get()
}

pub(super) fn now_ms() -> u64 {
    now_us() / 1000
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) drives: u64,
    pub(super) drive_bytes: u64,
    /// Lengths of objects, as many bytes are asked for of each.
    pub(super) lengths: &'static [u64],
    pub(super) days: u64,
    pub(super) options: FormatOptions,
}

impl Plan {
    pub(super) fn bytes(&self) -> u64 {
        self.drives * self.drive_bytes
    }

    pub(super) fn length(&self, object: u64) -> u64 {
        // Of two lengths the shorter has as many more objects.
        match *self.lengths {
            [short, long] if mixed(object ^ 0x1e) % (short + long) < short => long,
            [short, ..] => short,
            [] => 1,
        }
    }

    pub(super) fn mean_bytes(&self) -> u64 {
        match *self.lengths {
            [short, long] => 2 * short * long / (short + long),
            [one, ..] => one,
            [] => 1,
        }
    }

    /// What is asked for: something of a catalogue in which popularity falls with rank to the power of
    /// 0.8, or what nobody else asks for.
    pub(super) fn object(&self, number: u64, chance: u64) -> u64 {
        if mixed(chance ^ 0x0c).is_multiple_of(ONCE_IN) {
            return (1 << 62) | number;
        }
        let names = (CATALOGUE * self.bytes() / self.mean_bytes()) as f64;
        let unit = (chance >> 11) as f64 / (1_u64 << 53) as f64;
        Self::newest((names * unit.powi(5)) as u64)
    }

    /// The drive an object is at home on: with drives of one length each has as many.
    pub(super) fn home(&self, object: u64) -> usize {
        (mixed(object ^ 0xd1) % self.drives) as usize
    }

    /// What has this rank now.
    pub(super) fn newest(rank: u64) -> u64 {
        let began_ms = mixed(rank) % LIFE_MS;
        (rank << 16) | ((now_ms() - BEGIN_MS + LIFE_MS + began_ms) / LIFE_MS)
    }
}

/// Memory that evicts what was used least recently.
#[derive(Default)]
pub(super) struct Memory {
    room_bytes: u64,
    used_bytes: u64,
    tick: u64,
    /// When each was used last, how often since it came, and its length.
    objects: HashMap<u64, (u64, u64, u64)>,
    order: BTreeMap<u64, u64>,
}

impl Memory {
    pub(super) fn new(room_bytes: u64) -> Self {
        Self { room_bytes, ..Self::default() }
    }

    /// The same with nothing in it.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.room_bytes)
    }

    /// How often it has served the object now; `None` where it had not.
    pub(super) fn hits(&mut self, object: u64) -> Option<u64> {
        let (last, hits, _) = self.objects.get_mut(&object)?;
        self.tick += 1;
        self.order.remove(last);
        self.order.insert(self.tick, object);
        *last = self.tick;
        *hits += 1;
        Some(*hits)
    }

    pub(super) fn put(&mut self, object: u64, bytes: u64) {
        self.tick += 1;
        self.used_bytes += bytes;
        self.objects.insert(object, (self.tick, 0, bytes));
        self.order.insert(self.tick, object);
        while self.used_bytes > self.room_bytes {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            let (_, _, bytes) = self.objects.remove(&oldest).expect("both know it");
            self.used_bytes -= bytes;
        }
    }
}
