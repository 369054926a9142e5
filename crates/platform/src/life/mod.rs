//! The life of an app instance: what is done to it is a list of steps, each of which may be done twice.
//!
//! A step is journalled when it is done, so that whoever starts after a crash does the one that was
//! under way again and goes on. What instantiates or starts an app and fails is taken back by steps of
//! its own, journalled the same way, before anybody is told.

mod machine;
mod place;

pub use machine::{Task, Work};
pub(crate) use machine::{worked, works};
pub use place::{Place, Reach, Room, Tunnel};
pub(crate) use place::{Spot, Wish, disk_mib_max, place};

use freshet_documents::tree::{Change, Tree, escape};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where what the platform knows of lives is. No interface leads there.
const ROOT: &str = "/life/";

/// What is known of an instance besides what clients are told.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Life {
    /// Its package, by the name of the resource.
    pub(crate) package: String,
    /// What it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) granted: Option<Granted>,
    /// Where whoever instantiated it wants it to be.
    #[serde(default, skip_serializing_if = "Wish::is_none")]
    pub(crate) wish: Wish,
    /// What it should be, once it was instantiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    /// Starts in a row after it ended by itself, or tries to move it.
    #[serde(default)]
    pub(crate) restarts: u32,
    /// When it is started again, in milliseconds since 1970, where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restart_ms: Option<u64>,
    /// When it was started last.
    #[serde(default)]
    pub(crate) started_ms: u64,
    /// What is being done to it, or has failed and waits for a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<Operation>,
    /// Its host was lost, and it has no network on another one yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_lost: bool,
    /// Ports it serves, the lowest first, as its image says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<u16>,
    /// Rules in place of the descriptor's: `appTrafficRule` and `appDNSRule`.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub(crate) configured: serde_json::Value,
}

/// What an instance may use.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Granted {
    /// Name of the grant.
    pub(crate) id: String,
    /// The host's name.
    #[serde(default)]
    pub(crate) host: String,
    /// What it counts as, of what the host has.
    pub(crate) cpu_milli: u64,
    /// As well, in MiB.
    pub(crate) memory_mib: u64,
    /// What it may use at most.
    pub(crate) cpu_milli_max: u64,
    /// As well, in MiB.
    pub(crate) memory_mib_max: u64,
    /// Whole ones that are its own, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) accelerators: BTreeMap<String, u64>,
    /// Which of the addresses for apps is its own.
    pub(crate) slot: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Run {
    Started,
    Stopped,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Kind {
    Instantiate,
    Start,
    Stop,
    Terminate,
    /// To another host, as its own is lost.
    Move,
}

/// What came of something that was done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// It is not over yet.
    NotYet,
    /// It is done.
    Done,
    /// It is done, and the app serves these ports.
    Ports(Vec<u16>),
    /// Its host is lost, and does not run it any more.
    Lost,
}

/// One thing that is done. Each may be done again when it was done before, whole or in part.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Step {
    /// It gets another host.
    Place,
    /// The image becomes files.
    Unpack,
    /// It gets a network.
    Link,
    /// It runs.
    Start,
    /// It answers; its rules come into force with this.
    Answer,
    /// Its rules are out of force, and it is told.
    Leave,
    /// It has ended what it did, or had the time to.
    Drain,
    /// It does not run.
    Stop,
    /// It has no network.
    Unlink,
    /// It has no files.
    Clear,
}

impl Kind {
    /// What is done, in this order.
    pub(crate) const fn steps(self) -> &'static [Step] {
        use Step::{Answer, Clear, Drain, Leave, Link, Place, Start, Stop, Unlink, Unpack};
        match self {
            Self::Instantiate => &[Unpack, Link, Start, Answer],
            Self::Start => &[Start, Answer],
            Self::Stop => &[Leave, Drain, Stop],
            Self::Terminate => &[Leave, Drain, Stop, Unlink, Clear],
            Self::Move => &[Stop, Unlink, Clear, Place, Unpack, Link, Start, Answer],
        }
    }

    /// What takes it back; nothing where it is only done again.
    pub(crate) const fn undo(self) -> &'static [Step] {
        match self {
            Self::Instantiate => &[Step::Stop, Step::Unlink, Step::Clear],
            Self::Start => &[Step::Stop],
            Self::Stop | Self::Terminate | Self::Move => &[],
        }
    }

    /// Its `lcmOperation`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Instantiate => "INSTANTIATE",
            // A move is seen as what it comes to: the app is started.
            Self::Start | Self::Stop | Self::Move => "OPERATE",
            Self::Terminate => "TERMINATE",
        }
    }
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Way {
    /// Towards what was asked for.
    #[default]
    Forward,
    /// Back.
    Undo,
    /// Nowhere: it failed, and is tried again or given up by whoever asked.
    Failed,
}

