//! Which nodes a client is sent to, as a value: no sockets, no files, no clock.
//!
//! A [`Table`] is what an operator wrote, a [`View`] says how nodes are at the moment, and
//! [`Table::decide`] makes of a [`Question`] a [`Decision`]. The same question gets the same answer for
//! as long as table and view are the same, from every router. Who wants to know why passes a [`Watch`].

mod explain;
pub mod key;
pub mod place;
pub mod prefix;
pub mod table;

#[cfg(test)]
mod tests;

pub use explain::{Story, Watch};
pub use table::{NodeId, PICKS_MAX, RegionId, SiteId, Table, ZoneId};

use explain::{Pass, Why};
use freshet_geo::Code;
use freshet_origin::director::score;
use place::Coordinates;
use std::net::IpAddr;
use table::Site;

/// How a node is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Health {
    /// Send to it.
    Up,
    /// Something is wrong with it: only where none is up.
    Suspect,
    /// It does not answer.
    Down,
    /// Somebody took it out: never.
    Drained,
}

/// A node at one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Its health.
    pub health: Health,
    /// How many of its keys it takes, percent: fewer while it has much to do, or came back just now.
    pub share_percent: u8,
}

/// How nodes are at one moment.
pub trait View {
    /// A node.
    fn standing(&self, node: NodeId) -> Standing;
    /// What was sent to it lately, by any measure that is the same for all.
    fn sent(&self, node: NodeId) -> u64;
}

/// Addresses of one family, or of any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// Either.
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Who asks for what.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The site.
    pub site: SiteId,
    /// The client, or its resolver.
    pub client: IpAddr,
    /// What it asks for, by [`Site::key_of`].
    pub key: u64,
    /// How many nodes are wanted; up to [`PICKS_MAX`].
    pub wanted: usize,
    /// What addresses they are to have.
    pub family: Family,
    /// The node it was sent to before, and is to stay with.
    pub kept: Option<NodeId>,
    /// Nodes it is not to be sent to.
    pub avoid: &'a [NodeId],
}

/// How it is known where a client is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Located {
    /// A zone has its address.
    Zone(ZoneId),
    /// Somebody knows where the address is.
    Place(Coordinates),
    /// It is not.
    Nowhere,
}

/// Nodes in the order they are to be tried.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Picks {
    ids: [NodeId; PICKS_MAX],
    len: usize,
}

impl Picks {
    /// The nodes.
    pub fn as_slice(&self) -> &[NodeId] {
        self.ids.get(..self.len).unwrap_or(&self.ids)
    }

    /// The first one.
    pub fn first(&self) -> Option<NodeId> {
        self.as_slice().first().copied()
    }

    fn one(id: NodeId) -> Self {
        let mut picks = Self { len: 1, ..Self::default() };
        picks.ids[0] = id;
        picks
    }
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// How the client was located.
    pub located: Located,
    /// Length of the prefix around it for which the answer is the same; 0 where it is for all.
    pub scope_bits: u8,
    /// The nodes; none where there is none to be had, or the site has none for this client.
    pub picks: Picks,
    /// Whether the site is not for clients from where this one is.
    pub is_refused: bool,
}

