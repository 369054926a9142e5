//! Which origin a request goes to.
//!
//! A director is an ordered list of origins and a rule, or a list of directors that are asked one
//! after the other. Choosing is a function of its arguments (and of a counter, where origins take
//! turns): it opens nothing and waits for nothing. An origin that was tried for this request is left
//! out; one that is [`Health::Suspect`] is taken only when none is [`Health::Up`]; one that is
//! [`Health::Down`] never is.

use crate::definition::OriginId;
use crate::health::Health;
use freshet_base::splitmix;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a director needs to know of an origin at the moment of choosing.
pub trait View {
    /// Its health.
    fn health(&self, origin: OriginId) -> Health;
    /// Requests of this node it works on now.
    fn in_flight(&self, origin: OriginId) -> u64;
}

/// An origin of a director.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Which origin.
    pub origin: OriginId,
    /// Its name. [`Director::hash`] places members by it, so that nodes with the same names agree.
    pub name: String,
    /// Share of the load relative to the others, 1 to [`WEIGHT_MAX`]; others are clamped.
    pub weight: u32,
}

/// Largest weight: a round-robin schedule has this many entries a member at most.
pub const WEIGHT_MAX: u32 = 100;

/// Bounds on how unevenly [`Director::hash`] and [`Director::siblings`] may load their members:
/// consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBound {
    /// A member takes no more than this factor of its fair share of the requests in flight; at
    /// least 1. Lower is evener, higher keeps more keys at home.
    pub factor: f64,
    /// In flight below this a member always takes more: with a handful of requests shares say
    /// nothing, and moving a key costs its cache.
    pub floor: u64,
}

impl Default for LoadBound {
    /// 1.25, as HAProxy's documentation advises for `hash-balance-factor`, above 32 in flight.
    fn default() -> Self {
        Self { factor: 1.25, floor: 32 }
    }
}

/// What a request asks for, as far as a director looks at it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wanted {
    /// Hash of its key (see [`stable_hash`]). Only [`Director::Hash`] looks at it.
    pub key_hash: u64,
    /// Over how many members the key is spread, at least 1: the best ones for it take turns.
    pub copies: u32,
    /// Whether nodes of the same place are not asked, as where the request comes from one of them.
    pub skips_siblings: bool,
}

impl From<u64> for Wanted {
    /// A key with one home.
    fn from(key_hash: u64) -> Self {
        Self { key_hash, copies: 1, skips_siblings: false }
    }
}

/// A rule over a list of origins.
#[derive(Debug)]
pub enum Director {
    /// Each in turn, by weight.
    RoundRobin(RoundRobin),
    /// By key: the same key to the same origin while its health lasts.
    Hash(HashRing),
    /// The first that is healthy.
    Fallback(Box<[Member]>),
    /// The one whose key it is, unless that is this node.
    Siblings(Siblings),
    /// The first of these that has somebody: parents near by, parents far away, the origins.
    Groups(Box<[Self]>),
}

/// Members of one group that are tried for a request before the next group is: one that refuses may
/// be alone in that, and of two the whole site is likely to be gone.
pub const TRIED_OF_GROUP_MAX: usize = 2;

/// State of a round robin.
#[derive(Debug)]
pub struct RoundRobin {
    members: Box<[Member]>,
    /// Indexes of members, each as often as its weight over the common divisor, spread evenly.
    schedule: Box<[u32]>,
    next: AtomicU64,
}

/// Weighted rendezvous hashing: every member has a score for a key and the best wins. Taking a
/// member away moves its own keys only, adding one takes keys only for the new one, and there are
/// no virtual nodes to tune. Costs one hash a member, which for the dozens of origins a node has
/// is less than a walk of a ring.
#[derive(Debug)]
pub struct HashRing {
    members: Box<[(Member, u64)]>,
    bound: Option<LoadBound>,
    /// Whose turn it is for keys with several homes.
    turn: AtomicU64,
}

