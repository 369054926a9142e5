//! A table that is in use: how its nodes are at the moment, and what was decided so far.

use crate::config::{Config, DnsOfSite, Redirects, Watched};
use crate::decision::{Health, NodeId, Standing, Table, View};
use crate::dns::Dns;
use crate::redirect::host_of;
use freshet_base::clock::UnixMillis;
use freshet_config::hosts::HostPattern;
use freshet_origin::{Origin, health};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A table with what is known of its nodes. Another configuration is another one, into which nodes that
/// did not change are taken over with all that is known of them.
#[derive(Debug)]
pub struct Routing {
    /// What decisions are made by.
    pub table: Table,
    /// For each site, what clients are told over HTTP.
    pub redirects: Vec<Redirects>,
    /// For each site, what they are told over DNS.
    pub dns: Vec<DnsOfSite>,
    /// What DNS answers besides.
    pub settings: Dns,
    /// Nodes by their hosts.
    pub(crate) node_hosts: HashMap<String, NodeId>,
    /// Names with hosts, nodes or records below them.
    pub(crate) branches: HashSet<String>,
    /// For each site, what was decided.
    pub counts: Vec<Arc<Counts>>,
    /// For each node of the table.
    pub nodes: Vec<Arc<Live>>,
    ramp: Duration,
    busy_percent: u8,
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
    /// What it says of itself.
    told: Mutex<Told>,
}

/// What the fleet says of a node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Told {
    /// Nothing: it is not of the fleet, or nobody can be asked.
    #[default]
    Nothing,
    /// It serves what it has stored.
    Well {
        /// How much of what its processors can do it does, percent.
        load_percent: u8,
    },
    /// It may have missed purges and asks before it serves, is about to hand over to another process, or is
    /// silent while others are not.
    Doubtful,
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
        let Config { table, watched, redirects, dns_of_sites, dns, ramp, busy_percent, .. } =
            config;
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
        let hosts = (0..).zip(table.nodes()).map(|(id, node)| (host_of(&node.host), id));
        let node_hosts: HashMap<_, _> = hosts.collect();
        let (dns, settings) = (dns_of_sites, dns.dns);
        let branches = branches(&table, &settings, node_hosts.keys());
        Ok(Self {
            table,
            redirects,
            dns,
            settings,
            node_hosts,
            branches,
            counts,
            nodes,
            ramp,
            busy_percent,
        })
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

    /// Notes what the fleet says of its nodes, by name, and that it says nothing of others.
    pub fn tell(&self, said: &HashMap<String, Told>) {
        for live in &self.nodes {
            live.set_told(said.get(&live.name).copied().unwrap_or_default());
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

/// Names that have something below them.
fn branches<'a>(
    table: &Table,
    dns: &Dns,
    nodes: impl Iterator<Item = &'a String>,
) -> HashSet<String> {
    let of_sites =
        table.sites().iter().flat_map(|site| &site.hosts).filter_map(|host| match host {
            HostPattern::Exact(name) => Some(name.to_string()),
            // All below it is a site's.
            HostPattern::Below(name) => Some(format!("*.{name}")),
            HostPattern::Any => None,
        });
    let mut out = HashSet::new();
    for name in of_sites.chain(nodes.cloned()).chain(dns.records.keys().cloned()) {
        let mut rest = name.as_str();
        while let Some((_, above)) = rest.split_once('.') {
            out.insert(above.to_owned());
            rest = above;
        }
    }
    out
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
            told: Mutex::new(known.map(|known| known.told()).unwrap_or_default()),
        })
    }

    /// What the fleet said of it last.
    pub fn told(&self) -> Told {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_told(&self, told: Told) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    /// How it is at `now`, by its checks and by what it says of itself. One that came back takes `ramp`
    /// to have all its keys again; one with more load than `busy_percent` takes fewer of them.
    pub fn standing(&self, now: UnixMillis, ramp: Duration, busy_percent: u8) -> Standing {
        if self.is_drained {
            return Standing { health: Health::Drained, share_percent: 0 };
        }
        let checked = self.checked(now, ramp);
        match self.told() {
            Told::Well { load_percent } => {
                let room = u16::from(100 - load_percent.min(100)) * 100;
                let share = room / u16::from(100 - busy_percent.min(99));
                let share = u8::try_from(share).unwrap_or(100).min(checked.share_percent);
                Standing { share_percent: share, ..checked }
            }
            Told::Doubtful if checked.health == Health::Up => {
                Standing { health: Health::Suspect, ..checked }
            }
            Told::Doubtful | Told::Nothing => checked,
        }
    }

    /// How it is by its checks.
    fn checked(&self, now: UnixMillis, ramp: Duration) -> Standing {
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
        live.map_or(none, |live| {
            live.standing(self.now, self.routing.ramp, self.routing.busy_percent)
        })
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
    fn what_a_node_says_of_itself_counts_beside_its_checks() {
        let routing = Routing::new(read(TEXT).unwrap(), None).unwrap();
        let standing = |told| {
            routing.tell(&HashMap::from([("n".to_owned(), told)]));
            routing.at(UnixMillis(1)).standing(0)
        };
        let well = |load_percent| standing(Told::Well { load_percent }).share_percent;
        assert_eq!([5, 80, 90, 100, 250].map(well), [100, 100, 50, 0, 0]);
        assert_eq!(standing(Told::Doubtful).health, Health::Suspect);
        assert_eq!(standing(Told::Nothing), Standing { health: Health::Up, share_percent: 100 });
        let health = &routing.nodes[0].origin.as_ref().unwrap().health;
        health.probed(false, UnixMillis(1));
        for told in [Told::Doubtful, Told::Well { load_percent: 0 }] {
            assert_eq!(standing(told).health, Health::Down, "its own word does not save it");
        }
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