impl Table {
    /// Where a client is sent. O(nodes of the regions that are tried); allocates only for clients that
    /// no zone has and somebody locates.
    pub fn decide(
        &self,
        question: &Question<'_>,
        view: &impl View,
        watch: &mut impl Watch,
    ) -> Decision {
        let (located, country, mut scope_bits) = self.locate(question.client);
        watch.located(located, country, scope_bits);
        let decided =
            |scope_bits, picks, is_refused| Decision { located, scope_bits, picks, is_refused };
        let Some(site) = self.site(question.site) else {
            return decided(scope_bits, Picks::default(), false);
        };
        if !matches!(located, Located::Zone(_)) && site.refuses(country) {
            return decided(scope_bits, Picks::default(), true);
        }
        if site.looks_at_client() {
            scope_bits = scope_bits.max(key::network_bits(question.client));
        }
        let (inside, here): (&[NodeId], Box<[RegionId]>);
        let order: &[RegionId] = match &located {
            Located::Zone(zone) => {
                inside = self.draft.zones.get(*zone as usize).map_or(&[], |zone| &zone.nodes);
                self.zone_orders.get(*zone as usize).map_or(&[], |order| order)
            }
            Located::Place(place) => {
                (inside, here) = (&[], self.order_at(place));
                &here
            }
            Located::Nowhere => {
                inside = &[];
                &self.default_order
            }
        };
        let stays = |id: &NodeId| {
            let standing = view.standing(*id);
            let of = self.node(*id).map(|node| node.region);
            let is_reached = inside.contains(id) || of.is_some_and(|of| order.contains(&of));
            standing.health == Health::Up
                && standing.share_percent > 0
                && is_reached
                && self.may_have(site, question, *id)
        };
        if let Some(kept) = question.kept.filter(stays) {
            watch.kept(kept);
            return decided(scope_bits, Picks::one(kept), false);
        }
        for pass in Pass::ALL {
            if pass == Pass::Down && !self.draft.trusts_when_all_are_down {
                break;
            }
            watch.pass(pass);
            let mut choice = Choice { table: self, site, question, view, pass };
            if !inside.is_empty() {
                let picks = choice.among(inside, watch);
                watch.tried(None, picks);
                if picks.len > 0 {
                    return decided(scope_bits, picks, false);
                }
            }
            for region in order {
                let is_of_site = site.regions.is_empty() || site.regions.contains(region);
                let Some(members) = self.members.get(usize::from(*region)).filter(|_| is_of_site)
                else {
                    continue;
                };
                let picks = choice.among(members, watch);
                watch.tried(Some(*region), picks);
                if picks.len > 0 {
                    return decided(scope_bits, picks, false);
                }
            }
        }
        decided(scope_bits, Picks::default(), false)
    }

    /// Nodes of several regions for a client that tries another when one fails: the best one first, two
    /// of a region at most, so that not all of them fail together.
    pub fn decide_ladder(
        &self,
        question: &Question<'_>,
        view: &impl View,
        rungs: usize,
    ) -> (Decision, Vec<NodeId>) {
        let first = self.decide(question, view, &mut ());
        let mut chosen: Vec<NodeId> = Vec::new();
        let mut avoid = question.avoid.to_vec();
        let mut next = first;
        while let Some(id) = next.picks.first().filter(|_| chosen.len() < rungs) {
            chosen.push(id);
            avoid.push(id);
            let region = self.node(id).map(|node| node.region);
            let of_region = |id: &&NodeId| self.node(**id).map(|node| node.region) == region;
            if let (2.., Some(region)) = (chosen.iter().filter(of_region).count(), region) {
                avoid.extend(self.members.get(usize::from(region)).into_iter().flatten());
            }
            let again = Question { avoid: &avoid, kept: None, ..*question };
            next = self.decide(&again, view, &mut ());
        }
        (first, chosen)
    }

    /// Whether any node may serve the site at addresses of this family.
    pub fn has_family(&self, site: SiteId, family: Family) -> bool {
        let Some(site) = self.site(site) else { return false };
        self.draft.nodes.iter().any(|node| {
            (site.regions.is_empty() || site.regions.contains(&node.region))
                && has_address(&node.addresses, family)
        })
    }

    /// Where a client is, in which country, and how long the prefix around it is that is there with it.
    fn locate(&self, client: IpAddr) -> (Located, Option<Code>, u8) {
        let found = self.draft.prefixes.find(client);
        if let Some(zone) = found.value {
            return (Located::Zone(zone), None, found.scope_bits);
        }
        let Some(locator) = &self.draft.locator else {
            return (Located::Nowhere, None, found.scope_bits);
        };
        let position = locator.locate(client);
        let located = position.place.map_or(Located::Nowhere, Located::Place);
        (located, position.country, found.scope_bits.max(position.network_bits))
    }

    /// Whether the client of this question may be sent to a node, however that is.
    fn may_have(&self, site: &Site, question: &Question<'_>, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| {
            (site.regions.is_empty() || site.regions.contains(&node.region))
                && has_address(&node.addresses, question.family)
                && !question.avoid.contains(&id)
        })
    }
}

fn has_address(addresses: &[IpAddr], family: Family) -> bool {
    match family {
        Family::Any => true,
        Family::V4 => addresses.iter().any(IpAddr::is_ipv4),
        Family::V6 => addresses.iter().any(IpAddr::is_ipv6),
    }
}

/// A choice among nodes of one place, in one pass.
struct Choice<'a, V> {
    table: &'a Table,
    site: &'a Site,
    question: &'a Question<'a>,
    view: &'a V,
    pass: Pass,
}

