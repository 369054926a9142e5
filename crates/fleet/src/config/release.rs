//! What a group of nodes runs, and what is on its way to them.

use super::agent::Refusal;
use super::health::Band;
use crate::limits::{HISTORY_MAX, REASON_CHARACTERS_MAX};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;

/// The form that this version writes, and the newest it reads.
const FORMAT: u32 = 1;

/// A bundle as the fleet's operators know it.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Version {
    /// Counts up in its group. The same bundle given again has another.
    pub number: u64,
    /// The bundle's name, which is one of a folder too.
    #[serde(deserialize_with = "bundle_name")]
    pub bundle: String,
}

/// Whoever writes to the servers may not have nodes look elsewhere on their disks.
fn bundle_name<'d, D: Deserializer<'d>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    match !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(name),
        false => Err(D::Error::custom(format!("`{name}` is no name of a bundle"))),
    }
}

/// Who did something, when and why.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Author {
    /// As `anna@desk`.
    pub who: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// In the words of who did it.
    pub why: String,
}

/// How a node finds out whether it keeps a version.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Trial {
    /// How long its clients must fare no worse.
    pub hold_ms: u64,
    /// What is worse.
    pub band: Band,
}

/// How a version comes to the nodes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Plan {
    /// Names of nodes, those that are first first. With the last stage all nodes of the group are
    /// meant, and those that it names are waited for.
    pub stages: Vec<Vec<String>>,
    /// How each finds out.
    pub trial: Trial,
    /// How long a node of a stage may take until it has kept the version.
    pub patience_ms: u64,
}

/// A version on its way.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Rollout {
    /// What is on its way.
    pub version: Version,
    /// How.
    pub plan: Plan,
    /// The last stage that is open, from 0.
    pub reached: usize,
    /// By whom.
    pub by: Author,
}

/// A version that is not on its way any more.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Past {
    /// Which.
    pub version: Version,
    /// By whom.
    pub by: Author,
    /// What became of it.
    pub end: End,
}

/// What became of a version.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All nodes kept it.
    Kept,
    /// It was taken back, for this reason.
    Back(String),
}

/// One group of a fleet.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Release {
    /// What its nodes run, but for those that a roll-out has reached.
    pub stable: Option<Version>,
    /// What is on its way.
    pub rollout: Option<Rollout>,
    /// What was before, the newest first; the stable one is among them.
    pub history: Vec<Past>,
    /// Milliseconds since 1970 when it was changed, and more than it was before: servers that have nodes
    /// believe an older document are found out.
    #[serde(default)]
    pub stamp_ms: u64,
}

/// What a node is to run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// Which.
    pub version: Version,
    /// How it finds out whether it keeps it; a version that others have kept is kept at once.
    pub trial: Option<Trial>,
}

/// What a node says of its configuration.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConfigState {
    /// The group whose configuration it gets.
    pub group: String,
    /// What it may be chosen by.
    pub labels: Vec<String>,
    /// What it runs, unless it is trying something.
    pub kept: Option<Version>,
    /// What it tries.
    pub trying: Option<Version>,
    /// What it went back from last, or did not take at all.
    pub refused: Option<Refusal>,
    /// What keeps it from getting on.
    pub problem: Option<String>,
}

/// What is to be done with a roll-out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// These nodes have not kept it yet.
    Wait(Vec<String>),
    /// The next stage may begin.
    Advance,
    /// All have kept it.
    Finish,
    /// It has to be taken back.
    Back(String),
}

/// Another version is on its way.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error(
    "version {number} of {who} is on its way, at stage {stage}: wait for it, see to it with \
     `freshet fleet config resume`, or take it back with `rollback`"
)]
pub struct Busy {
    number: u64,
    who: String,
    stage: String,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize)]
struct Written<'a> {
    format: u32,
    #[serde(flatten)]
    release: &'a Release,
}

