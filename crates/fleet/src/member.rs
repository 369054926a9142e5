//! One node's side of the log: what it has carried out, what it lacks, and whether it may answer from
//! what it has stored.

use crate::entry::{Entry, Place};
use crate::limits::{AHEAD_MAX, APPLYING_MAX, ASKED_MAX};
use std::collections::{BTreeMap, VecDeque};

/// How a member keeps its lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// How long a node may answer from what it has stored after it asked the log, and the log said
    /// that the node had carried out all. All nodes and all who wait for them have the same.
    pub lease_ms: u64,
    /// Time between two questions. Some of them fit a lease, so that a lost one costs nothing.
    pub ask_every_ms: u64,
    /// How long before its end a lease counts as over: whoever acts on that needs a moment.
    pub margin_ms: u64,
    /// How long entries that the log has may be under way before they are read.
    pub grace_ms: u64,
    /// How long a reading may take before it is begun again.
    pub read_within_ms: u64,
}

impl Default for Settings {
    /// A lease of 5 s, which is what a fleet promises, and a question each second.
    fn default() -> Self {
        Self {
            lease_ms: 5_000,
            ask_every_ms: 1_000,
            margin_ms: 500,
            grace_ms: 100,
            read_within_ms: 2_000,
        }
    }
}

/// Whether a node may answer from what it has stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fence {
    /// It may: it has carried out all that the log had when the node last asked.
    Lifted,
    /// It may not, without asking upward first: there may be purges it has not heard of.
    Raised,
}

/// What the log says when it is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The first entry it still has; one more than the last where it has none.
    pub first: u64,
    /// The last it has had.
    pub last: Place,
    /// How long before it said so most of its servers had last been with it, in ms. Since then others may have more: who
    /// leads them and is cut off from them takes itself for the leader yet.
    pub heard_ms: u64,
}

/// What a node or its connection is to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action<C> {
    /// Ask the log where it begins and ends, and give its answer to [`Member::answered`].
    Ask {
        /// Comes with the answer.
        question: u64,
    },
    /// Read up to [`READ_MAX`](crate::limits::READ_MAX) entries from this one on, and give them to [`Member::read`].
    Read {
        /// The first.
        from: u64,
        /// Comes with what is read.
        reading: u64,
    },
    /// Carry out an entry, and say so by [`Member::applied`]. Entries come in the log's order.
    Apply {
        /// The entry.
        entry: Entry<C>,
        /// Comes with the word that it is done.
        turn: u64,
    },
    /// From now on, the fence is so.
    Fence(Fence),
    /// The history of the log is not known to be the one that was carried out here: nothing stored
    /// until now is used without having been validated once. The node counts as being at this place.
    Distrust {
        /// Behind which it goes on.
        at: Place,
        /// Whether the log has lost entries that it had accepted. People should hear of that.
        has_lost: bool,
        /// Comes with the word that it is done ([`Member::applied`]): in its turn among entries.
        turn: u64,
    },
    /// All up to here is carried out, for those who wait.
    Confirm(Place),
}

/// One node's side of the log.
#[derive(Clone, Debug)]
pub struct Member<C> {
    settings: Settings,
    /// Behind the last entry that was given to the node; `None` where the history is in doubt.
    given: Option<Place>,
    /// Behind the last that it has carried out.
    applied: Option<Place>,
    /// Given, and not carried out yet.
    applying: VecDeque<(u64, Place)>,
    next_turn: u64,
    /// Came before their turn.
    ahead: BTreeMap<u64, Entry<C>>,
    asked: VecDeque<Asked>,
    next_question: u64,
    next_ask_ms: u64,
    /// Ends the log had, and until when a lease is once all of it is carried out.
    ends: VecDeque<(u64, u64)>,
    reading: Option<Reading>,
    next_reading: u64,
    /// Since when entries are known to be missing.
    missing_since_ms: Option<u64>,
    /// The last entry the log is known to have.
    last_known: u64,
    lease_until_ms: u64,
    fence: Fence,
    has_lost: bool,
    actions: VecDeque<Action<C>>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    question: u64,
    at_ms: u64,
    /// Where the node was in the log by then: an end before that is a loss.
    given: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    number: u64,
    begun_ms: u64,
}

impl<C: Clone> Member<C> {
    /// A member that has carried out all up to `restored`, as its disks say; `None` where they say
    /// nothing, or there are none. The fence is raised until the log has said more.
    pub fn new(settings: Settings, restored: Option<Place>, now_ms: u64) -> Self {
        Self {
            settings,
            given: restored,
            applied: restored,
            applying: VecDeque::new(),
            next_turn: 0,
            ahead: BTreeMap::new(),
            asked: VecDeque::new(),
            next_question: 0,
            next_ask_ms: now_ms,
            ends: VecDeque::new(),
            reading: None,
            next_reading: 0,
            missing_since_ms: None,
            last_known: 0,
            lease_until_ms: 0,
            fence: Fence::Raised,
            has_lost: false,
            actions: VecDeque::from([Action::Fence(Fence::Raised)]),
        }
    }