/// Nodes of one place, of which each key has its home at one. All of them list the same names, and so
/// agree on homes as far as they agree on who is well. One is asked for a request, and once: who is not at
/// home is not looked for elsewhere. What one has no room for goes to the next for its key, which may be
/// this node.
#[derive(Debug)]
pub struct Siblings {
    members: Box<[(Member, u64)]>,
    bound: Option<LoadBound>,
    /// The hash of this node's own name, and its weight.
    own: (u64, u32),
}

impl Director {
    /// By key among `members` and this node, whose name and weight are `own`, with the loads of the
    /// others bounded unless `bound` is `None`.
    pub fn siblings(
        members: impl IntoIterator<Item = Member>,
        own: (&str, u32),
        bound: Option<LoadBound>,
    ) -> Self {
        let own = (stable_hash(own.0.as_bytes()), own.1.clamp(1, WEIGHT_MAX));
        Self::Siblings(Siblings { members: seeded(members), bound, own })
    }

    /// Each of `members` in turn, by weight.
    pub fn round_robin(members: impl IntoIterator<Item = Member>) -> Self {
        let members: Box<[Member]> = members.into_iter().map(Member::clamped).collect();
        let schedule = schedule(&members);
        Self::RoundRobin(RoundRobin { members, schedule, next: AtomicU64::new(0) })
    }

    /// By key, with loads bounded unless `bound` is `None`.
    pub fn hash(members: impl IntoIterator<Item = Member>, bound: Option<LoadBound>) -> Self {
        Self::Hash(HashRing { members: seeded(members), bound, turn: AtomicU64::new(0) })
    }

    /// The first healthy of `members`, in their order.
    pub fn fallback(members: impl IntoIterator<Item = Member>) -> Self {
        Self::Fallback(members.into_iter().collect())
    }

    /// The first of `groups` that has somebody for a request, [`TRIED_OF_GROUP_MAX`] of each group.
    pub fn groups(groups: impl IntoIterator<Item = Self>) -> Self {
        Self::Groups(groups.into_iter().collect())
    }

    /// The origin for a request, leaving out those in `tried`. `None` when none is left that is not
    /// down. O(members × (tried + copies)), no allocation.
    pub fn choose(
        &self,
        wanted: impl Into<Wanted>,
        tried: &[OriginId],
        view: &impl View,
    ) -> Option<OriginId> {
        let wanted = wanted.into();
        [Health::Up, Health::Suspect]
            .into_iter()
            .find_map(|health| self.choose_of(health, wanted, tried, view))
    }

    /// The origin among those of this health.
    fn choose_of(
        &self,
        health: Health,
        wanted: Wanted,
        tried: &[OriginId],
        view: &impl View,
    ) -> Option<OriginId> {
        let usable = |member: &Member| {
            !tried.contains(&member.origin) && view.health(member.origin) == health
        };
        match self {
            Self::RoundRobin(robin) => robin.choose(usable),
            Self::Hash(ring) => ring.choose(wanted, usable, view),
            Self::Fallback(members) => {
                members.iter().find(|member| usable(member)).map(|member| member.origin)
            }
            Self::Siblings(siblings) => {
                let may = !wanted.skips_siblings && self.tried_len(tried) == 0;
                may.then(|| siblings.home(wanted.key_hash, usable, view)).flatten()
            }
            Self::Groups(groups) => groups
                .iter()
                .filter(|group| group.tried_len(tried) < TRIED_OF_GROUP_MAX)
                .find_map(|group| group.choose_of(health, wanted, tried, view)),
        }
    }

    /// Which of the other nodes of this place is home to a key, whoever is well; `None` where this one is, and
    /// where there are none.
    pub fn home(&self, key_hash: u64) -> Option<OriginId> {
        match self {
            Self::Siblings(siblings) => siblings.best(siblings.members.iter(), key_hash),
            Self::Groups(groups) => groups.iter().find_map(|group| group.home(key_hash)),
            Self::RoundRobin(_) | Self::Hash(_) | Self::Fallback(_) => None,
        }
    }

