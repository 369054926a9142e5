//! What there is to choose from: regions with their nodes, zones that clients are in, and sites.

use super::place::{Coordinates, Locate};
use super::prefix::Prefixes;
use freshet_config::hosts::HostPattern;
use freshet_geo::Code;
use freshet_origin::director::stable_hash;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A region of a [`Table`], by its place in the list.
pub type RegionId = u16;
/// A node of a [`Table`].
pub type NodeId = u32;
/// A zone of a [`Table`].
pub type ZoneId = u32;
/// A site of a [`Table`].
pub type SiteId = u32;

/// Nodes that one answer has at most, and that a key may be spread over.
pub const PICKS_MAX: usize = 8;

/// Nodes near each other, which are chosen among by key.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub coordinates: Option<Coordinates>,
    /// Regions that are tried after this one, in this order.
    pub overflow: Vec<RegionId>,
    /// Whether all others follow, the nearest first.
    pub overflows_to_nearest: bool,
    /// Whether only clients of its zones may come, besides those of regions that name it.
    pub is_private: bool,
}

/// A server that requests are sent to.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub region: RegionId,
    /// Its share of the keys relative to the others of its region; 1 and more.
    pub weight: u32,
    /// Addresses DNS gives.
    pub addresses: Vec<IpAddr>,
    /// Host, and port where it is not the usual one, in the URLs clients are sent to.
    pub host: String,
}

/// Clients that are in one place.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// The region next to it; without one the nearest to `coordinates` is.
    pub region: Option<RegionId>,
    /// Where it is.
    pub coordinates: Option<Coordinates>,
    /// Nodes inside it, which are tried before any region.
    pub nodes: Vec<NodeId>,
}

/// A part of what makes two requests one key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeyPart {
    /// The path.
    Path,
    /// The path up to its last `/`: all of a stream in one folder.
    Folder,
    /// What follows the path.
    Query,
    /// One parameter of that.
    Parameter(String),
    /// The host.
    Host,
    /// The client's network of 24 or 48 bits.
    Client,
}

/// How requests for some hosts are sent to nodes.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<HostPattern>,
    /// The regions that have it; empty for all.
    pub regions: Vec<RegionId>,
    /// What a key is made of; the site alone where it is empty.
    pub key: Vec<KeyPart>,
    /// Over how many nodes a key is spread, by client.
    pub spread: usize,
    /// How far above its fair share of what was sent lately a node may be, percent; 0 for any.
    pub load_bound_percent: u32,
    /// Whether clients of no zone are refused, unless they are in one of the countries.
    pub zones_only: bool,
    /// Countries that those are from who are served beside the zones' clients; all where there are none.
    pub countries: Vec<Code>,
    /// Nodes in an answer of DNS.
    pub answers: usize,
    /// How long DNS and steering answers hold.
    pub ttl: Duration,
}

impl Site {
    /// A site as a file without a word about it has it.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hosts: name.parse().into_iter().collect(),
            regions: Vec::new(),
            key: vec![KeyPart::Path],
            spread: 1,
            load_bound_percent: 125,
            zones_only: false,
            countries: Vec::new(),
            answers: 2,
            ttl: Duration::from_secs(30),
        }
    }

    /// Whether a client of no zone, who is in this country, is refused.
    pub(super) fn refuses(&self, country: Option<Code>) -> bool {
        let is_here = country.is_some_and(|country| self.countries.contains(&country));
        (self.zones_only || !self.countries.is_empty()) && !is_here
    }

    /// Whether two clients may get different answers for one URL from one region.
    pub(super) fn looks_at_client(&self) -> bool {
        self.spread > 1 || self.key.contains(&KeyPart::Client)
    }
}

/// All that a table is made of. Numbers name places in the lists.
#[derive(Default)]
pub struct Draft {
    /// Regions, at most [`RegionId::MAX`].
    pub regions: Vec<Region>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Zones.
    pub zones: Vec<Zone>,
    /// Which zone each prefix is of.
    pub prefixes: Prefixes,
    /// Sites.
    pub sites: Vec<Site>,
    /// The region of clients nobody has located.
    pub default_region: Option<RegionId>,
    /// Where they are taken to be, where that is not said.
    pub default_coordinates: Option<Coordinates>,
    /// Who locates clients that no zone has.
    pub locator: Option<Arc<dyn Locate>>,
    /// Whether nodes that are down are sent to where nobody is up.
    pub trusts_when_all_are_down: bool,
}