    /// An entry was pushed: in any order, late, twice or never.
    pub fn pushed(&mut self, entry: Entry<C>, now_ms: u64) {
        self.last_known = self.last_known.max(entry.place.sequence);
        self.take(entry);
        self.look_for_missing(now_ms);
    }

    /// The log has answered a question. Late answers and those to no question do nothing.
    pub fn answered(&mut self, question: u64, answer: Answer, now_ms: u64) {
        let Some(index) = self.asked.iter().position(|asked| asked.question == question) else {
            return;
        };
        let asked = self.asked[index];
        // Those before it say less.
        self.asked.drain(..=index);
        let last = answer.last;
        match (asked.given, self.given) {
            (None, _) | (_, None) => self.distrust(last),
            // It ended here, and was another log.
            (Some(then), _) if last.sequence == then.sequence && last.digest != then.digest => {
                self.has_lost = true;
                self.distrust(last);
            }
            // It had more when the node asked.
            (Some(then), _) if last.sequence < then.sequence => {
                self.has_lost = true;
                self.distrust(last);
            }
            // It has forgotten what the node lacks.
            (_, Some(given)) if answer.first > given.sequence + 1 => self.distrust(last),
            _ => {}
        }
        // What it had and the node never got may be lost as well.
        self.ends.retain(|(end, _)| *end <= last.sequence);
        let ahead = self.ahead.last_key_value().map_or(0, |(sequence, _)| *sequence);
        let given = self.given.map_or(0, |given| given.sequence);
        self.last_known = last.sequence.max(ahead).max(given);
        let until_ms = (asked.at_ms + self.settings.lease_ms).saturating_sub(answer.heard_ms);
        self.ends.push_back((last.sequence, until_ms));
        if self.ends.len() > ASKED_MAX {
            // The latest promise most, and the first is what is nearest: one between goes.
            self.ends.remove(1);
        }
        self.renew(now_ms);
        self.look_for_missing(now_ms);
    }

    /// What was read of the log: entries one behind the other, none where it has none there.
    pub fn read(&mut self, reading: u64, entries: Vec<Entry<C>>, now_ms: u64) {
        if self.reading.is_none_or(|known| known.number != reading) {
            return;
        }
        self.reading = None;
        let had = self.given;
        let is_empty = entries.is_empty();
        for entry in entries {
            self.last_known = self.last_known.max(entry.place.sequence);
            self.take(entry);
        }
        // A log that gives nothing is asked again before it is read again.
        if self.given == had || is_empty {
            self.missing_since_ms = Some(now_ms);
        }
        self.look_for_missing(now_ms);
    }

    /// The node has carried out what [`Action::Apply`] or [`Action::Distrust`] of this turn was for, and all
    /// before it.
    pub fn applied(&mut self, turn: u64, now_ms: u64) {
        let mut last = None;
        while let Some((_, place)) = self.applying.pop_front_if(|(known, _)| *known <= turn) {
            last = Some(place);
        }
        let Some(last) = last else { return };
        self.applied = Some(last);
        self.actions.push_back(Action::Confirm(last));
        self.give();
        self.renew(now_ms);
        self.look_for_missing(now_ms);
    }

    /// What is due at `now_ms`. To be called at [`Member::deadline_ms`], or any time.
    pub fn tick(&mut self, now_ms: u64) {
        if now_ms >= self.next_ask_ms {
            self.ask(now_ms);
        }
        let overdue = |reading: Reading| {
            now_ms.saturating_sub(reading.begun_ms) >= self.settings.read_within_ms
        };
        if self.reading.is_some_and(overdue) {
            self.reading = None;
        }
        self.look_for_missing(now_ms);
        self.renew(now_ms);
    }

    /// What is to be done next; `None` for nothing at the moment.
    pub fn next_action(&mut self) -> Option<Action<C>> {
        self.actions.pop_front()
    }

    /// When [`Member::tick`] is due.
    pub fn deadline_ms(&self) -> u64 {
        let lease = (self.fence == Fence::Lifted).then(|| self.fenced_from_ms());
        let reading = self.reading.map(|reading| reading.begun_ms + self.settings.read_within_ms);
        let missing = self.missing_since_ms.filter(|_| self.reading.is_none() && self.has_room());
        let missing = missing.map(|since| since + self.settings.grace_ms);
        [lease, reading, missing].into_iter().flatten().fold(self.next_ask_ms, u64::min)
    }

    /// How far the node has carried the log out; `None` where its history is in doubt.
    pub fn place(&self) -> Option<Place> {
        self.applied.filter(|_| self.given.is_some())
    }

