//! How it goes, for metrics, commands and the log.

use crate::demand::Verdict;
use crate::error::FailureKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How it goes with one name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NameStatus {
    /// First and last second of its certificate, where there is one.
    pub validity_s: Option<(i64, i64)>,
    /// When it is ordered or renewed next, seconds of Unix time.
    pub due_s: i64,
    /// Attempts that failed in a row.
    pub failures: u32,
    /// The last of them: its kind and what happened.
    pub error: Option<(FailureKind, String)>,
}

/// What the operator's service says of names that clients ask for, as metrics count it.
const ANSWERS: [&str; 3] = ["yes", "no", "none"];

/// How it goes with all.
#[derive(Debug, Default)]
pub struct Status {
    names: Mutex<BTreeMap<String, NameStatus>>,
    /// Orders begun or resumed.
    pub attempts: AtomicU64,
    /// Certificates that came.
    pub obtained: AtomicU64,
    failures: [AtomicU64; FailureKind::ALL.len()],
    asked: [AtomicU64; ANSWERS.len()],
}

impl Status {
    /// Each name and how it goes.
    pub fn names(&self) -> Vec<(String, NameStatus)> {
        self.lock().iter().map(|(name, status)| (name.clone(), status.clone())).collect()
    }

    /// Failures by kind, all kinds.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        let counts = self.failures.iter().map(|count| count.load(Relaxed));
        FailureKind::ALL.iter().map(|kind| kind.as_str()).zip(counts).collect()
    }

    /// How often the operator's service said what of a name that clients ask for.
    pub fn asked(&self) -> Vec<(&'static str, u64)> {
        ANSWERS.into_iter().zip(self.asked.iter().map(|count| count.load(Relaxed))).collect()
    }

    pub(crate) fn answered(&self, verdict: &Verdict) {
        let [yes, no, none] = &self.asked;
        let count = match verdict {
            Verdict::Yes => yes,
            Verdict::No => no,
            Verdict::Unknown(_) => none,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self, kind: FailureKind) {
        let index = FailureKind::ALL.iter().position(|known| *known == kind);
        if let Some(count) = index.and_then(|index| self.failures.get(index)) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn set(&self, names: BTreeMap<String, NameStatus>) {
        *self.lock() = names;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NameStatus>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
