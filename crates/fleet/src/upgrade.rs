//! Nodes that hand over to the program that is installed on their machines, a few at a time.
//!
//! ```text
//!  Waves ──Ask──→ node: leaves, hands over to a new process
//!    ↑                    │
//!    └──────report────────┘  which process it is, and how its clients fare
//! ```
//!
//! A program comes to a machine as every other does, by its packages; nothing is sent here but the word to
//! use it. A node that is asked first says that it leaves, so that routers send nobody new to it, then hands
//! over as `freshet upgrade` has it do, connections and memory with it; one that cannot goes on as before
//! and says why. [`Waves`] is the side of who asks, without I/O: time is an argument, in milliseconds of a
//! clock that never steps. The next nodes are asked only when all that were asked serve with the new
//! program and their clients have fared no worse for a while; otherwise nobody is asked any more, and those
//! that were asked and not seen to be well go back ([`Recall`]): each process keeps the program that ran
//! before it.

use crate::config::{Band, Counts};
use crate::limits::{DRAIN_MAX_MS, UPGRADE_SILENCE_MAX_MS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

mod recall;

pub use recall::{Fate, NO_PROGRAM, Recall};

/// A program that a node can hand over to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// The one that is installed where the node was started from.
    #[default]
    Installed,
    /// The one that ran before the one that runs, which its process keeps.
    Before,
}

/// The word to a node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ask {
    /// Tells it from others.
    pub id: u64,
    /// The process that is meant, as [`Process::began_ms`]: none that came after it.
    pub process: u64,
    /// What it is to do.
    #[serde(flatten)]
    pub order: Order,
}

/// What a node is to do. One that knows of handing over alone takes the other for no word.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Order {
    /// Hand over.
    HandOver(HandOver),
    /// Leave no more, where it does, and go on as it is.
    Stay {
        /// Always true.
        stays: bool,
    },
    /// Want no new clients, and go on serving those that come, until told otherwise; or want them again.
    Drain {
        /// Whether it is to want none.
        drains: bool,
    },
}

/// How to hand over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HandOver {
    /// To which program: only who says [`Said::before`] is told of another than what is installed.
    #[serde(default)]
    pub program: Program,
    /// The version that it has to be; nothing where any will do.
    pub to: Option<String>,
    /// How long the node leaves before it hands over.
    pub drain_ms: u64,
}

impl HandOver {
    /// How long the node leaves: no word has it leave for ever.
    pub fn drain_ms(&self) -> u64 {
        self.drain_ms.min(DRAIN_MAX_MS)
    }
}

/// Which process a node is, and what it has counted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    /// When it began, in milliseconds since 1970: no two processes of a node have the same.
    pub began_ms: u64,
    /// What it counted.
    pub counts: Counts,
}

/// How a node stands to the word it was given last.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Standing {
    /// Which word.
    pub ask: u64,
    /// How.
    pub stage: Stage,
}

/// How far a node is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It wants no new clients.
    Leaves,
    /// The new process starts.
    HandsOver,
    /// It goes on as before, for this reason.
    Stays(String),
}

/// How nodes are asked, and what is well.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms {
    /// Which program of theirs nodes hand over to.
    pub program: Program,
    /// The version that all are to run; nothing where it is the one that the first comes to run.
    pub to: Option<String>,
    /// How long each leaves before it hands over.
    pub drain_ms: u64,
    /// How long its clients must fare no worse.
    pub hold_ms: u64,
    /// How long it may take to hand over once it has left.
    pub patience_ms: u64,
    /// What is worse.
    pub band: Band,
}

/// What a node says of itself, as far as it matters here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Said<'a> {
    /// Which node.
    pub node: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Whether it serves what it has stored.
    pub is_fenced: bool,
    /// Its process; nothing where it is of a version that does not say.
    pub process: Option<Process>,
    /// The version of the program before, where its process keeps it.
    pub before: Option<&'a str>,
    /// How it stands to what it was asked.
    pub standing: Option<&'a Standing>,
}

/// Where a node stands when an upgrade stops.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reached {
    /// It has handed over, and its clients fared no worse.
    Done,
    /// It has handed over, and was not seen to be well for long enough.
    Watched,
    /// It was asked to hand over, and was not seen to have.
    Asked,
    /// Nobody asked it, or it was not to.
    Before,
    /// It was asked, and runs the program of before all the same.
    Back,
}

/// What is to be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Give this word to this node; the same again where it was lost.
    Ask(String, Ask),
    /// Wait for what nodes say.
    Wait,
    /// All run the new program.
    Finished,
    /// Nobody is asked any more, for this reason.
    Stopped(String),
}

