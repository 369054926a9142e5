//! A node of the world: a member, a small cache and a clock of its own.

use freshet_fleet::{Entry, Fence, Member, Place, Settings};
use std::collections::VecDeque;

/// What an entry of this world purges: a key, and which purge that is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Purge {
    pub(crate) key: u32,
    pub(crate) number: u32,
}

pub(crate) type Pushed = Entry<Purge>;

/// Places a node remembers that it has been at, to compare with what other nodes say.
const HISTORY_MAX: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    /// The number of the last purge before its fetch began.
    pub(crate) born: u64,
    pub(crate) is_on_disk: bool,
}

pub(crate) struct Node {
    pub(crate) member: Member<Purge>,
    pub(crate) is_alive: bool,
    /// Counts lives: what was under way in another is nothing to this one.
    pub(crate) life: u64,
    /// When its clock was 0, and how fast it goes, in millionths.
    clock: (u64, u64),
    pub(crate) fence: Fence,
    /// By key, as all that is below.
    pub(crate) stored: Vec<Option<Stored>>,
    /// Own order of purges and beginnings of fetches.
    pub(crate) order: u64,
    purged: Vec<u64>,
    /// What was stored before is not used without being validated.
    trusted_from: u64,
    /// What its disks say.
    pub(crate) on_disk: Option<Place>,
    history: VecDeque<Place>,
    /// What it is carrying out: gone from memory, and not from its disks yet.
    begun: Option<Place>,
    /// Whether it has said that it carried a purge out, by its number.
    confirmed: Vec<bool>,
    /// Carried out, and not confirmed.
    pub(crate) done: Vec<(u64, u32)>,
    /// How often it has said how far it is.
    pub(crate) said: u64,
    /// The wake-up that counts, and when it is, if there is one.
    pub(crate) wake: u64,
    pub(crate) wake_ms: Option<u64>,
    pub(crate) parent: Option<usize>,
    pub(crate) leaf: usize,
    pub(crate) is_cut_off: bool,
    pub(crate) has_origin: bool,
}

impl Node {
    pub(crate) fn new(clock: (u64, u64), parent: Option<usize>, leaf: usize, keys: usize) -> Self {
        Self {
            member: Member::new(Settings::default(), None, clock.0),
            is_alive: true,
            life: 0,
            clock,
            fence: Fence::Raised,
            stored: vec![None; keys],
            order: 1,
            purged: vec![0; keys],
            trusted_from: 0,
            on_disk: None,
            history: VecDeque::new(),
            begun: None,
            confirmed: Vec::new(),
            done: Vec::new(),
            said: 0,
            wake: 0,
            wake_ms: Some(0),
            parent,
            leaf,
            is_cut_off: false,
            has_origin: true,
        }
    }

    /// Its own time at the world's.
    pub(crate) fn local_ms(&self, now_ms: u64) -> u64 {
        self.clock.0 + now_ms * self.clock.1 / 1_000_000
    }

    /// The world's time when its own is `local_ms`, or just after.
    pub(crate) fn world_ms(&self, local_ms: u64) -> u64 {
        (local_ms.saturating_sub(self.clock.0) * 1_000_000).div_ceil(self.clock.1)
    }

    pub(crate) fn carry_out(&mut self, purge: Purge, place: Place) {
        self.begun = Some(place);
        self.order += 1;
        self.stored[purge.key as usize] = None;
        self.purged[purge.key as usize] = self.order;
    }

    /// Keeps what a fetch brought, unless it was purged meanwhile.
    pub(crate) fn keep(&mut self, key: u32, stored: Stored) {
        if self.purged[key as usize] <= stored.born {
            self.stored[key as usize] = Some(stored);
        }
    }

    /// It has said that it carried this purge out.
    pub(crate) fn confirm(&mut self, purge: u32) {
        let purge = purge as usize;
        self.confirmed.resize(self.confirmed.len().max(purge + 1), false);
        self.confirmed[purge] = true;
    }

    pub(crate) fn has_confirmed(&self, purge: u32) -> bool {
        self.confirmed.get(purge as usize).copied().unwrap_or_default()
    }

    /// What may be answered with as it is.
    pub(crate) fn usable(&self, key: u32) -> Option<Stored> {
        let stored = self.stored[key as usize]?;
        let may = self.fence == Fence::Lifted && stored.born >= self.trusted_from;
        may.then_some(stored)
    }

    pub(crate) fn distrust(&mut self, at: Place) {
        self.order += 1;
        self.trusted_from = self.order;
        self.history.clear();
        self.been(at);
    }

    pub(crate) fn been(&mut self, at: Place) {
        self.begun.take_if(|begun| *begun == at);
        self.history.push_back(at);
        if self.history.len() > HISTORY_MAX {
            self.history.pop_front();
        }
    }

    /// Whether it has carried out all that a node at `place` has.
    pub(crate) fn covers(&self, place: Place) -> bool {
        self.history.contains(&place)
    }

    /// How far it says to its parent that it is.
    pub(crate) fn place(&self) -> Option<Place> {
        self.begun.or_else(|| self.history.back().copied())
    }

    /// Ends. What is on its disks stays, with what they know of the log, unless `forgets`.
    pub(crate) fn crash(&mut self, forgets: bool) {
        self.is_alive = false;
        self.life += 1;
        for stored in &mut self.stored {
            *stored = stored.filter(|stored| stored.is_on_disk);
        }
        if forgets {
            self.on_disk = None;
        }
    }

    pub(crate) fn restart(&mut self, now_ms: u64) {
        self.is_alive = true;
        self.life += 1;
        self.fence = Fence::Raised;
        self.member = Member::new(Settings::default(), self.on_disk, self.local_ms(now_ms));
        self.history.clear();
        self.begun = None;
        self.done.clear();
        // A fetch begins behind all purges of the life before.
        self.order += 1;
        if let Some(at) = self.on_disk {
            self.been(at);
        }
    }
}
