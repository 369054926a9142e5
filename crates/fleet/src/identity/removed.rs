//! Nodes that belong to a fleet no more, while their certificates still hold.

use crate::limits::REMOVED_MAX;
use freshet_base::clock::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form that this version writes, and the newest it reads.
const FORMAT: u32 = 1;

/// Names of nodes whose certificates nobody is to take any more. None of them is given to another node while one of its
/// certificates may hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Removed(BTreeMap<String, UnixMillis>);

#[derive(Deserialize, Serialize)]
struct Written {
    format: u32,
    /// Until when each is refused, in milliseconds since 1970.
    nodes: BTreeMap<String, u64>,
}

impl Removed {
    /// Adds a node, whose certificates all have ended by `until`.
    pub fn add(&mut self, node: &str, until: UnixMillis) {
        let known = self.0.entry(node.to_owned()).or_default();
        *known = until.max(*known);
        while self.0.len() > REMOVED_MAX
            && let Some(first) = self.0.iter().min_by_key(|(_, until)| **until)
        {
            let node = first.0.clone();
            self.0.remove(&node);
        }
    }

    /// Until when a node is refused that is at `now`.
    pub fn until(&self, node: &str, now: UnixMillis) -> Option<UnixMillis> {
        self.0.get(node).copied().filter(|until| *until > now)
    }

    /// Without those whose certificates had all ended by `now`: their names may be others' again.
    #[must_use]
    pub fn at(mut self, now: UnixMillis) -> Self {
        self.0.retain(|_, until| *until > now);
        self
    }

    /// Their names.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// As it is written.
    pub fn encode(&self) -> Vec<u8> {
        let nodes = self.0.iter().map(|(node, until)| (node.clone(), until.0)).collect();
        serde_json::to_vec(&Written { format: FORMAT, nodes }).unwrap_or_default()
    }

    /// What was written.
    ///
    /// # Errors
    /// It is something else, or a newer version wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Written { format, nodes } = serde_json::from_slice(bytes)
            .map_err(|error| format!("the list of removed nodes cannot be read: {error}"))?;
        if format > FORMAT {
            return Err("a newer version of Freshet wrote the list of removed nodes".into());
        }
        Ok(Self(nodes.into_iter().map(|(node, until)| (node, UnixMillis(until))).collect()))
    }
}