/// What decisions are made by. It does not change: another configuration is another table.
pub struct Table {
    pub(super) draft: Draft,
    /// Nodes of each region.
    pub(super) members: Vec<Vec<NodeId>>,
    /// What places each node among others for a key.
    pub(super) seeds: Vec<u64>,
    /// Regions in the order they are tried in, for each zone.
    pub(super) zone_orders: Vec<Box<[RegionId]>>,
    /// For clients nobody has located.
    pub(super) default_order: Box<[RegionId]>,
    names: HashMap<Box<str>, NodeId>,
    hosts: HashMap<Box<str>, SiteId>,
    hosts_below: HashMap<Box<str>, SiteId>,
    any_host: Option<SiteId>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("regions", &self.draft.regions.len())
            .field("nodes", &self.draft.nodes.len())
            .field("zones", &self.draft.zones.len())
            .field("prefixes", &self.draft.prefixes.len())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// A table of all this. Numbers that name nothing are as if they were not there.
    pub fn new(draft: Draft) -> Self {
        let mut members = vec![Vec::new(); draft.regions.len()];
        for (id, node) in (0..).zip(&draft.nodes) {
            if let Some(of) = members.get_mut(usize::from(node.region)) {
                of.push(id);
            }
        }
        let names = (0..).zip(&draft.nodes).map(|(id, node)| (node.name.as_str().into(), id));
        let names = names.collect();
        let seeds = draft.nodes.iter().map(|node| stable_hash(node.name.as_bytes())).collect();
        let (mut hosts, mut hosts_below, mut any_host) = (HashMap::new(), HashMap::new(), None);
        for (id, site) in (0..).zip(&draft.sites) {
            for host in &site.hosts {
                match host {
                    HostPattern::Exact(name) => drop(hosts.entry(name.clone()).or_insert(id)),
                    HostPattern::Below(name) => drop(hosts_below.entry(name.clone()).or_insert(id)),
                    HostPattern::Any => drop(any_host.get_or_insert(id)),
                }
            }
        }
        let zone_orders = draft
            .zones
            .iter()
            .map(|zone| order_from(&draft.regions, zone.region, zone.coordinates.as_ref()))
            .collect();
        let default_order =
            order_from(&draft.regions, draft.default_region, draft.default_coordinates.as_ref());
        Self {
            draft,
            members,
            names,
            seeds,
            zone_orders,
            default_order,
            hosts,
            hosts_below,
            any_host,
        }
    }

    /// The site of a host, which is without its port and in lower case.
    pub fn site_of(&self, host: &str) -> Option<SiteId> {
        if let Some(site) = self.hosts.get(host) {
            return Some(*site);
        }
        let mut rest = host;
        while let Some((_, below)) = rest.split_once('.') {
            if let Some(site) = self.hosts_below.get(below) {
                return Some(*site);
            }
            rest = below;
        }
        self.any_host
    }

    /// All regions.
    pub fn regions(&self) -> &[Region] {
        &self.draft.regions
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.draft.nodes
    }

    /// All zones.
    pub fn zones(&self) -> &[Zone] {
        &self.draft.zones
    }

    /// All sites.
    pub fn sites(&self) -> &[Site] {
        &self.draft.sites
    }

    /// The prefixes of the zones.
    pub fn prefixes(&self) -> &Prefixes {
        &self.draft.prefixes
    }

    /// The site of this number.
    pub fn site(&self, id: SiteId) -> Option<&Site> {
        self.draft.sites.get(id as usize)
    }

    /// The node of this number.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.draft.nodes.get(id as usize)
    }

    /// The node of this name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.names.get(name).copied()
    }

    /// Regions in the order they are tried in, for clients at this place.
    pub(super) fn order_at(&self, place: &Coordinates) -> Box<[RegionId]> {
        order_from(&self.draft.regions, None, Some(place))
    }
}