impl Release {
    /// The bytes that servers keep.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&Written { format: FORMAT, release: self }).expect("it is JSON")
    }

    /// What servers kept.
    ///
    /// # Errors
    /// It is none that this version can read, in words for whoever has to mend that.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let broken = |error: serde_json::Error| format!("the group's document is broken: {error}");
        let Format { format } = serde_json::from_slice(bytes).map_err(broken)?;
        if format > FORMAT {
            return Err(format!(
                "the group's document is of a newer version of Freshet (form {format}, this one \
                 reads {FORMAT}): upgrade this one"
            ));
        }
        serde_json::from_slice(bytes).map_err(broken)
    }

    /// The same, changed now.
    pub fn stamped(&self, now_ms: u64) -> Self {
        Self { stamp_ms: now_ms.max(self.stamp_ms + 1), ..self.clone() }
    }

    /// Sends a bundle on its way; its version.
    ///
    /// # Errors
    /// Another is on its way.
    pub fn begin(&mut self, bundle: String, plan: Plan, by: Author) -> Result<Version, Busy> {
        if let Some(rollout) = &self.rollout {
            return Err(Busy {
                number: rollout.version.number,
                who: rollout.by.who.clone(),
                stage: rollout.stage(),
            });
        }
        let version = Version { number: self.last_number() + 1, bundle };
        let plan = Plan { stages: disjoint(plan.stages), ..plan };
        let by = Author { why: reason(&by.why), ..by };
        self.rollout = Some(Rollout { version: version.clone(), plan, reached: 0, by });
        Ok(version)
    }

    /// Opens the next stage.
    pub fn advance(&mut self) {
        if let Some(rollout) = &mut self.rollout {
            rollout.reached = (rollout.reached + 1).min(rollout.last_stage());
        }
    }

    /// Has what is on its way be what all nodes run.
    pub fn finish(&mut self) {
        if let Some(rollout) = self.rollout.take() {
            self.stable = Some(rollout.version.clone());
            self.note(rollout, End::Kept);
        }
    }

    /// Takes back what is on its way.
    pub fn back(&mut self, why: &str) {
        if let Some(rollout) = self.rollout.take() {
            self.note(rollout, End::Back(reason(why)));
        }
    }

    fn note(&mut self, Rollout { version, by, .. }: Rollout, end: End) {
        self.history.insert(0, Past { version, by, end });
        self.history.truncate(HISTORY_MAX);
    }

    fn last_number(&self) -> u64 {
        let stable = self.stable.iter().map(|version| version.number);
        self.history.iter().map(|past| past.version.number).chain(stable).max().unwrap_or(0)
    }

    /// What this node is to run; `None` where that is nothing but its own file.
    pub fn target(&self, node: &str) -> Option<Target> {
        if let Some(rollout) = self.rollout.as_ref().filter(|rollout| rollout.has_reached(node)) {
            let trial = Some(rollout.plan.trial);
            return Some(Target { version: rollout.version.clone(), trial });
        }
        let version = self.stable.clone()?;
        Some(Target { version, trial: None })
    }

    /// The newest that was kept before what is stable, and was something else.
    pub fn before(&self) -> Option<&Past> {
        let stable = self.stable.as_ref()?;
        self.history.iter().find(|past| {
            past.end == End::Kept
                && past.version.number < stable.number
                && past.version.bundle != stable.bundle
        })
    }

    /// What is tried again by whoever asks for it without a number: what was taken back last, or what all
    /// run and some node has refused, as these say of themselves.
    pub fn to_retry(&self, states: &BTreeMap<String, ConfigState>) -> Option<&Past> {
        let stable = self.stable.as_ref()?;
        let refuses = |state: &ConfigState| {
            state.refused.as_ref().is_some_and(|refusal| refusal.version == *stable)
        };
        let newest = self.history.first();
        let back = newest.filter(|past| matches!(past.end, End::Back(_)));
        let is_refused = states.values().any(refuses);
        back.or_else(|| self.numbered(stable.number).filter(|_| is_refused))
    }

    /// The names of all bundles that somebody may still ask for.
    pub fn bundles(&self) -> impl Iterator<Item = &str> {
        let on_its_way = self.rollout.iter().map(|rollout| &rollout.version);
        let past = self.history.iter().map(|past| &past.version);
        self.stable.iter().chain(on_its_way).chain(past).map(|version| version.bundle.as_str())
    }

    /// The version of this number, if it is remembered.
    pub fn numbered(&self, number: u64) -> Option<&Past> {
        self.history.iter().find(|past| past.version.number == number)
    }
}

impl Rollout {
    fn last_stage(&self) -> usize {
        self.plan.stages.len().saturating_sub(1)
    }

    fn has_reached(&self, node: &str) -> bool {
        self.reached >= self.last_stage() || self.open().any(|name| name == node)
    }

    /// The nodes of all stages that are open.
    fn open(&self) -> impl Iterator<Item = &str> {
        self.plan.stages.iter().take(self.reached + 1).flatten().map(String::as_str)
    }

    /// Where it is, as `2 of 3`.
    pub fn stage(&self) -> String {
        format!("{} of {}", self.reached + 1, self.last_stage() + 1)
    }

    /// What is to be done, by what nodes said lately, with their names, and the time since this stage
    /// began or since somebody has begun to look. A node that says nothing is waited for, and then it
    /// may be this version that silenced it.
    pub fn verdict(&self, states: &BTreeMap<String, ConfigState>, elapsed_ms: u64) -> Verdict {
        let mut waiting = Vec::new();
        for node in self.open() {
            let state = states.get(node);
            let refused = state.and_then(|state| state.refused.as_ref());
            if let Some(refusal) = refused.filter(|refusal| refusal.version == self.version) {
                return Verdict::Back(reason(&format!("{node}: {}", refusal.why)));
            }
            if state.is_none_or(|state| state.kept.as_ref() != Some(&self.version)) {
                waiting.push(node.to_owned());
            }
        }
        match waiting.first() {
            Some(node) if elapsed_ms > self.plan.patience_ms => {
                let seconds = self.plan.patience_ms / 1000;
                Verdict::Back(format!("{node} has not kept it within {seconds} s"))
            }
            Some(_) => Verdict::Wait(waiting),
            None if self.reached >= self.last_stage() => Verdict::Finish,
            None => Verdict::Advance,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.bundle.get(..12).unwrap_or(&self.bundle))
    }
}

/// Each node in the first stage that has it; no stage but the last is empty.
fn disjoint(stages: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let mut known = BTreeSet::new();
    let last = stages.len().saturating_sub(1);
    let fresh = |stage: Vec<String>| -> Vec<String> {
        stage.into_iter().filter(|name| known.insert(name.clone())).collect()
    };
    let stages: Vec<_> = stages.into_iter().map(fresh).collect();
    let mut out: Vec<_> = stages
        .into_iter()
        .enumerate()
        .filter(|(at, stage)| *at == last || !stage.is_empty())
        .map(|(_, stage)| stage)
        .collect();
    if out.is_empty() {
        out.push(Vec::new());
    }
    out
}

/// What is remembered of a reason.
pub(crate) fn reason(text: &str) -> String {
    text.trim_end().chars().take(REASON_CHARACTERS_MAX).collect()
}
