//! A node's side: what it tries, keeps, and goes back to. No I/O, and time is an argument.

use super::health::Counts;
use super::release::{Target, Trial, Version, reason};
use crate::limits::{BASELINE_MS, REFUSED_MAX};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Time until what went wrong by no fault of a bundle is tried again.
const AGAIN_MS: u64 = 5_000;

/// What a node says of a document that is older than the one it knows.
const OLDER: &str = "the servers have an older document of the group than before: whoever restored \
                     them sends a configuration again";

/// A version that a node did not take, or went back from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refusal {
    /// Which.
    pub version: Version,
    /// In words for an operator.
    pub why: String,
}

/// What a node knows after a restart.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Memory {
    /// What it starts with; nothing but its own file where there is none.
    pub kept: Option<Version>,
    /// What it was trying.
    pub trying: Option<Version>,
    /// What it does not try again, the newest first.
    pub refused: Vec<Refusal>,
    /// The newest of its group's documents that it has seen.
    #[serde(default)]
    pub seen: Seen,
}

/// A document of a group.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Seen {
    /// The group.
    pub group: String,
    /// [`Release::stamp_ms`](super::Release::stamp_ms).
    pub stamp_ms: u64,
}

impl Memory {
    fn refuse(&mut self, version: Version, why: &str) {
        self.refused.insert(0, Refusal { version, why: reason(why) });
        self.refused.truncate(REFUSED_MAX);
    }

    fn has_refused(&self, version: &Version) -> bool {
        self.refused.iter().any(|refusal| refusal.version == *version)
    }
}

/// What the node is to do, in this order. Each is answered before the next of them is taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Get the bundle onto the disk; [`Agent::fetched`].
    Fetch(Version),
    /// Remember this, and only then take the version in; [`Agent::tried`].
    Try {
        /// What is remembered.
        memory: Memory,
        /// What is taken in.
        version: Version,
    },
    /// Remember this, and take in what was kept even where that fails; [`Agent::returned`].
    Return {
        /// What is remembered.
        memory: Memory,
        /// What is taken in; nothing but the node's own file where there is none.
        version: Option<Version>,
    },
    /// Remember this.
    Remember(Memory),
    /// Say to the fleet how it is.
    Report,
}

/// Why a bundle is not on the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unfetched {
    /// It may be had later.
    Later(String),
    /// It is no good.
    Never(String),
}

/// One node.
#[derive(Clone, Debug)]
pub struct Agent {
    memory: Memory,
    /// What the group's document says, once it was read.
    wanted: Option<Option<Target>>,
    state: State,
    problem: Option<String>,
    /// What was counted lately, the oldest first.
    samples: VecDeque<(u64, Counts)>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug)]
enum State {
    Idle { until_ms: u64 },
    Fetching(Target),
    Trying(Target),
    Holding { version: Version, trial: Trial, since_ms: u64, before: Counts, start: Counts },
    Returning { again_ms: Option<u64> },
}

impl Agent {
    /// An agent of what a node knows. `died` says that the process before it ended unasked: what that
    /// one was trying is no good.
    pub fn new(memory: Memory, died: bool) -> Self {
        let mut out = Self {
            memory,
            wanted: None,
            state: State::Idle { until_ms: 0 },
            problem: None,
            samples: VecDeque::new(),
            actions: VecDeque::new(),
        };
        if let Some(version) = out.memory.trying.take() {
            if died {
                out.memory.refuse(version, "the process ended while it tried this");
            }
            out.remember();
        }
        out
    }

    /// What to do next.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What the node knows.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What keeps it from getting on.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// A signed document is seen, once more or for the first time; whether none newer was before. Who has
    /// but its bytes can have no node go back to it.
    pub fn sees(&mut self, seen: Seen) -> bool {
        let known = &self.memory.seen;
        if known.group == seen.group && known.stamp_ms > seen.stamp_ms {
            self.note_problem(OLDER);
            return false;
        }
        if *known != seen {
            self.memory.seen = seen;
            self.actions.push_back(Action::Remember(self.memory.clone()));
        }
        true
    }

    /// The group's document was read, and says this of the node.
    pub fn wants(&mut self, target: Option<Target>, now_ms: u64) {
        if self.wanted.is_none() {
            self.problem = None;
        }
        self.wanted = Some(target);
        self.settle(now_ms);
    }

    /// The group's document cannot be read. What is known of it holds.
    pub fn cannot_read(&mut self, why: &str) {
        self.note_problem(why);
    }

    /// How [`Action::Fetch`] went.
    pub fn fetched(&mut self, outcome: Result<(), Unfetched>, now_ms: u64) {
        let State::Fetching(target) = &self.state else { return };
        let target = target.clone();
        self.state = State::Idle { until_ms: now_ms };
        match outcome {
            Ok(()) if self.is_wanted(&target.version) => {
                self.problem = None;
                self.memory.trying = Some(target.version.clone());
                let version = target.version.clone();
                self.actions.push_back(Action::Try { memory: self.memory.clone(), version });
                self.state = State::Trying(target);
            }
            Ok(()) => {}
            Err(Unfetched::Later(why)) => {
                self.note_problem(&why);
                self.state = State::Idle { until_ms: now_ms + AGAIN_MS };
            }
            Err(Unfetched::Never(why)) => {
                self.memory.refuse(target.version, &why);
                self.remember();
            }
        }
        self.settle(now_ms);
    }