    /// How many of `tried` are of this director.
    fn tried_len(&self, tried: &[OriginId]) -> usize {
        tried.iter().filter(|id| self.has(**id)).count()
    }

    /// Whether an origin is one of this director's.
    pub fn has(&self, origin: OriginId) -> bool {
        self.any(&|one| one == origin)
    }

    /// Whether one that is well is left beside those in `tried`, other nodes of this place aside: they are asked first
    /// or not at all. Nobody's turn is over for it.
    pub fn has_another(&self, tried: &[OriginId], view: &impl View) -> bool {
        let is_left = |one: OriginId| !tried.contains(&one) && view.health(one) == Health::Up;
        match self {
            Self::Siblings(_) => false,
            Self::Groups(groups) => groups
                .iter()
                .filter(|group| group.tried_len(tried) < TRIED_OF_GROUP_MAX)
                .any(|group| group.has_another(tried, view)),
            Self::RoundRobin(_) | Self::Hash(_) | Self::Fallback(_) => self.any(&is_left),
        }
    }

    /// Whether this holds for an origin of this director's.
    fn any(&self, holds: &impl Fn(OriginId) -> bool) -> bool {
        match self {
            Self::RoundRobin(robin) => robin.members.iter().any(|one| holds(one.origin)),
            Self::Hash(ring) => ring.members.iter().any(|(one, _)| holds(one.origin)),
            Self::Fallback(members) => members.iter().any(|one| holds(one.origin)),
            Self::Siblings(siblings) => siblings.members.iter().any(|(one, _)| holds(one.origin)),
            Self::Groups(groups) => groups.iter().any(|group| group.any(holds)),
        }
    }
}

impl Member {
    /// A member of weight 1.
    pub fn new(origin: OriginId, name: impl Into<String>) -> Self {
        Self { origin, name: name.into(), weight: 1 }
    }

    /// With this weight.
    #[must_use]
    pub fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    fn clamped(self) -> Self {
        let weight = self.weight.clamp(1, WEIGHT_MAX);
        Self { weight, ..self }
    }
}

impl RoundRobin {
    fn choose(&self, usable: impl Fn(&Member) -> bool) -> Option<OriginId> {
        let slots = || {
            let members = self.schedule.iter().filter_map(|at| self.members.get(*at as usize));
            members.filter(|member| usable(member))
        };
        // Counting the usable slots first keeps it fair when some are left out: skipping forward
        // from a fixed slot would give the neighbour of a sick origin twice its share.
        let usable_len = slots().count() as u64;
        if usable_len == 0 {
            return None;
        }
        let turn = self.next.fetch_add(1, Relaxed) % usable_len;
        slots().nth(usize::try_from(turn).ok()?).map(|member| member.origin)
    }
}

impl HashRing {
    fn choose(
        &self,
        wanted: Wanted,
        usable: impl Fn(&Member) -> bool,
        view: &impl View,
    ) -> Option<OriginId> {
        let candidates = || self.members.iter().filter(|(member, _)| usable(member));
        // The best that fits, or the one so many places behind it, as far as there are any.
        let ranked = |places: u64, fits: &dyn Fn(&Member) -> bool| {
            let fitting = || candidates().filter(|(member, _)| fits(member));
            let scored =
                || fitting().map(|one| (score(one.1, one.0.weight, wanted.key_hash), one.0.origin));
            let mut chosen = scored().max_by(better)?;
            for _ in 0..places {
                let Some(next) = scored().filter(|one| better(one, &chosen).is_lt()).max_by(better)
                else {
                    break;
                };
                chosen = next;
            }
            Some(chosen.1)
        };
        let places = match u64::from(wanted.copies).min(candidates().count() as u64) {
            0 | 1 => 0,
            copies => self.turn.fetch_add(1, Relaxed) % copies,
        };
        let Some(bound) = self.bound else { return ranked(places, &|_| true) };
        let fits = bound.fits(candidates().map(|(member, _)| member), view);
        // Some member is below its share, so one always fits; the second look guards against loads
        // that changed between the two reads.
        ranked(places, &fits).or_else(|| ranked(places, &|_| true))
    }
}

