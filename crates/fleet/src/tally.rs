//! Who has carried an entry out, for who waits until all have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What waiting has come to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Some have not said so yet: these.
    Waiting(Vec<String>),
    /// There was no node to wait for.
    Nobody,
    /// All have carried it out.
    Applied,
    /// All have, and none has a site that it is about.
    NotMeant,
    /// All but these have, whose leases are over: they answer from nothing stored.
    Fenced(Vec<String>),
    /// These do not believe whoever has published it, and do nothing.
    Refused(Vec<String>),
}

impl Outcome {
    /// Whether a node has not said that it has carried it out.
    pub fn lacks(&self, node: &str) -> bool {
        match self {
            Self::Waiting(nodes) | Self::Fenced(nodes) => nodes.iter().any(|name| name == node),
            Self::Nobody | Self::Applied | Self::NotMeant | Self::Refused(_) => false,
        }
    }
}

/// Waits for one entry. Nodes it does not know of need no waiting for: their leases end like others'.
#[derive(Clone, Debug)]
pub struct Tally {
    sequence: u64,
    /// The last entry that the log is known to have.
    end: u64,
    /// What nodes say they have carried out beyond that.
    ahead: BTreeMap<Arc<str>, u64>,
    missing: BTreeSet<Arc<str>>,
    refusing: BTreeSet<String>,
    not_meant: BTreeSet<String>,
    /// Whether one of them has something that it may be about.
    is_meant: bool,
    fenced_ms: u64,
    waits_for_nobody: bool,
}

impl Tally {
    /// Begins at `now_ms`, behind the answer of the log that it has entry `sequence`, to wait for
    /// `nodes`, whose lease is `lease_ms` by clocks that may be a hundredth apart.
    pub fn new(
        sequence: u64,
        nodes: impl IntoIterator<Item = impl Into<Arc<str>>>,
        lease_ms: u64,
        now_ms: u64,
    ) -> Self {
        let fenced_ms = now_ms.saturating_add(lease_ms).saturating_add(lease_ms / 100);
        let missing: BTreeSet<_> = nodes.into_iter().map(Into::into).collect();
        let waits_for_nobody = missing.is_empty();
        let (refusing, not_meant) = (BTreeSet::new(), BTreeSet::new());
        let is_meant = false;
        Self {
            sequence,
            end: sequence,
            ahead: BTreeMap::new(),
            missing,
            refusing,
            not_meant,
            is_meant,
            fenced_ms,
            waits_for_nobody,
        }
    }

    /// A node does not believe entries of these numbers.
    pub fn refused(&mut self, node: &str, sequences: &[u64]) {
        if sequences.contains(&self.sequence) && self.missing.remove(node) {
            self.refusing.insert(node.to_owned());
        }
    }

    /// Entries of these numbers are about sites that a node does not have: to be told before that it has carried
    /// them out.
    pub fn not_meant(&mut self, node: &str, sequences: &[u64]) {
        if sequences.contains(&self.sequence) {
            self.not_meant.insert(node.to_owned());
        }
    }

    /// A node says that it has carried out all up to `sequence`. What it says of entries that the log is not
    /// known to have counts once it is.
    pub fn applied(&mut self, node: &str, sequence: u64) {
        if sequence > self.end {
            if let Some(node) = self.missing.get(node) {
                self.ahead.insert(Arc::clone(node), sequence);
            }
        } else if sequence >= self.sequence && self.missing.remove(node) {
            self.is_meant |= !self.not_meant.contains(node);
        }
    }

    /// Whether somebody says to be further than the log is known to be, so that it is to be asked.
    pub fn is_doubtful(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// The log ends with entry `end`, asked after all that nodes have said until now. Who was further says what is
    /// not so.
    pub fn ends_at(&mut self, end: u64) {
        self.end = self.end.max(end);
        for (node, sequence) in std::mem::take(&mut self.ahead) {
            if sequence <= self.end {
                self.applied(&node, sequence);
            }
        }
    }

    /// What is known at `now_ms`.
    pub fn outcome(&self, now_ms: u64) -> Outcome {
        let missing = || self.missing.iter().map(ToString::to_string).collect();
        match self.missing.is_empty() {
            true if !self.refusing.is_empty() => {
                Outcome::Refused(self.refusing.iter().cloned().collect())
            }
            true if self.waits_for_nobody => Outcome::Nobody,
            true if !self.is_meant => Outcome::NotMeant,
            true => Outcome::Applied,
            false if now_ms >= self.fenced_ms => Outcome::Fenced(missing()),
            false => Outcome::Waiting(missing()),
        }
    }

    /// When those that are still missing are fenced.
    pub fn fenced_ms(&self) -> u64 {
        self.fenced_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_waited_for_and_then_fenced() {
        let mut tally = Tally::new(7, ["a", "b"], 5_000, 1_000);
        tally.applied("a", 6);
        tally.applied("b", 7);
        tally.applied("stranger", 7);
        assert_eq!(tally.outcome(6_049), Outcome::Waiting(vec!["a".into()]));
        assert_eq!(tally.outcome(tally.fenced_ms()), Outcome::Fenced(vec!["a".into()]));
        tally.applied("a", 7);
        assert_eq!(tally.outcome(2_000), Outcome::Applied);
        assert_eq!(Tally::new(1, [""; 0], 5_000, 0).outcome(0), Outcome::Nobody);
    }

    #[test]
    fn what_no_node_has_a_site_for_is_said_to_be_so() {
        let mut tally = Tally::new(7, ["a", "b"], 5_000, 0);
        tally.not_meant("a", &[7, 6]);
        tally.applied("a", 7);
        let mut other = tally.clone();
        tally.not_meant("b", &[6]);
        tally.applied("b", 7);
        assert_eq!(tally.outcome(10), Outcome::Applied);
        other.not_meant("b", &[7]);
        other.applied("b", 7);
        assert_eq!(other.outcome(10), Outcome::NotMeant);
    }

    #[test]
    fn who_is_further_than_the_log_has_carried_nothing_out() {
        let mut tally = Tally::new(7, ["a", "b"], 5_000, 0);
        tally.applied("stranger", u64::MAX);
        assert!(!tally.is_doubtful());
        tally.applied("a", 9);
        tally.applied("b", u64::MAX);
        assert_eq!(tally.outcome(10), Outcome::Waiting(vec!["a".into(), "b".into()]));
        assert!(tally.is_doubtful());
        tally.ends_at(9);
        assert_eq!(tally.outcome(10), Outcome::Waiting(vec!["b".into()]));
        assert!(!tally.is_doubtful());
        tally.applied("b", 8);
        assert_eq!(tally.outcome(10), Outcome::Applied);
    }

    #[test]
    fn a_stranger_who_does_not_believe_it_counts_for_nothing() {
        let mut tally = Tally::new(7, ["a"], 5_000, 0);
        tally.refused("stranger", &[7]);
        tally.applied("a", 7);
        assert_eq!(tally.outcome(10), Outcome::Applied);
    }

    #[test]
    fn who_does_not_believe_it_has_not_carried_it_out() {
        let mut tally = Tally::new(7, ["a", "b"], 5_000, 0);
        tally.refused("a", &[5, 6]);
        tally.refused("a", &[6, 7]);
        tally.applied("a", 7);
        assert_eq!(tally.outcome(10), Outcome::Waiting(vec!["b".into()]));
        tally.applied("b", 7);
        assert_eq!(tally.outcome(10), Outcome::Refused(vec!["a".into()]));
    }
}
