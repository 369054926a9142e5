//! The world: events in the order of time.

use crate::node::{Node, Purge, Pushed, Stored};
use crate::random::Random;
use crate::schedule::Schedule;
use freshet_fleet::freshness::{Freshness, Nonce};
use freshet_fleet::{Action, Answer, Digest, Entry, Fence, Outcome, Place, Tally};
use std::collections::VecDeque;
use std::sync::Arc;

/// The lease by a clock that is a hundredth slow.
const LEASE_MS: u64 = 5_050;
/// All is well for so long at the end.
const QUIET_MS: u64 = 30_000;

/// What nodes have said last that somebody has recorded, and says again to whoever waits.
const RECORDED_MAX: usize = 64;

/// How long a node's disks take for an entry, which they get in order.
fn disks_take_ms(node: usize) -> u64 {
    [0, 2, 80][node % 3]
}

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) leaves: usize,
    pub(crate) minutes: u64,
    /// Mean time between two requests at one node, and between two purges.
    pub(crate) requests_each_ms: u64,
    pub(crate) purge_each_ms: u64,
    pub(crate) keys: u64,
}

impl Size {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x5151);
        Self {
            nodes: 2 + random.below(11) as usize,
            leaves: 1 + random.below(3) as usize,
            minutes: 2,
            requests_each_ms: 150,
            purge_each_ms: [30, 300, 2_000][random.below(3) as usize],
            keys: 4 + random.below(12),
        }
    }
}

/// What happened, so that it is known that something did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) served_stored: u64,
    pub(crate) validated: u64,
    pub(crate) unserved: u64,
    pub(crate) purges: u64,
    pub(crate) lost_purges: u64,
    pub(crate) distrusts: u64,
    pub(crate) raised: u64,
    pub(crate) read: u64,
    pub(crate) past_parents: u64,
    pub(crate) crashes: u64,
    pub(crate) applied_answers: u64,
    pub(crate) fenced_answers: u64,
    pub(crate) said_again: u64,
    pub(crate) events: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.served_stored += other.served_stored;
        self.validated += other.validated;
        self.unserved += other.unserved;
        self.purges += other.purges;
        self.lost_purges += other.lost_purges;
        self.distrusts += other.distrusts;
        self.raised += other.raised;
        self.read += other.read;
        self.past_parents += other.past_parents;
        self.crashes += other.crashes;
        self.applied_answers += other.applied_answers;
        self.fenced_answers += other.fenced_answers;
        self.said_again += other.said_again;
        self.events += other.events;
    }
}

enum Event {
    /// A node's member has something to do.
    Wake {
        node: usize,
        wake: u64,
    },
    /// Something reaches a node, of that life.
    Pushed {
        node: usize,
        life: u64,
        entry: Pushed,
    },
    Answered {
        node: usize,
        life: u64,
        question: u64,
        answer: Answer,
    },
    ReadOut {
        node: usize,
        life: u64,
        reading: u64,
        entries: Vec<Pushed>,
    },
    /// Something reaches the log.
    Asked {
        node: usize,
        life: u64,
        question: u64,
    },
    ToRead {
        node: usize,
        life: u64,
        from: u64,
        reading: u64,
    },
    /// A node has carried an entry out in memory.
    CarriedOut {
        node: usize,
        life: u64,
        turn: u64,
        place: Place,
        purge: Purge,
    },
    /// And on its disks.
    Durable {
        node: usize,
        life: u64,
        turn: u64,
        place: Place,
        number: u32,
    },
    /// A node trusts nothing from before any more.
    Distrusted {
        node: usize,
        life: u64,
        turn: u64,
        place: Place,
    },
    /// A client asks a node.
    Request {
        node: usize,
    },
    /// A node's request is with whom it asks.
    Upstream {
        node: usize,
        life: u64,
        key: u32,
        born: u64,
        place: Option<Place>,
    },
    /// And comes back.
    Fetched {
        node: usize,
        life: u64,
        key: u32,
        stored: Stored,
    },
    /// Somebody purges.
    Purge,
    /// Who waits for a purge looks.
    Waited {
        number: u32,
    },
    /// Something goes wrong, or right again.
    Trouble,
    Repair(Broken),
    /// From here on all is well.
    Quiet,
    End,
}

