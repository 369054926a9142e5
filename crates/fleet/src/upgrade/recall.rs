//! Nodes that are to run the program of before, since one of them fared badly with the new one.
//!
//! All at once, and without leaving first: they serve with a program that is believed to be bad.

use super::{AGAIN_MS, Ask, HandOver, Order, Program, Said, Stage};
use crate::limits::UPGRADE_SILENCE_MAX_MS;
use std::collections::BTreeMap;

/// Why a node cannot go back.
pub const NO_PROGRAM: &str =
    "it keeps no program from before, as one that was started anew does not";

/// What became of a node that was to go back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It runs this version, that of before.
    Back(String),
    /// It goes on with what it runs, for this reason.
    Stays(String),
    /// It was not heard of.
    Silent,
}

/// The way back of some nodes.
#[derive(Clone, Debug)]
pub struct Recall {
    id: u64,
    patience_ms: u64,
    begun_ms: u64,
    nodes: BTreeMap<String, Called>,
}

#[derive(Clone, Debug)]
struct Called {
    /// The process that was asked to hand over, and may not have yet.
    old: Option<u64>,
    heard_ms: u64,
    last: Option<Heard>,
    /// The process that was told last, when, and the version that is to come of it.
    told: Option<Told>,
    fate: Option<Fate>,
}

#[derive(Clone, Debug)]
struct Heard {
    process: u64,
    before: Option<String>,
}

#[derive(Clone, Debug)]
struct Told {
    process: u64,
    at_ms: u64,
    has_heard: bool,
    to: Option<String>,
}

impl Recall {
    /// Nodes, and of each the process that was asked to hand over where it may be the one that runs.
    pub(super) fn new(
        id: u64,
        nodes: impl Iterator<Item = (String, Option<u64>)>,
        patience_ms: u64,
        now_ms: u64,
    ) -> Self {
        let called = |old| Called { old, heard_ms: now_ms, last: None, told: None, fate: None };
        let nodes = nodes.map(|(name, old)| (name, called(old))).collect();
        Self { id, patience_ms, begun_ms: now_ms, nodes }
    }

    /// What a node says.
    pub fn heard(&mut self, said: &Said<'_>, now_ms: u64) {
        if let Some(node) = self.nodes.get_mut(said.node) {
            node.heard_ms = now_ms;
            node.heard(said, self.id);
        }
    }

    /// The words to give now, the same again where they were lost; nothing once all is decided.
    pub fn next(&mut self, now_ms: u64) -> Option<Vec<(String, Ask)>> {
        let is_over = now_ms > self.begun_ms + self.patience_ms;
        let mut words = Vec::new();
        let mut is_decided = true;
        for (name, node) in self.nodes.iter_mut().filter(|(_, node)| node.fate.is_none()) {
            // One that hands over may be silent for as long as that takes.
            let is_silent = node.told.is_none() && now_ms > node.heard_ms + UPGRADE_SILENCE_MAX_MS;
            if is_over || is_silent {
                node.fate = Some(Fate::Silent);
                continue;
            }
            is_decided = false;
            words.extend(node.word(self.id, now_ms).map(|ask| (name.clone(), ask)));
        }
        (!is_decided).then_some(words)
    }

    /// What became of each.
    pub fn fates(&self) -> impl Iterator<Item = (&str, &Fate)> {
        self.nodes.iter().filter_map(|(name, node)| Some((name.as_str(), node.fate.as_ref()?)))
    }
}

impl Called {
    fn heard(&mut self, said: &Said<'_>, id: u64) {
        let Some(process) = said.process.map(|process| process.began_ms) else { return };
        self.last = Some(Heard { process, before: said.before.map(str::to_owned) });
        let ours = said.standing.filter(|standing| standing.ask == id);
        let Some(told) = &mut self.told else { return };
        if told.process == process {
            told.has_heard |= ours.is_some();
            let Some(Stage::Stays(why)) = ours.map(|standing| &standing.stage) else { return };
            self.fate = Some(match self.old == Some(process) {
                true => Fate::Back(said.version.to_owned()),
                false => Fate::Stays(why.clone()),
            });
        } else if told.to.as_deref() == Some(said.version) {
            // What it has missed of the log it catches up with by itself, as after any start.
            self.fate = Some(Fate::Back(said.version.to_owned()));
        } else if told.to.is_some() {
            self.fate = Some(Fate::Stays(format!("it runs {} now", said.version)));
        }
    }

    /// What to tell it now. A process that came of the one that was told to stay is told anew.
    fn word(&mut self, id: u64, now_ms: u64) -> Option<Ask> {
        let Heard { process, before } = self.last.clone()?;
        if let Some(told) = self.told.as_mut().filter(|told| told.process == process)
            && (told.has_heard || now_ms < told.at_ms + AGAIN_MS)
        {
            return None;
        }
        let is_old = self.old == Some(process);
        if !is_old && before.is_none() {
            self.fate = Some(Fate::Stays(NO_PROGRAM.into()));
            return None;
        }
        let to = before.filter(|_| !is_old);
        self.told = Some(Told { process, at_ms: now_ms, has_heard: false, to: to.clone() });
        let order = match is_old {
            true => Order::Stay { stays: true },
            false => Order::HandOver(HandOver { program: Program::Before, to, drain_ms: 0 }),
        };
        Some(Ask { id, process, order })
    }
}