/// An operation on an instance.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Operation {
    /// Name of its occurrence.
    pub(crate) id: String,
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) way: Way,
    /// Steps that are done, of this way.
    #[serde(default)]
    pub(crate) done: usize,
    /// When the step under way began, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    /// How long the app may take to end, in seconds; none where it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grace_s: Option<u64>,
    /// How often the step was tried in vain.
    #[serde(default)]
    pub(crate) tries: u32,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

impl Operation {
    pub(crate) fn new(id: &str, kind: Kind, grace_s: Option<u64>, now_ms: u64) -> Self {
        Self {
            id: id.to_owned(),
            kind,
            way: Way::Forward,
            done: 0,
            since_ms: now_ms,
            grace_s,
            tries: 0,
            why: None,
        }
    }

    /// What is to be done now.
    pub(crate) fn step(&self) -> Option<Step> {
        let steps = match self.way {
            Way::Forward => self.kind.steps(),
            Way::Undo => self.kind.undo(),
            Way::Failed => &[],
        };
        steps.get(self.done).copied()
    }
}

/// Whether a change is one of a life.
pub(crate) fn is_life(change: &Change) -> bool {
    is_life_path(&change.path)
}

/// Whether a change is a step of what ends an app, or takes one back.
pub(crate) fn frees(tree: &Tree, change: &Change) -> bool {
    let ends = |value: &serde_json::Value| {
        read(value).operation.is_some_and(|operation| {
            matches!(operation.kind, Kind::Stop | Kind::Terminate) || operation.way == Way::Undo
        })
    };
    is_life(change)
        && (change.value.as_ref().is_some_and(ends)
            || tree.get(&change.path).is_some_and(|before| ends(&before.value)))
}

/// As [`is_life`], of a path.
pub(crate) fn is_life_path(path: &str) -> bool {
    path.starts_with(ROOT)
}

impl Life {
    /// What is known of an instance.
    pub(crate) fn of(tree: &Tree, instance: &str) -> Option<Self> {
        let document = tree.get(&format!("{ROOT}{}", escape(instance)))?;
        Some(read(&document.value))
    }

    /// All of them, by their instances.
    pub(crate) fn all(tree: &Tree) -> impl Iterator<Item = (String, Self)> {
        tree.below(ROOT).map(|(path, document)| {
            (freshet_documents::query::decode(&path[ROOT.len()..]), read(&document.value))
        })
    }

    /// Whether it has its network: from when that is made until it is about to go.
    pub(crate) fn is_linked(&self) -> bool {
        let has_done = |operation: &Operation, step: Step| {
            operation.kind.steps().iter().take(operation.done).any(|one| *one == step)
        };
        match &self.operation {
            _ if self.is_lost => false,
            // What is taken back, or failed, does not count any more.
            Some(operation) if operation.kind == Kind::Instantiate => {
                operation.way == Way::Forward && has_done(operation, Step::Link)
            }
            Some(operation) if operation.kind == Kind::Terminate => {
                self.run.is_some() && !has_done(operation, Step::Stop)
            }
            _ => self.run.is_some(),
        }
    }

    pub(crate) fn put(&self, instance: &str) -> Change {
        let value = serde_json::to_value(self).expect("a life is plain data");
        Change::put(format!("{ROOT}{}", escape(instance)), value, None)
    }

    pub(crate) fn remove(instance: &str) -> Change {
        Change::remove(format!("{ROOT}{}", escape(instance)))
    }
}

fn read(value: &serde_json::Value) -> Life {
    serde_json::from_value(value.clone()).expect("the platform wrote it")
}