#[derive(Clone, Copy)]
enum Broken {
    Node(usize),
    Leaf(usize),
    Origin(usize),
    Crashed(usize),
    Log,
}

/// A purge and what became of it.
struct Issued {
    /// The version the origin had from then on.
    version: u64,
    accepted_ms: u64,
    is_lost: bool,
    sequence: u64,
    tally: Tally,
    freshness: Freshness,
    /// When somebody was told that no node answers with anything older.
    promised: bool,
}

/// What a node has said: which one of its words it is, and how far it has carried the log out.
#[derive(Clone)]
struct Said {
    node: usize,
    number: u64,
    sequence: u64,
    nonce: Nonce,
}

impl Issued {
    /// Who waits for it hears something in a node's name.
    fn hears(&mut self, said: &Said, name: &str, now_ms: u64) {
        let named = std::iter::once(said.nonce);
        if let Some(moment) = self.freshness.moment(name, said.number, named, now_ms)
            && self.freshness.took(name, moment)
        {
            self.tally.applied(name, said.sequence);
        }
    }
}

pub(crate) struct World {
    random: Random,
    size: Size,
    now_ms: u64,
    events: Schedule<Event>,
    nodes: Vec<Node>,
    /// Their names, in the order of the alphabet.
    names: Vec<Arc<str>>,
    leaves: Vec<bool>,
    log: Vec<Pushed>,
    /// Entries it has forgotten.
    forgotten: usize,
    log_is_up: bool,
    is_quiet: bool,
    versions: Vec<u64>,
    purges: Vec<Issued>,
    /// Purges of each key, the latest last.
    of_key: Vec<Vec<u32>>,
    recorded: VecDeque<Said>,
    pub(crate) counts: Counts,
}

impl World {
    pub(crate) fn new(seed: u64, size: Size) -> Self {
        let mut random = Random(seed);
        let parents = size.nodes / 4;
        let nodes = (0..size.nodes)
            .map(|index| {
                // Started at any time, and up to four thousandths fast or slow.
                let clock = (random.below(1 << 40), 996_000 + random.below(8_000));
                let parent = (index >= parents && parents > 0)
                    .then(|| random.below(parents as u64) as usize);
                Node::new(clock, parent, index % size.leaves, size.keys as usize)
            })
            .collect();
        let mut world = Self {
            random,
            size,
            now_ms: 0,
            events: Schedule::new(),
            nodes,
            names: (0..size.nodes).map(|index| format!("{index:05}").into()).collect(),
            leaves: vec![true; size.leaves],
            log: Vec::new(),
            forgotten: 0,
            log_is_up: true,
            is_quiet: false,
            versions: vec![1; size.keys as usize],
            purges: Vec::new(),
            of_key: vec![Vec::new(); size.keys as usize],
            recorded: VecDeque::new(),
            counts: Counts::default(),
        };
        for node in 0..size.nodes {
            world.at(0, Event::Wake { node, wake: 0 });
            let first_ms = world.random.below(size.requests_each_ms);
            world.at(first_ms, Event::Request { node });
        }
        world.at(10, Event::Purge);
        world.at(1_000, Event::Trouble);
        world.at(size.minutes * 60_000, Event::Quiet);
        world.at(size.minutes * 60_000 + QUIET_MS, Event::End);
        world
    }