/// An upgrade.
#[derive(Clone, Debug)]
pub struct Waves {
    id: u64,
    terms: Terms,
    /// The version of the first that has handed over, which the others are to have too.
    found: Option<String>,
    waves: Vec<Vec<String>>,
    /// The wave that is under way, from 0.
    reached: usize,
    nodes: BTreeMap<String, Node>,
    stopped: Option<String>,
}

#[derive(Clone, Debug)]
struct Node {
    state: State,
    /// What it counted when it was first heard, and lately.
    first: Option<Process>,
    last: Option<Process>,
    version: String,
    heard_ms: u64,
}

#[derive(Clone, Debug)]
enum State {
    Before,
    Asked {
        since_ms: u64,
        told_ms: u64,
        process: Process,
        has_heard: bool,
    },
    Held {
        since_ms: u64,
        before: Counts,
        start: Process,
    },
    Done {
        process: u64,
    },
    /// It runs what it is to run, since before anybody asked.
    HasIt,
}

/// Time until a word that no node has answered is given again.
const AGAIN_MS: u64 = 2_000;

impl Waves {
    /// Nodes in waves, those of the first first. Each is in one wave only, the first that names it.
    pub fn new(id: u64, terms: Terms, waves: Vec<Vec<String>>, now_ms: u64) -> Self {
        let mut known = BTreeSet::new();
        let fresh = |wave: Vec<String>| -> Vec<String> {
            wave.into_iter().filter(|name| known.insert(name.clone())).collect()
        };
        let waves: Vec<_> = waves.into_iter().map(fresh).filter(|wave| !wave.is_empty()).collect();
        let node = Node {
            state: State::Before,
            first: None,
            last: None,
            version: String::new(),
            heard_ms: now_ms,
        };
        let nodes = known.into_iter().map(|name| (name, node.clone())).collect();
        Self { id, terms, found: None, waves, reached: 0, nodes, stopped: None }
    }

    /// The nodes of the wave that is under way, and where it is, as `2 of 3`; nothing once all are done.
    pub fn wave(&self) -> Option<(String, &[String])> {
        let wave = self.waves.get(self.reached)?;
        Some((format!("{} of {}", self.reached + 1, self.waves.len()), wave))
    }

    /// The version that all are to run, once it is known.
    pub fn to(&self) -> Option<&str> {
        self.terms.to.as_deref().or(self.found.as_deref())
    }

    /// The nodes that have handed over and been well since.
    pub fn done(&self) -> impl Iterator<Item = &str> {
        let is_done = |node: &Node| matches!(node.state, State::Done { .. });
        self.nodes.iter().filter(move |(_, node)| is_done(node)).map(|(name, _)| name.as_str())
    }

    /// Where each node stands, and the version it said last; none where it has said nothing.
    pub fn reached(&self) -> impl Iterator<Item = (&str, Reached, &str)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node.reached(), node.version.as_str()))
    }

    /// Has all of the wave under way that are not known to be well run the program they ran before: those that
    /// have handed over go back to it, the others stay with it. Nodes that were well for as long as asked for
    /// keep the new one.
    pub fn recall(&self, id: u64, now_ms: u64) -> Recall {
        let wave = self.waves.get(self.reached).into_iter().flatten();
        let called = wave.filter_map(|name| match &self.nodes.get(name)?.state {
            State::Asked { process, .. } => Some((name.clone(), Some(process.began_ms))),
            State::Held { .. } => Some((name.clone(), None)),
            State::Before | State::Done { .. } | State::HasIt => None,
        });
        Recall::new(id, called, self.terms.patience_ms, now_ms)
    }

    /// What a node says.
    pub fn heard(&mut self, said: &Said<'_>, now_ms: u64) {
        let to = self.to().map(str::to_owned);
        let Some(node) = self.nodes.get_mut(said.node) else { return };
        if let Err(why) = node.heard(said, self.id, to.as_deref(), &self.terms, now_ms) {
            self.stopped.get_or_insert_with(|| format!("{}: {why}", said.node));
        } else if matches!(node.state, State::Held { .. }) {
            self.found.get_or_insert_with(|| said.version.to_owned());
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, now_ms: u64) -> Step {
        while self.stopped.is_none() {
            let Some(wave) = self.waves.get(self.reached) else { return Step::Finished };
            let mut is_done = true;
            for name in wave {
                let Some(node) = self.nodes.get_mut(name) else { continue };
                match node.next(&self.terms, now_ms) {
                    Next::Done => {}
                    Next::Wait => is_done = false,
                    Next::Ask(process) => {
                        let to = self.terms.to.clone().or_else(|| self.found.clone());
                        let Terms { program, drain_ms, .. } = self.terms;
                        let order = Order::HandOver(HandOver { program, to, drain_ms });
                        return Step::Ask(name.clone(), Ask { id: self.id, process, order });
                    }
                    Next::Wrong(why) => {
                        let why = format!("{name}: {why}");
                        return Step::Stopped(self.stopped.insert(why).clone());
                    }
                }
            }
            if !is_done {
                return Step::Wait;
            }
            self.reached += 1;
        }
        Step::Stopped(self.stopped.clone().unwrap_or_default())
    }
}

