//! A table that is in use: how its nodes are at the moment, and what was decided so far.

use crate::config::{Config, Redirects, Watched};
use crate::decision::{Health, NodeId, Standing, Table, View};
use freshet_base::clock::UnixMillis;
use freshet_origin::{Origin, health};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A table with what is known of its nodes. Another configuration is another one, into which nodes that
/// did not change are taken over with all that is known of them.
#[derive(Debug)]
pub struct Routing {
    /// What decisions are made by.
    pub table: Table,
    /// For each site, what clients are told over HTTP.
    pub redirects: Vec<Redirects>,
    /// For each site, what was decided.
    pub counts: Vec<Arc<Counts>>,
    /// For each node of the table.
    pub nodes: Vec<Arc<Live>>,
    ramp: Duration,
}

/// A node that is watched.
#[derive(Debug)]
pub struct Live {
    /// Its name.
    pub name: String,
    /// What is asked how it is.
    pub origin: Option<Arc<Origin>>,
    is_drained: bool,
    /// Requests sent to it lately: what is older counts half as much with each [`Routing::fade`].
    lately: AtomicU64,
    /// Requests sent to it.
    pub sent: AtomicU64,
}

/// What became of a question about a site.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Sent to a node.
    Sent,
    /// Sent to the node it had before.
    Kept,
    /// In no zone, where a site is for zones only.
    Refused,
    /// Sent past all nodes.
    Bypassed,
    /// There was no node.
    Nobody,
}

impl Outcome {
    /// All of them, with their names in metrics.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Sent, "sent"),
        (Self::Kept, "kept"),
        (Self::Refused, "refused"),
        (Self::Bypassed, "bypassed"),
        (Self::Nobody, "nobody"),
    ];
}

/// What was decided for a site.
#[derive(Debug, Default)]
pub struct Counts {
    outcomes: [AtomicU64; Outcome::ALL.len()],
}

impl Counts {
    /// One more.
    pub fn count(&self, outcome: Outcome) {
        if let Some(cell) = self.outcomes.get(outcome as usize) {
            cell.fetch_add(1, Relaxed);
        }
    }

    /// How many until now.
    pub fn value(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome as usize).map_or(0, |cell| cell.load(Relaxed))
    }
}

impl Routing {
    /// What a configuration says, with what is known of the same nodes and sites from before.
    ///
    /// # Errors
    /// A node that cannot be asked as it says.
    pub fn new(config: Config, before: Option<&Self>) -> Result<Self, String> {
        let Config { table, watched, redirects, ramp, .. } = config;
        let mut nodes = Vec::new();
        for (node, watched) in table.nodes().iter().zip(watched) {
            nodes.push(Arc::new(Live::new(&node.name, watched, before)?));
        }
        let known = |name: &str| {
            let before = before?;
            let at = before.table.sites().iter().position(|site| site.name == name)?;
            before.counts.get(at).map(Arc::clone)
        };
        let counts =
            table.sites().iter().map(|site| known(&site.name).unwrap_or_default()).collect();
        Ok(Self { table, redirects, counts, nodes, ramp })
    }

    /// How nodes are at `now`.
    pub fn at(&self, now: UnixMillis) -> Now<'_> {
        Now { routing: self, now }
    }

    /// Counts a request that is sent to a node.
    pub fn note_sent(&self, node: NodeId) {
        if let Some(live) = self.nodes.get(node as usize) {
            live.lately.fetch_add(1, Relaxed);
            live.sent.fetch_add(1, Relaxed);
        }
    }

    /// Has what was sent until now count half as much; called each [`FADE`].
    pub fn fade(&self) {
        for live in &self.nodes {
            // What is counted in between is lost, which is a handful of many.
            live.lately.store(live.lately.load(Relaxed) / 2, Relaxed);
        }
    }
}

/// How often what was sent fades.
pub const FADE: Duration = Duration::from_secs(5);

impl Live {
    fn new(name: &str, watched: Watched, before: Option<&Routing>) -> Result<Self, String> {
        let known = before.and_then(|before| before.nodes.iter().find(|live| live.name == name));
        let origin = match (watched.by, known.and_then(|known| known.origin.as_ref())) {
            (None, _) => None,
            (Some(by), Some(origin)) if origin.settings == by => Some(Arc::clone(origin)),
            (Some(by), _) => {
                Some(Origin::new(by).map_err(|error| format!("node {name}: {error}"))?)
            }
        };
        let count = |cell: fn(&Self) -> &AtomicU64| {
            AtomicU64::new(known.map_or(0, |known| cell(known).load(Relaxed)))
        };
        Ok(Self {
            name: name.to_owned(),
            origin,
            is_drained: watched.is_drained,
            lately: count(|known| &known.lately),
            sent: count(|known| &known.sent),
        })
    }