    /// Runs to the end; what was wrong first.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        while let Some(event) = self.events.next() {
            self.now_ms = self.events.now_ms();
            self.counts.events += 1;
            match event {
                Event::End => return self.ended_well(),
                event => self.handle(event)?,
            }
        }
        Ok(())
    }

    fn at(&mut self, in_ms: u64, event: Event) {
        self.events.add(in_ms, event);
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Wake { node, wake } => {
                let one = &mut self.nodes[node];
                if one.wake != wake {
                    return Ok(());
                }
                one.wake_ms = None;
                if one.is_alive {
                    let local_ms = one.local_ms(self.now_ms);
                    one.member.tick(local_ms);
                    self.act(node);
                }
            }
            Event::Pushed { node, life, entry } => self.tell(node, life, |member, local_ms| {
                member.pushed(entry, local_ms);
            }),
            Event::Answered { node, life, question, answer } => {
                self.tell(node, life, |member, local_ms| {
                    member.answered(question, answer, local_ms);
                });
            }
            Event::ReadOut { node, life, reading, entries } => {
                self.counts.read += entries.len() as u64;
                self.tell(node, life, |member, local_ms| member.read(reading, entries, local_ms));
            }
            Event::Asked { node, life, question } => {
                let answer =
                    Answer { first: self.forgotten as u64 + 1, last: self.end(), heard_ms: 0 };
                self.send_to_node(node, Event::Answered { node, life, question, answer });
            }
            Event::ToRead { node, life, from, reading } => {
                let first = (from as usize - 1).max(self.forgotten);
                let most = 1 + self.random.below(500) as usize;
                let entries = self.log.iter().skip(first).take(most).cloned().collect();
                self.send_to_node(node, Event::ReadOut { node, life, reading, entries });
            }
            Event::CarriedOut { node, life, turn, place, purge } => {
                let one = &mut self.nodes[node];
                if one.life == life && one.is_alive {
                    one.carry_out(purge, place);
                    let number = purge.number;
                    self.at(
                        disks_take_ms(node),
                        Event::Durable { node, life, turn, place, number },
                    );
                }
            }
            Event::Durable { node, life, turn, place, number } => {
                let one = &mut self.nodes[node];
                if one.life == life && one.is_alive {
                    one.done.push((place.sequence, number));
                    // The disks know it before anybody is told.
                    one.on_disk = Some(place);
                    let local_ms = one.local_ms(self.now_ms);
                    one.member.applied(turn, local_ms);
                    self.act(node);
                }
            }
            Event::Distrusted { node, life, turn, place } => {
                let one = &mut self.nodes[node];
                if one.life == life && one.is_alive {
                    one.distrust(place);
                    one.on_disk = Some(place);
                    one.done.clear();
                    let local_ms = one.local_ms(self.now_ms);
                    one.member.applied(turn, local_ms);
                    self.act(node);
                }
            }
            Event::Request { node } => self.request(node)?,
            Event::Upstream { node, life, key, born, place } => {
                self.upstream(node, life, key, born, place)?;
            }
            Event::Fetched { node, life, key, stored } => {
                let one = &mut self.nodes[node];
                if one.life == life && one.is_alive {
                    one.keep(key, stored);
                    self.counts.validated += 1;
                }
            }
            Event::Purge => self.purge(),
            Event::Waited { number } => self.waited(number),
            Event::Trouble => self.trouble(),
            Event::Repair(broken) => self.repair(broken),
            Event::Quiet => self.quiet(),
            Event::End => {}
        }
        Ok(())
    }

    /// Tells a node's member something, if it still lives that life.
    fn tell(
        &mut self,
        node: usize,
        life: u64,
        say: impl FnOnce(&mut freshet_fleet::Member<Purge>, u64),
    ) {
        let one = &mut self.nodes[node];
        if one.life == life && one.is_alive && self.reaches(node) {
            let one = &mut self.nodes[node];
            let local_ms = one.local_ms(self.now_ms);
            say(&mut one.member, local_ms);
            self.act(node);
        }
    }

    /// Does what a node's member wants, and has it woken when it wants that.
    fn act(&mut self, node: usize) {
        let life = self.nodes[node].life;
        while let Some(action) = self.nodes[node].member.next_action() {
            match action {
                Action::Ask { question } => {
                    self.send_to_log(node, Event::Asked { node, life, question });
                }
                Action::Read { from, reading } => {
                    self.send_to_log(node, Event::ToRead { node, life, from, reading });
                }
                Action::Apply { entry, turn } => {
                    let (place, purge) = (entry.place, entry.changes);
                    let in_ms = disks_take_ms(node);
                    self.at(in_ms, Event::CarriedOut { node, life, turn, place, purge });
                }
                Action::Fence(fence) => {
                    self.counts.raised += u64::from(fence == Fence::Raised);
                    self.nodes[node].fence = fence;
                }
                Action::Distrust { at: place, turn, .. } => {
                    self.counts.distrusts += 1;
                    // Behind what is being carried out.
                    let in_ms = 2 * disks_take_ms(node);
                    self.at(in_ms, Event::Distrusted { node, life, turn, place });
                }
                Action::Confirm(place) => {
                    let one = &mut self.nodes[node];
                    one.been(place);
                    one.said += 1;
                    let (number, nonce) = (one.local_ms(self.now_ms) + one.said, place.digest);
                    let said = Said { node, number, sequence: place.sequence, nonce: nonce.into() };
                    let done = one.done.extract_if(.., |(at, _)| *at <= place.sequence);
                    for (_, number) in done.collect::<Vec<_>>() {
                        one.confirm(number);
                        let purge = &mut self.purges[number as usize];
                        if !purge.promised {
                            purge.hears(&said, &self.names[node], self.now_ms);
                        }
                    }
                    self.recorded.truncate(RECORDED_MAX - 1);
                    self.recorded.push_front(said);
                }
            }
        }
        let one = &mut self.nodes[node];
        let due_ms = one.world_ms(one.member.deadline_ms()).max(self.now_ms + 1);
        // One that is woken too early is woken again: most deadlines only ever move on.
        if one.wake_ms.is_none_or(|known_ms| due_ms < known_ms) {
            one.wake += 1;
            one.wake_ms = Some(due_ms);
            let (wake, in_ms) = (one.wake, due_ms - self.now_ms);
            self.at(in_ms, Event::Wake { node, wake });
        }
    }

    /// Whether a node and the log hear each other.
    fn reaches(&self, node: usize) -> bool {
        let one = &self.nodes[node];
        self.log_is_up && self.leaves[one.leaf] && !one.is_cut_off
    }

    /// Sends something to the log, or to a node: lost, late or twice.
    fn send_to_log(&mut self, node: usize, event: Event) {
        if self.reaches(node) && (self.is_quiet || !self.random.chance(30)) {
            let in_ms = self.delay_ms();
            self.at(in_ms, event);
        }
    }

    fn send_to_node(&mut self, node: usize, event: Event) {
        if !self.reaches(node) || (!self.is_quiet && self.random.chance(30)) {
            return;
        }
        if let Event::Pushed { node, life, entry } = &event
            && self.random.chance(20)
        {
            let again = Event::Pushed { node: *node, life: *life, entry: entry.clone() };
            let in_ms = self.delay_ms();
            self.at(in_ms, again);
        }
        let in_ms = self.delay_ms();
        self.at(in_ms, event);
    }

    fn delay_ms(&mut self) -> u64 {
        match self.random.below(100) {
            0 if !self.is_quiet => self.random.below(9_000),
            1..=5 => self.random.below(400),
            _ => 1 + self.random.below(30),
        }
    }

    fn end(&self) -> Place {
        self.log.last().map_or_else(Place::default, |entry| entry.place)
    }

    /// A client asks: what is stored and may be used, or what comes from upstream.
    fn request(&mut self, node: usize) -> Result<(), String> {
        let next_ms = 1 + self.random.below(2 * self.size.requests_each_ms);
        self.at(next_ms, Event::Request { node });
        let key = self.random.below(self.size.keys) as u32;
        let one = &self.nodes[node];
        if !one.is_alive {
            return Ok(());
        }
        if let Some(stored) = one.usable(key) {
            self.counts.served_stored += 1;
            return self.check(node, key, stored);
        }
        if one.parent.is_none() && !one.has_origin {
            self.counts.unserved += 1;
            return Ok(());
        }
        let (life, born, place) = (one.life, one.order, one.place());
        let in_ms = self.random.below(40);
        self.at(in_ms, Event::Upstream { node, life, key, born, place });
        Ok(())
    }

    /// A request of a node is with its parent, or with the origin.
    fn upstream(
        &mut self,
        node: usize,
        life: u64,
        key: u32,
        born: u64,
        place: Option<Place>,
    ) -> Result<(), String> {
        let is_on_disk = self.random.chance(500);
        let mut version = self.versions[key as usize];
        let parent = self.nodes[node].parent.filter(|parent| self.nodes[*parent].is_alive);
        match parent {
            Some(parent) if place.is_none_or(|place| self.nodes[parent].covers(place)) => {
                let above = &self.nodes[parent];
                match above.usable(key) {
                    Some(stored) => {
                        self.check(parent, key, stored)?;
                        version = stored.version;
                    }
                    None if above.has_origin => {
                        let stored = Stored { version, born: above.order, is_on_disk };
                        self.nodes[parent].keep(key, stored);
                    }
                    None => return Ok(()),
                }
            }
            Some(parent) => {
                self.counts.past_parents += 1;
                if !self.nodes[parent].has_origin {
                    return Ok(());
                }
            }
            None if !self.nodes[node].has_origin => {
                self.counts.unserved += 1;
                return Ok(());
            }
            None => {}
        }
        let in_ms = self.random.below(40);
        let stored = Stored { version, born, is_on_disk };
        self.at(in_ms, Event::Fetched { node, life, key, stored });
        Ok(())
    }

    /// Whether a node may answer with this.
    fn check(&self, node: usize, key: u32, stored: Stored) -> Result<(), String> {
        let one = &self.nodes[node];
        for number in self.of_key[key as usize].iter().rev() {
            let purge = &self.purges[*number as usize];
            if purge.version <= stored.version {
                return Ok(());
            }
            if purge.is_lost {
                continue;
            }
            let age_ms = self.now_ms - purge.accepted_ms;
            let why = if one.has_confirmed(*number) {
                "which it had said it carried out"
            } else if purge.promised {
                "of which it was said that nobody would"
            } else if age_ms > LEASE_MS {
                "which was older than a lease"
            } else {
                continue;
            };
            return Err(format!(
                "at {} ms node {node} answered with version {} of {key} after purge {number} \
                 (entry {}, version {}, {age_ms} ms old), {why}; it is at {:?}, born {}",
                self.now_ms,
                stored.version,
                purge.sequence,
                purge.version,
                one.member.place(),
                stored.born,
            ));
        }
        Ok(())
    }

    /// The origin has something new, and somebody purges what was before.
    fn purge(&mut self) {
        if self.is_quiet {
            return;
        }
        let next_ms = 1 + self.random.below(2 * self.size.purge_each_ms);
        self.at(next_ms, Event::Purge);
        let key = self.random.below(self.size.keys) as u32;
        let version = self.versions[key as usize] + 1;
        self.versions[key as usize] = version;
        if !self.log_is_up {
            // It is not accepted.
            return;
        }
        let number = self.purges.len() as u32;
        let before = self.end();
        let digest = Digest(self.random.next() | 1);
        let place = Place { sequence: before.sequence + 1, digest };
        let entry = Entry { place, before: Some(before.digest), changes: Purge { key, number } };
        self.log.push(entry.clone());
        self.counts.purges += 1;
        let names = self.names.iter().cloned();
        let tally = Tally::new(place.sequence, names, 5_000, self.now_ms);
        let mut freshness = Freshness::default();
        freshness.sends(digest.into(), self.now_ms);
        let mut issued = Issued {
            version,
            accepted_ms: self.now_ms,
            is_lost: false,
            sequence: place.sequence,
            tally,
            freshness,
            promised: false,
        };
        // Of a log that has lost its end, they may have said of others what would be true of this one.
        for said in self.recorded.iter().filter(|said| said.sequence >= place.sequence) {
            self.counts.said_again += 1;
            issued.hears(said, &self.names[said.node], self.now_ms);
        }
        self.purges.push(issued);
        self.of_key[key as usize].push(number);
        for node in 0..self.nodes.len() {
            let life = self.nodes[node].life;
            self.send_to_node(node, Event::Pushed { node, life, entry: entry.clone() });
        }
        self.at(100, Event::Waited { number });
    }

    fn waited(&mut self, number: u32) {
        let now_ms = self.now_ms;
        let purge = &mut self.purges[number as usize];
        match purge.tally.outcome(now_ms) {
            Outcome::Waiting(_) => self.at(100, Event::Waited { number }),
            outcome => {
                purge.promised = true;
                purge.freshness = Freshness::default();
                match outcome {
                    Outcome::Fenced(_) => self.counts.fenced_answers += 1,
                    _ => self.counts.applied_answers += 1,
                }
            }
        }
    }

    fn trouble(&mut self) {
        if self.is_quiet {
            return;
        }
        let next_ms = 200 + self.random.below(6_000);
        self.at(next_ms, Event::Trouble);
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let lasts_ms = [500, 4_000, 20_000][self.random.below(3) as usize];
        let lasts_ms = 1 + self.random.below(lasts_ms);
        let broken = match self.random.below(16) {
            0..=4 => {
                self.nodes[node].is_cut_off = true;
                Broken::Node(node)
            }
            5..=7 => {
                let leaf = self.nodes[node].leaf;
                self.leaves[leaf] = false;
                Broken::Leaf(leaf)
            }
            8..=9 => {
                self.nodes[node].has_origin = false;
                Broken::Origin(node)
            }
            10..=12 => {
                if self.nodes[node].is_alive {
                    let forgets = self.random.chance(200);
                    self.nodes[node].crash(forgets);
                    self.counts.crashes += 1;
                }
                Broken::Crashed(node)
            }
            13 => {
                self.log_is_up = false;
                Broken::Log
            }
            14 => {
                let most = (self.log.len() - self.forgotten) as u64;
                self.forgotten += self.random.below(most + 1) as usize;
                return;
            }
            _ => {
                self.log_is_up = false;
                self.lose_end();
                Broken::Log
            }
        };
        self.at(lasts_ms, Event::Repair(broken));
    }

    /// The log loses what it had accepted last.
    fn lose_end(&mut self) {
        let most = (self.log.len() - self.forgotten).min(6) as u64;
        for _ in 0..self.random.below(most + 1) {
            let entry = self.log.pop().unwrap();
            self.purges[entry.changes.number as usize].is_lost = true;
            self.counts.lost_purges += 1;
        }
    }

    fn repair(&mut self, broken: Broken) {
        match broken {
            Broken::Node(node) => self.nodes[node].is_cut_off = false,
            Broken::Leaf(leaf) => self.leaves[leaf] = true,
            Broken::Origin(node) => self.nodes[node].has_origin = true,
            Broken::Log => self.log_is_up = true,
            Broken::Crashed(node) => {
                if !self.nodes[node].is_alive {
                    self.nodes[node].restart(self.now_ms);
                    self.act(node);
                }
            }
        }
    }

    fn quiet(&mut self) {
        self.is_quiet = true;
        self.log_is_up = true;
        self.leaves.fill(true);
        for node in 0..self.nodes.len() {
            self.nodes[node].is_cut_off = false;
            self.nodes[node].has_origin = true;
            self.repair(Broken::Crashed(node));
        }
    }

    fn ended_well(&self) -> Result<(), String> {
        for (index, node) in self.nodes.iter().enumerate() {
            if node.fence != Fence::Lifted || node.member.place() != Some(self.end()) {
                return Err(format!(
                    "node {index} does not serve at the end of {:?}, at {}: {:?}",
                    self.end(),
                    node.local_ms(self.now_ms),
                    node.member
                ));
            }
        }
        Ok(())
    }
}