    /// How [`Action::Try`] went.
    pub fn tried(&mut self, outcome: Result<(), String>, now_ms: u64) {
        let State::Trying(target) = &self.state else { return };
        let Target { version, trial } = target.clone();
        match (outcome, trial) {
            (Err(why), _) => self.refuse(version, &why),
            (Ok(()), Some(trial)) => {
                let newest = self.samples.back().map(|(_, counts)| *counts).unwrap_or_default();
                let oldest = self.samples.front().map_or(newest, |(_, counts)| *counts);
                let (before, start) = (newest.since(oldest), newest);
                self.state = State::Holding { version, trial, since_ms: now_ms, before, start };
                self.actions.push_back(Action::Report);
            }
            (Ok(()), None) => self.keep(version, now_ms),
        }
        self.settle(now_ms);
    }

    /// How [`Action::Return`] went.
    pub fn returned(&mut self, outcome: Result<(), String>, now_ms: u64) {
        if !matches!(self.state, State::Returning { again_ms: None }) {
            return;
        }
        match outcome {
            Ok(()) => {
                self.problem = None;
                self.state = State::Idle { until_ms: now_ms };
                self.actions.push_back(Action::Report);
            }
            Err(why) => {
                self.note_problem(&format!("it cannot go back: {why}"));
                self.state = State::Returning { again_ms: Some(now_ms + AGAIN_MS) };
            }
        }
        self.settle(now_ms);
    }

    /// What the node has counted until now. Asked for each second or so.
    pub fn counted(&mut self, counts: Counts, now_ms: u64) {
        self.samples.push_back((now_ms, counts));
        let old = |(at_ms, _): &(u64, Counts)| at_ms + BASELINE_MS < now_ms;
        while self.samples.front().is_some_and(old) {
            self.samples.pop_front();
        }
        if let State::Holding { version, trial, since_ms, before, start } = &self.state {
            let verdict = trial.band.judge(*before, counts.since(*start));
            let (version, is_over) = (version.clone(), now_ms >= since_ms + trial.hold_ms);
            match verdict {
                Err(why) => self.refuse(version, &why),
                Ok(()) if is_over => self.keep(version, now_ms),
                Ok(()) => {}
            }
        }
        self.settle(now_ms);
    }

    /// The process is about to end as it was asked to: what it tries is not to blame.
    pub fn ends(&mut self) {
        if self.memory.trying.take().is_some() {
            self.actions.clear();
            self.remember();
        }
    }

    /// Has what is wanted come about, where nothing is under way.
    fn settle(&mut self, now_ms: u64) {
        match &self.state {
            State::Holding { version, .. } if !self.is_wanted(version) => self.go_back(),
            State::Returning { again_ms: Some(again_ms) } if *again_ms <= now_ms => self.go_back(),
            State::Idle { until_ms } if *until_ms <= now_ms => self.begin(),
            _ => {}
        }
    }

    fn begin(&mut self) {
        match &self.wanted {
            Some(Some(target))
                if self.memory.kept.as_ref() != Some(&target.version)
                    && !self.memory.has_refused(&target.version) =>
            {
                self.actions.push_back(Action::Fetch(target.version.clone()));
                self.state = State::Fetching(target.clone());
            }
            Some(None) if self.memory.kept.is_some() => {
                self.memory.kept = None;
                self.go_back();
            }
            _ => {}
        }
    }

    fn is_wanted(&self, version: &Version) -> bool {
        let target = self.wanted.iter().flatten().next();
        target.is_some_and(|target| target.version == *version)
    }

    fn keep(&mut self, version: Version, now_ms: u64) {
        self.memory.kept = Some(version);
        self.memory.trying = None;
        self.problem = None;
        self.state = State::Idle { until_ms: now_ms };
        self.remember();
    }

    fn refuse(&mut self, version: Version, why: &str) {
        self.memory.refuse(version, why);
        self.go_back();
    }

    /// Also after a version that was not taken in: some of it may have been.
    fn go_back(&mut self) {
        self.memory.trying = None;
        let (memory, version) = (self.memory.clone(), self.memory.kept.clone());
        self.actions.push_back(Action::Return { memory, version });
        self.state = State::Returning { again_ms: None };
    }

    fn remember(&mut self) {
        self.actions.push_back(Action::Remember(self.memory.clone()));
        self.actions.push_back(Action::Report);
    }

    fn note_problem(&mut self, why: &str) {
        if self.problem.as_deref() != Some(why) {
            self.problem = Some(reason(why));
            self.actions.push_back(Action::Report);
        }
    }
}