/// Regions in the order they are tried in, for clients of `region`, or of the one nearest to `place`.
fn order_from(
    regions: &[Region],
    region: Option<RegionId>,
    place: Option<&Coordinates>,
) -> Box<[RegionId]> {
    let at = |id: RegionId| regions.get(usize::from(id));
    let nearest_to = |place: Option<&Coordinates>| {
        let nearness = |id: RegionId| {
            let there = at(id).and_then(|region| region.coordinates.as_ref());
            place.zip(there).map_or(f64::NEG_INFINITY, |(here, there)| here.nearness(there))
        };
        let ids = 0..RegionId::try_from(regions.len()).unwrap_or(RegionId::MAX);
        let mut public: Vec<(f64, RegionId)> = ids
            .filter(|id| at(*id).is_some_and(|one| !one.is_private))
            .map(|id| (nearness(id), id))
            .collect();
        // Stable: those nobody knows the place of come last, as they are written.
        public.sort_by(|a, b| b.0.total_cmp(&a.0));
        public.into_iter().map(|(_, id)| id)
    };
    let first = region.filter(|id| at(*id).is_some()).or_else(|| nearest_to(place).next());
    let Some((first, home)) = first.and_then(|id| Some((id, at(id)?))) else {
        return Box::default();
    };
    let mut order = vec![first];
    let mut add = |id: RegionId| {
        if at(id).is_some() && !order.contains(&id) {
            order.push(id);
        }
    };
    home.overflow.iter().copied().for_each(&mut add);
    if home.overflows_to_nearest {
        nearest_to(home.coordinates.as_ref().or(place)).for_each(add);
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str, at: &str, overflow: &[RegionId]) -> Region {
        Region {
            name: name.into(),
            coordinates: at.parse().ok(),
            overflow: overflow.to_vec(),
            overflows_to_nearest: true,
            is_private: false,
        }
    }

    #[test]
    fn the_order_is_the_zones_region_then_those_it_names_then_the_nearest() {
        let mut regions = vec![
            region("munich", "48.1,11.6", &[3]),
            region("paris", "48.9,2.4", &[]),
            region("vienna", "48.2,16.4", &[]),
            region("tokyo", "35.7,139.7", &[]),
            region("somewhere", "", &[]),
        ];
        let order = |regions: &[Region], region, place: Option<&str>| {
            let place = place.map(|text| text.parse().unwrap());
            order_from(regions, region, place.as_ref()).to_vec()
        };
        assert_eq!(order(&regions, Some(0), None), [0, 3, 2, 1, 4]);
        assert_eq!(order(&regions, None, Some("48.8,2.0")), [1, 0, 2, 3, 4]);
        assert_eq!(order(&regions, None, None), [0, 3, 2, 1, 4]);
        regions[2].is_private = true;
        assert_eq!(order(&regions, Some(0), None), [0, 3, 1, 4]);
        assert_eq!(order(&regions, Some(2), None), [2, 0, 1, 3, 4]);
        assert_eq!(order(&regions, None, Some("48.2,16.4")), [0, 3, 1, 4]);
        regions[0].overflows_to_nearest = false;
        assert_eq!(order(&regions, Some(0), None), [0, 3]);
        assert_eq!(order(&[], Some(0), None), [0; 0]);
    }

    #[test]
    fn the_nearest_name_of_a_site_wins() {
        let site = |name: &str| Site { hosts: vec![name.parse().unwrap()], ..Site::new(name) };
        let sites = ["a.example", "*.example", "*.b.example", "*"].map(site).to_vec();
        let table = Table::new(Draft { sites, ..Draft::default() });
        for (host, expected) in
            [("a.example", 0), ("x.a.example", 1), ("c.b.example", 2), ("b.example", 1), ("b", 3)]
        {
            assert_eq!(table.site_of(host), Some(expected), "{host}");
        }
        assert_eq!(Table::new(Draft::default()).site_of("a.example"), None);
    }
}
