//! Whether what a node says was said lately, whatever its clock says.
//!
//! ```text
//!  who asks ──────call, with a nonce─────→ node
//!  log ──────────entry, with a nonce─────→ node
//!  node ──number, nonces it has heard────→ who asks
//! ```
//!
//! What names a [`Nonce`] was said after that was made: so nothing that was recorded before counts for an answer. Of what a
//! node says behind one nonce the number tells what was said last. Numbers begin with the node's clock, which may be set
//! back before its process begins anew: what names a later nonce was said later, whatever its number.

use crate::entry::Digest;
use crate::limits::{NONCE_KEPT_MS, NONCE_LIFE_MS, NONCES_MAX};
use crate::signature::SignatureError;
use aws_lc_rs::rand;
use freshet_base::hexadecimal;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;

/// A number that nobody knows before it is sent. It is no secret.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Nonce(u64);

impl Nonce {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, SignatureError> {
        let mut bytes = [0; 8];
        rand::fill(&mut bytes).map_err(|_| SignatureError::LocalRandom)?;
        Ok(Self(u64::from_be_bytes(bytes)))
    }
}

/// Who names an entry's digest has heard of the nonce in it.
impl From<Digest> for Nonce {
    fn from(Digest(digest): Digest) -> Self {
        Self(digest)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Nonce {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        hexadecimal::decode(text).map(|bytes| Self(u64::from_be_bytes(bytes))).ok_or(())
    }
}

/// The nonces that a node has heard lately: the last [`NONCES_MAX`], for [`NONCE_KEPT_MS`].
#[derive(Clone, Debug, Default)]
pub struct HeardNonces(VecDeque<(Nonce, u64)>);

impl HeardNonces {
    /// One was heard at `now_ms`, by a clock that never steps.
    pub fn hear(&mut self, nonce: Nonce, now_ms: u64) {
        self.0.truncate(NONCES_MAX - 1);
        self.0.push_front((nonce, now_ms));
    }

    /// Those that are to be named at `now_ms`, the last first.
    pub fn named(&self, now_ms: u64) -> impl Iterator<Item = Nonce> {
        let is_kept = move |at_ms: u64| now_ms.saturating_sub(at_ms) <= NONCE_KEPT_MS;
        self.0.iter().take_while(move |(_, at_ms)| is_kept(*at_ms)).map(|(nonce, _)| *nonce)
    }
}

/// When something was said: behind which of the nonces that were sent, and with which number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Moment {
    nonce: u64,
    number: u64,
}

/// What who asks has sent, and what each node has said last.
#[derive(Clone, Debug, Default)]
pub struct Freshness {
    /// With their numbers in the order they were sent, and when each was.
    sent: VecDeque<(u64, Nonce, u64)>,
    next: u64,
    last: HashMap<String, Moment>,
}

impl Freshness {
    /// A nonce is sent at `now_ms`, by a clock that never steps. What names it counts for [`NONCE_LIFE_MS`].
    pub fn sends(&mut self, nonce: Nonce, now_ms: u64) {
        self.sent.retain(|(_, _, at_ms)| now_ms.saturating_sub(*at_ms) <= NONCE_LIFE_MS);
        self.sent.truncate(NONCES_MAX - 1);
        self.sent.push_front((self.next, nonce, now_ms));
        self.next += 1;
    }

    /// When a node said something that has this number and names these nonces; nothing where that is not known to be
    /// lately, or not behind what it has said before.
    pub fn moment(
        &self,
        node: &str,
        number: u64,
        named: impl Iterator<Item = Nonce>,
        now_ms: u64,
    ) -> Option<Moment> {
        let counts = |at_ms: u64| now_ms.saturating_sub(at_ms) <= NONCE_LIFE_MS;
        let sent = |named: Nonce| {
            let found = self.sent.iter().find(|(_, nonce, _)| *nonce == named);
            found.filter(|(_, _, at_ms)| counts(*at_ms)).map(|(order, _, _)| *order)
        };
        let moment = Moment { nonce: named.filter_map(sent).max()?, number };
        self.last.get(node).is_none_or(|last| moment > *last).then_some(moment)
    }

    /// What a node said at this moment is believed: nothing from before it is from now on. Whether it is the last so far.
    pub fn took(&mut self, node: &str, moment: Moment) -> bool {
        match self.last.get_mut(node) {
            Some(last) if moment <= *last => return false,
            Some(last) => *last = moment,
            None => drop(self.last.insert(node.to_owned(), moment)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Nonce = Nonce(1);
    const B: Nonce = Nonce(2);

    /// What is taken of a node's words, in this order.
    fn taken(freshness: &mut Freshness, words: &[(u64, &[Nonce])], now_ms: u64) -> Vec<bool> {
        let take = |(number, named): &(u64, &[Nonce])| {
            let moment = freshness.moment("a", *number, named.iter().copied(), now_ms);
            moment.is_some_and(|moment| freshness.took("a", moment))
        };
        words.iter().map(take).collect()
    }

    #[test]
    fn a_nonce_is_written_and_read_and_none_is_another() {
        let nonce = Nonce::random().unwrap();
        assert_eq!(nonce.to_string().parse(), Ok(nonce));
        assert_ne!(Nonce::random(), Ok(nonce));
        for wrong in ["", "1", "00000000000000000", "+000000000000001", "g000000000000000"] {
            assert!(wrong.parse::<Nonce>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_was_said_before_the_question_does_not_count_and_nothing_counts_twice() {
        let mut freshness = Freshness::default();
        assert_eq!(taken(&mut freshness, &[(9, &[A])], 0), [false]);
        freshness.sends(A, 0);
        let words: [(u64, &[Nonce]); 5] = [(5, &[]), (6, &[B, A]), (6, &[A]), (5, &[A]), (7, &[A])];
        assert_eq!(taken(&mut freshness, &words, 10), [false, true, false, false, true]);
        // A question is good for a while only.
        assert_eq!(taken(&mut freshness, &[(8, &[A])], NONCE_LIFE_MS), [true]);
        assert_eq!(taken(&mut freshness, &[(9, &[A])], NONCE_LIFE_MS + 1), [false]);
    }

    #[test]
    fn a_node_whose_clock_was_set_back_is_believed_behind_the_next_question() {
        let mut freshness = Freshness::default();
        freshness.sends(A, 0);
        assert_eq!(taken(&mut freshness, &[(1_000, &[A]), (3, &[A])], 0), [true, false]);
        freshness.sends(B, 10);
        let words: [(u64, &[Nonce]); 3] = [(4, &[A, B]), (1_001, &[A]), (5, &[B])];
        assert_eq!(taken(&mut freshness, &words, 10), [true, false, true]);
    }

    #[test]
    fn a_node_names_what_it_heard_lately_and_so_much_of_it() {
        let mut heard = HeardNonces::default();
        for number in 0..100 {
            heard.hear(Nonce(number), number);
        }
        assert_eq!(heard.named(99).count(), NONCES_MAX);
        assert_eq!(heard.named(99).next(), Some(Nonce(99)));
        assert_eq!(heard.named(99 + NONCE_KEPT_MS).collect::<Vec<_>>(), [Nonce(99)]);
        assert_eq!(heard.named(100 + NONCE_KEPT_MS).next(), None);
    }
}
