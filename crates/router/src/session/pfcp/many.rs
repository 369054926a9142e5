//! Many sessions end at once: an association is released or set up anew (TS 29.244 §6.2.6, §6.2.8), or sets of
//! sessions are deleted (§6.2.9, TS 23.007 §23).

use super::wire::{Message, element, elements, find, node_of, sets_of};
use super::{ACCEPTED, Change, Copies, Key, Known, Request, Unread};
use std::net::IpAddr;

/// Requests that concern many sessions; a response has the next number.
pub(super) const SET_UP: u8 = 5;
pub(super) const RELEASE: u8 = 9;
pub(super) const DELETE_SETS: u8 = 14;
/// A flag of the answer to a set-up: sessions of before were kept (PSREI, §8.2.127).
const KEPT: u8 = 1;

/// Part of a network that can fail as one (FQ-CSID, §8.2.50): the node that named it, and its number there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Set {
    pub(super) node: [u8; 17],
    pub(super) number: u16,
}

/// Sets that a session is in: one of each node on its way.
const SETS_MAX: usize = 16;

impl Known {
    /// Takes over the sets of a node, in the place of those it named before.
    pub(super) fn take_sets(&mut self, value: &[u8]) -> Option<()> {
        let sets = sets_of(value)?;
        self.sets.retain(|before| sets.iter().all(|set| set.node != before.node));
        let room = SETS_MAX.saturating_sub(self.sets.len());
        self.sets.extend(sets.into_iter().take(room));
        Some(())
    }
}

impl Copies {
    /// A request that has an effect when it is accepted.
    pub(super) fn asks_of_many(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<Vec<Change>, Unread> {
        let is_whole = match message.kind {
            DELETE_SETS => sets(message.elements).is_some(),
            _ => node_of(message.elements).is_some(),
        };
        if !is_whole {
            return Err(Unread::Malformed);
        }
        self.keep(source, destination, message);
        Ok(Vec::new())
    }

    /// What was asked for is done.
    pub(super) fn done_of_many(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<Vec<Change>, Unread> {
        let (Request { kind, elements: asked, .. }, cause) =
            self.answered(source, destination, message)?;
        if !cause.is_some_and(|cause| ACCEPTED.contains(&cause)) {
            return Ok(Vec::new());
        }
        // A control plane asks a user plane, but for sets, where either may.
        let is_meant = |key: &Key, known: &Known| match kind {
            DELETE_SETS => {
                let sets = sets(&asked).unwrap_or_default();
                [source, destination].contains(&key.user_plane)
                    && known.sets.iter().any(|set| sets.contains(set))
            }
            _ => key.user_plane == source && known.is_of(node_of(&asked), destination),
        };
        let flags = find(message.elements, element::SET_UP_FLAGS).and_then(|value| value.first());
        if kind == SET_UP && flags.is_some_and(|flags| flags & KEPT != 0) {
            return Ok(Vec::new());
        }
        let meant = self.sessions.iter().filter(|(key, known)| is_meant(key, known));
        let meant: Vec<Key> = meant.map(|(key, _)| *key).collect();
        Ok(self.lost(&meant))
    }

    /// These sessions are no more.
    pub(super) fn lost(&mut self, keys: &[Key]) -> Vec<Change> {
        let mut changes = Vec::new();
        for key in keys {
            let known = self.sessions.remove(key).unwrap_or_default();
            let clients = known.clients(&self.networks).collect();
            changes.extend(self.ended(*key, clients));
        }
        changes
    }
}

impl Known {
    /// Whether a control plane made it: by its name, or by its address where it said none.
    fn is_of(&self, node: Option<&[u8]>, address: IpAddr) -> bool {
        match (&self.node, node) {
            (Some(own), Some(node)) => own[..] == *node,
            _ => self.control_plane == Some(address),
        }
    }
}

/// All sets that a request names; none where one cannot be read.
fn sets(list: &[u8]) -> Option<Vec<Set>> {
    let named = elements(list).filter(|(kind, _)| *kind == element::SETS);
    Some(named.map(|(_, value)| sets_of(value)).collect::<Option<Vec<_>>>()?.concat())
}