    /// How it is at `now`; one that came back takes `ramp` to have all its keys again.
    pub fn standing(&self, now: UnixMillis, ramp: Duration) -> Standing {
        if self.is_drained {
            return Standing { health: Health::Drained, share_percent: 0 };
        }
        let Some(cell) = self.origin.as_ref().map(|origin| &origin.health) else {
            return Standing { health: Health::Up, share_percent: 100 };
        };
        let health = match cell.health(now) {
            health::Health::Up => Health::Up,
            health::Health::Suspect => Health::Suspect,
            health::Health::Down => Health::Down,
        };
        let changed = cell.changed();
        let since = now.since(changed);
        let share_percent = if changed == UnixMillis::default() || since >= ramp {
            100
        } else {
            // At least one key in a hundred, or it would not be seen that it works.
            let percent = since.as_millis() * 100 / ramp.as_millis().max(1);
            u8::try_from(percent).unwrap_or(100).clamp(1, 100)
        };
        Standing { health, share_percent }
    }
}

/// The nodes of a [`Routing`] at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    routing: &'a Routing,
    now: UnixMillis,
}

impl View for Now<'_> {
    fn standing(&self, node: NodeId) -> Standing {
        let none = Standing { health: Health::Down, share_percent: 0 };
        let live = self.routing.nodes.get(node as usize);
        live.map_or(none, |live| live.standing(self.now, self.routing.ramp))
    }

    fn sent(&self, node: NodeId) -> u64 {
        self.routing.nodes.get(node as usize).map_or(0, |live| live.lately.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    const TEXT: &str = "[[region]]\nname = \"a\"\n[[node]]\nname = \"n\"\nregion = \"a\"\n\
                        addresses = [\"192.0.2.1\"]\n[[node]]\nname = \"m\"\nregion = \"a\"\nhost = \"m\"\n";

    #[test]
    fn a_node_that_came_back_takes_more_keys_with_time() {
        let routing = Routing::new(read(TEXT).unwrap(), None).unwrap();
        let standing = |ms| routing.at(UnixMillis(ms)).standing(0);
        assert_eq!(standing(1), Standing { health: Health::Up, share_percent: 100 });
        let health = &routing.nodes[0].origin.as_ref().unwrap().health;
        health.probed(false, UnixMillis(1_000));
        assert_eq!(standing(2_000).health, Health::Down);
        health.probed(true, UnixMillis(10_000));
        let shares: Vec<_> = [10_000, 25_000, 40_000].map(|ms| standing(ms).share_percent).into();
        assert_eq!(shares, [1, 50, 100]);
    }

    #[test]
    fn what_is_known_of_a_node_outlives_a_reload() {
        let before = Routing::new(read(TEXT).unwrap(), None).unwrap();
        before.note_sent(0);
        before.counts[0].count(Outcome::Sent);
        before.nodes[0].origin.as_ref().unwrap().health.probed(false, UnixMillis(5));
        let text = format!("[[region]]\nname = \"b\"\n{TEXT}");
        let after = Routing::new(read(&text).unwrap(), Some(&before)).unwrap();
        assert_eq!(after.at(UnixMillis(6)).standing(0).health, Health::Down);
        assert_eq!((after.at(UnixMillis(6)).sent(0), after.counts[0].value(Outcome::Sent)), (1, 1));
        after.fade();
        assert_eq!(after.at(UnixMillis(6)).sent(0), 0);
        let elsewhere = TEXT.replace("192.0.2.1", "192.0.2.2");
        let moved = Routing::new(read(&elsewhere).unwrap(), Some(&before)).unwrap();
        assert_eq!(moved.at(UnixMillis(6)).standing(0).health, Health::Up);
        let drained = TEXT.replace("addresses", "drained = true\naddresses");
        let drained = Routing::new(read(&drained).unwrap(), Some(&before)).unwrap();
        assert_eq!(drained.at(UnixMillis(6)).standing(0).health, Health::Drained);
    }
}