    /// Whether the node may answer from what it has stored.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the node may still do so if nothing more is heard, as of `now_ms`.
    pub fn lease_left_ms(&self, now_ms: u64) -> u64 {
        match self.fence {
            Fence::Lifted => self.fenced_from_ms().saturating_sub(now_ms),
            Fence::Raised => 0,
        }
    }

    /// The last entry the log is known to have.
    pub fn last_known(&self) -> u64 {
        self.last_known
    }

    /// Takes an entry in its turn, keeps one that is ahead, and leaves one that is known.
    fn take(&mut self, entry: Entry<C>) {
        let Some(given) = self.given else { return };
        let sequence = entry.place.sequence;
        if sequence <= given.sequence {
            if sequence == given.sequence && entry.place.digest != given.digest {
                self.doubt();
            }
            return;
        }
        if self.ahead.len() < AHEAD_MAX || sequence == given.sequence + 1 {
            self.ahead.insert(sequence, entry);
        }
        self.give();
    }

    /// Gives the node what is next, as long as it has room for it.
    fn give(&mut self) {
        while let Some(given) = self.given.filter(|_| self.has_room()) {
            let Some(entry) = self.ahead.remove(&(given.sequence + 1)) else { break };
            if entry.before.is_some_and(|before| before != given.digest) {
                return self.doubt();
            }
            self.given = Some(entry.place);
            self.applying.push_back((self.next_turn, entry.place));
            self.actions.push_back(Action::Apply { entry, turn: self.next_turn });
            self.next_turn += 1;
        }
        if self.given.is_some_and(|given| given.sequence >= self.last_known) {
            self.missing_since_ms = None;
        }
    }

    fn has_room(&self) -> bool {
        self.applying.len() < APPLYING_MAX
    }

    /// The log is not the one that was carried out here. Where it is now is known with the next answer
    /// to a question that is asked from now on.
    fn doubt(&mut self) {
        self.given = None;
        self.has_lost = true;
        self.ahead.clear();
        self.ends.clear();
        self.asked.clear();
        self.reading = None;
        self.missing_since_ms = None;
        self.lease_until_ms = 0;
        self.next_ask_ms = 0;
        self.raise();
    }

    /// Goes on behind `last`, and trusts nothing from before. What is being carried out of the history
    /// before may go on until it is this turn's, so there is no lease until then.
    fn distrust(&mut self, last: Place) {
        self.given = Some(last);
        self.applied = None;
        self.lease_until_ms = 0;
        self.raise();
        self.applying.clear();
        self.applying.push_back((self.next_turn, last));
        self.ahead.clear();
        self.ends.clear();
        // Questions from before compare with another history.
        self.asked.clear();
        self.reading = None;
        self.missing_since_ms = None;
        self.last_known = last.sequence;
        let has_lost = std::mem::take(&mut self.has_lost);
        self.actions.push_back(Action::Distrust { at: last, has_lost, turn: self.next_turn });
        self.next_turn += 1;
    }

    fn ask(&mut self, now_ms: u64) {
        let question = self.next_question;
        self.next_question += 1;
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(Asked { question, at_ms: now_ms, given: self.given });
        self.next_ask_ms = now_ms + self.settings.ask_every_ms;
        self.actions.push_back(Action::Ask { question });
    }

    /// Begins to read what the log has and nobody has brought for a while.
    fn look_for_missing(&mut self, now_ms: u64) {
        let Some(given) = self.given else { return };
        if given.sequence >= self.last_known {
            self.missing_since_ms = None;
            return;
        }
        let since = *self.missing_since_ms.get_or_insert(now_ms);
        let is_due = now_ms.saturating_sub(since) >= self.settings.grace_ms;
        if !is_due || self.reading.is_some() || !self.has_room() {
            return;
        }
        let number = self.next_reading;
        self.next_reading += 1;
        self.reading = Some(Reading { number, begun_ms: now_ms });
        self.actions.push_back(Action::Read { from: given.sequence + 1, reading: number });
    }

    /// Takes a lease for the latest end of the log that is carried out, and raises the fence where
    /// that is over.
    fn renew(&mut self, now_ms: u64) {
        if let Some(applied) = self.place() {
            while let Some((_, until_ms)) =
                self.ends.pop_front_if(|(last, _)| *last <= applied.sequence)
            {
                self.lease_until_ms = self.lease_until_ms.max(until_ms);
            }
        }
        if now_ms >= self.fenced_from_ms() {
            self.raise();
        } else if self.fence == Fence::Raised {
            self.fence = Fence::Lifted;
            self.actions.push_back(Action::Fence(Fence::Lifted));
        }
    }

    fn raise(&mut self) {
        if self.fence == Fence::Lifted {
            self.fence = Fence::Raised;
            self.actions.push_back(Action::Fence(Fence::Raised));
        }
    }

    fn fenced_from_ms(&self) -> u64 {
        self.lease_until_ms.saturating_sub(self.settings.margin_ms)
    }
}

#[cfg(test)]
mod tests;