impl LoadBound {
    /// Which of `candidates` have room for one request more, by what all of them have now.
    fn fits<'a>(
        self,
        candidates: impl Iterator<Item = &'a Member>,
        view: &impl View,
    ) -> impl Fn(&Member) -> bool {
        let (mut load, mut weights) = (1, 0);
        for member in candidates {
            load += view.in_flight(member.origin);
            weights += u64::from(member.weight);
        }
        move |member| {
            let fair = load as f64 * f64::from(member.weight) / weights as f64;
            let room = (self.factor.max(1.0) * fair).ceil() as u64;
            view.in_flight(member.origin) < room.max(self.floor)
        }
    }
}

impl Siblings {
    /// Whose the key is among those that are usable and have room; `None` where that is this node.
    fn home(
        &self,
        key_hash: u64,
        usable: impl Fn(&Member) -> bool,
        view: &impl View,
    ) -> Option<OriginId> {
        let candidates = || self.members.iter().filter(|(member, _)| usable(member));
        let fits = self.bound.map(|bound| bound.fits(candidates().map(|(member, _)| member), view));
        let fitting =
            candidates().filter(|(member, _)| fits.as_ref().is_none_or(|fits| fits(member)));
        self.best(fitting, key_hash)
    }

    /// Whose the key is among `candidates` and this node; `None` where that is this node.
    fn best<'a>(
        &self,
        candidates: impl Iterator<Item = &'a (Member, u64)>,
        key_hash: u64,
    ) -> Option<OriginId> {
        let scored = candidates.map(|one| (score(one.1, one.0.weight, key_hash), one.0.origin));
        let own = score(self.own.0, self.own.1, key_hash);
        scored.max_by(better).filter(|(best, _)| *best > own).map(|(_, origin)| origin)
    }
}

/// Members with the hashes of their names.
fn seeded(members: impl IntoIterator<Item = Member>) -> Box<[(Member, u64)]> {
    let members = members.into_iter().map(Member::clamped);
    let seeded = members.map(|member| {
        let seed = stable_hash(member.name.as_bytes());
        (member, seed)
    });
    seeded.collect()
}

/// By score, and by identity where two are the same.
fn better(a: &(f64, OriginId), b: &(f64, OriginId)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// A hash that is the same on every node and in every version: for [`Director::choose`], where
/// nodes of one tier must agree. The cache's own key hash is keyed with a secret and cannot serve.
pub fn stable_hash(text: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6672_6573_6865_7421, 0x6f72_6967_696e_0001);
    hasher.write(text);
    hasher.finish()
}

/// Score of a member for a key: weight over an exponentially distributed draw, which makes the
/// share of keys proportional to the weight.
pub fn score(member_hash: u64, weight: u32, key_hash: u64) -> f64 {
    // splitmix64's finisher over both hashes; 53 bits make a uniform draw in (0, 1].
    let mixed = splitmix::mixed(key_hash ^ member_hash.rotate_left(32));
    let draw = ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    f64::from(weight) / -draw.ln()
}

/// Smooth weighted round robin (as nginx and LVS do it), written out for one whole period.
fn schedule(members: &[Member]) -> Box<[u32]> {
    let divisor = members.iter().fold(0, |sum, member| greatest_common_divisor(sum, member.weight));
    let weights: Vec<i64> =
        members.iter().map(|member| i64::from(member.weight / divisor.max(1))).collect();
    let period: i64 = weights.iter().sum();
    let mut credit = vec![0_i64; members.len()];
    (0..period)
        .filter_map(|_| {
            for (credit, weight) in credit.iter_mut().zip(&weights) {
                *credit += weight;
            }
            // The first of equals, so that equal weights go in the order of the list.
            let (at, most) =
                credit.iter_mut().enumerate().rev().max_by_key(|(_, credit)| **credit)?;
            *most -= period;
            u32::try_from(at).ok()
        })
        .collect()
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests;