enum Next {
    Done,
    Wait,
    Ask(u64),
    Wrong(String),
}

impl Node {
    fn reached(&self) -> Reached {
        match self.state {
            State::Before | State::HasIt => Reached::Before,
            State::Asked { .. } => Reached::Asked,
            State::Held { .. } => Reached::Watched,
            State::Done { .. } => Reached::Done,
        }
    }

    /// What it says.
    ///
    /// # Errors
    /// Why nobody is to be asked any more.
    fn heard(
        &mut self,
        said: &Said<'_>,
        id: u64,
        to: Option<&str>,
        terms: &Terms,
        now_ms: u64,
    ) -> Result<(), String> {
        let Some(process) = said.process else {
            return Err(format!("it runs {}, which cannot be asked over the fleet", said.version));
        };
        self.heard_ms = now_ms;
        said.version.clone_into(&mut self.version);
        self.last = Some(process);
        let ours = said.standing.filter(|standing| standing.ask == id);
        if let Some(other) = said.standing.filter(|standing| standing.ask != id)
            && !matches!(other.stage, Stage::Stays(_))
        {
            return Err("somebody else has it upgraded".into());
        }
        match &mut self.state {
            State::Before | State::HasIt => {
                // A process of its own makes a new beginning.
                self.first =
                    self.first.filter(|first| first.began_ms == process.began_ms).or(Some(process));
            }
            State::Asked { process: asked, has_heard, .. }
                if asked.began_ms == process.began_ms =>
            {
                *has_heard = ours.is_some();
                if let Some(Standing { stage: Stage::Stays(why), .. }) = ours {
                    return Err(format!("it goes on as before: {why}"));
                }
                *asked = process;
            }
            State::Asked { process: asked, .. } => {
                if let Some(to) = to.filter(|to| *to != said.version) {
                    return Err(format!("it runs {} now, not {to}", said.version));
                }
                if !said.is_fenced {
                    let first = self.first.unwrap_or(*asked);
                    let before = asked.counts.since(first.counts);
                    self.state = State::Held { since_ms: now_ms, before, start: process };
                }
            }
            State::Held { start: Process { began_ms, .. }, .. }
            | State::Done { process: began_ms }
                if *began_ms != process.began_ms =>
            {
                return Err("its new process has ended".into());
            }
            State::Held { since_ms, before, start } => {
                terms.band.judge(*before, process.counts.since(start.counts))?;
                if now_ms >= *since_ms + terms.hold_ms && !said.is_fenced {
                    self.state = State::Done { process: process.began_ms };
                }
            }
            State::Done { .. } => {}
        }
        Ok(())
    }

    fn next(&mut self, terms: &Terms, now_ms: u64) -> Next {
        let patience_s = terms.patience_ms / 1000;
        match &mut self.state {
            State::Done { .. } | State::HasIt => Next::Done,
            State::Before | State::Held { .. }
                if now_ms > self.heard_ms + UPGRADE_SILENCE_MAX_MS =>
            {
                Next::Wrong(format!("it says nothing for {} s", UPGRADE_SILENCE_MAX_MS / 1000))
            }
            State::Before => match self.last {
                None => Next::Wait,
                Some(_) if terms.to.as_ref() == Some(&self.version) => {
                    self.state = State::HasIt;
                    Next::Done
                }
                Some(process) => {
                    let (since_ms, told_ms) = (now_ms, now_ms);
                    self.state = State::Asked { since_ms, told_ms, process, has_heard: false };
                    Next::Ask(process.began_ms)
                }
            },
            State::Asked { since_ms, .. }
                if now_ms > *since_ms + terms.drain_ms + terms.patience_ms =>
            {
                let after = "after it left";
                Next::Wrong(format!("no new process of it serves {patience_s} s {after}"))
            }
            State::Asked { told_ms, process, has_heard: false, .. }
                if now_ms >= *told_ms + AGAIN_MS =>
            {
                *told_ms = now_ms;
                Next::Ask(process.began_ms)
            }
            State::Held { since_ms, .. }
                if now_ms > *since_ms + terms.hold_ms + terms.patience_ms =>
            {
                Next::Wrong(format!("it follows the log no more, {patience_s} s long"))
            }
            State::Asked { .. } | State::Held { .. } => Next::Wait,
        }
    }
}

#[cfg(test)]
mod tests;