impl<V: View> Choice<'_, V> {
    /// The best of these nodes for the key, as many as are wanted.
    fn among(&mut self, ids: &[NodeId], watch: &mut impl Watch) -> Picks {
        let bound = self.bound(ids);
        let wanted = self.question.wanted.clamp(1, PICKS_MAX);
        let spread = self.site.spread.clamp(1, PICKS_MAX);
        let mut best = Best::new(wanted.max(spread));
        let mut beyond = Best::new(wanted.max(spread));
        for &id in ids {
            let (Some(node), Some(&seed)) =
                (self.table.node(id), self.table.seeds.get(id as usize))
            else {
                continue;
            };
            match self.usable(id, seed) {
                Ok(()) => {}
                Err(why) => {
                    watch.passed_over(id, why);
                    continue;
                }
            }
            let score = score(seed, node.weight, self.question.key);
            if bound.is_some_and(|bound| self.view.sent(id) >= bound.room(node.weight)) {
                watch.passed_over(id, Why::AboveItsShare);
                beyond.add(score, id);
            } else {
                best.add(score, id);
            }
        }
        // Somebody is below the fair share unless what was sent is just being counted anew.
        let best = if best.len == 0 { beyond } else { best };
        let turn = match best.len.min(spread) as u64 {
            0 | 1 => 0,
            spread => key::client_hash(self.question.client) % spread,
        };
        best.picks(usize::try_from(turn).unwrap_or(0), wanted)
    }

    fn usable(&self, id: NodeId, seed: u64) -> Result<(), Why> {
        if !self.table.may_have(self.site, self.question, id) {
            return Err(Why::NotOfThis);
        }
        let standing = self.view.standing(id);
        let wanted = match self.pass {
            Pass::Within | Pass::Beyond => Health::Up,
            Pass::Suspect => Health::Suspect,
            Pass::Down => Health::Down,
        };
        if standing.health != wanted {
            return Err(Why::Health(standing.health));
        }
        if self.pass == Pass::Within && key::sheds(seed, self.question.key, standing.share_percent)
        {
            return Err(Why::Share(standing.share_percent));
        }
        Ok(())
    }

    /// How much may have been sent to each, where that is bounded.
    fn bound(&self, ids: &[NodeId]) -> Option<Bound> {
        let percent = self.site.load_bound_percent;
        let is_bounded = percent > 0
            && self.pass == Pass::Within
            && self.question.wanted == 1
            && !self.site.key.contains(&table::KeyPart::Client);
        if !is_bounded {
            return None;
        }
        let mut bound = Bound { sent: 1, weights: 0, percent: u64::from(percent.max(100)) };
        for &id in ids {
            if self.view.standing(id).health == Health::Up
                && self.table.may_have(self.site, self.question, id)
            {
                bound.sent += self.view.sent(id);
                bound.weights += u64::from(self.table.node(id)?.weight);
            }
        }
        Some(bound)
    }
}

/// Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016).
#[derive(Clone, Copy)]
struct Bound {
    sent: u64,
    weights: u64,
    percent: u64,
}

/// Below this much a node always takes more: with a handful of requests shares say nothing, and moving
/// a key costs its cache.
const SENT_FLOOR: u64 = 32;

impl Bound {
    fn room(self, weight: u32) -> u64 {
        let fair = self.sent.saturating_mul(u64::from(weight)).div_ceil(self.weights.max(1));
        (fair.saturating_mul(self.percent) / 100).max(SENT_FLOOR)
    }
}

/// The best few, in order.
struct Best {
    places: [(f64, NodeId); PICKS_MAX],
    len: usize,
    most: usize,
}

impl Best {
    fn new(most: usize) -> Self {
        Self { places: [(0.0, 0); PICKS_MAX], len: 0, most: most.min(PICKS_MAX) }
    }

    fn add(&mut self, score: f64, id: NodeId) {
        let held = self.places.get(..self.len).unwrap_or(&[]);
        // Of equals the first stays.
        let at = held.iter().position(|one| one.0.total_cmp(&score).is_lt()).unwrap_or(self.len);
        if at >= self.most {
            return;
        }
        self.len = (self.len + 1).min(self.most);
        if let Some(tail) = self.places.get_mut(at..self.len) {
            tail.rotate_right(1);
            tail[0] = (score, id);
        }
    }

    /// From the one at `turn` on, round to those before it.
    fn picks(&self, turn: usize, wanted: usize) -> Picks {
        let mut picks = Picks::default();
        let held = self.places.get(..self.len).unwrap_or(&[]);
        let from_turn = held.iter().cycle().skip(turn).take(self.len.min(wanted));
        for (slot, (_, id)) in picks.ids.iter_mut().zip(from_turn) {
            *slot = *id;
            picks.len += 1;
        }
        picks
    }
}
