//! What is believed about clients.
//!
//! A client can put any source into its packets, so what comes from its side is only a proposal. It
//! counts when the core answers: a packet from the address the proposal went to, back to the base
//! station it came from, of the same flow. Who forges a source never sees that answer, because the
//! core drops the forged packet, and therefore can neither create nor move a session.
//!
//! Afterwards the core alone moves it: where its next packet goes, the client is. Until then the
//! uplink of a client that moved goes on, for it is recognised by the core's end of the tunnel.
//! Two clients with one address, in two networks that nothing tells apart, make the session go back and
//! forth; then nobody has it for a while, and everything passes.

use super::network::Networks;
use super::{Authority, Client, Hop, Path, Session};
use crate::gtp::{Form, Tunnel};
use crate::rule::Direction;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How long a proposal waits for its answer.
pub const PROPOSAL_MS: u64 = 10_000;
/// Proposals kept for one client.
pub const PROPOSALS_MAX: usize = 8;
/// A session that returns to where it was within this time, twice, belongs to two clients.
pub const RETURN_MS: u64 = 30_000;
/// How long nobody has such a session.
pub const AMBIGUOUS_MS: u64 = 60_000;
/// Clients with proposals only, as a share of the sessions there may be: one in so many.
pub const PROPOSERS_SHARE: usize = 4;

/// Ends of a flow as its packets say them: addresses, ports and protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// Source and destination.
    pub addresses: [u128; 2],
    /// Source and destination port, 0 without.
    pub ports: [u16; 2],
    /// Protocol number.
    pub protocol: u8,
}

impl Flow {
    /// The flow of the answers.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        Self {
            addresses: [self.addresses[1], self.addresses[0]],
            ports: [self.ports[1], self.ports[0]],
            protocol: self.protocol,
        }
    }
}

/// A packet that agrees with no session, or not with the one its client has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sighting {
    /// Whose packet it is.
    pub client: Client,
    /// From the client or to it.
    pub direction: Direction,
    /// Its tunnel; none on N6.
    pub tunnel: Option<Tunnel>,
    /// Its link.
    pub hop: Hop,
    /// Its flow.
    pub flow: Flow,
}

/// What a sighting led to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Learnt {
    /// Nothing for now.
    Nothing,
    /// The client has this session from now on.
    Session(Session),
    /// The client has no session any more, for now: it may be two, or somebody else's claim.
    Ambiguous,
    /// There are as many sessions as there may be.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Proposal {
    /// Base station and core.
    ends: [u128; 2],
    teid: u32,
    flow: Flow,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Past {
    session: Session,
    left_at_ms: u64,
    returns: u8,
}

/// What is known of one client.
#[derive(Debug, Default)]
struct State {
    session: Option<(Session, Authority)>,
    proposals: VecDeque<Proposal>,
    past: Option<Past>,
    ambiguous_until_ms: u64,
    tags: Vec<String>,
    /// Its place among learnt sessions by age.
    place: u64,
}

/// A session somebody told: the link to the base station may be still unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Told {
    /// Whose.
    pub client: Client,
    /// Identifiers of the tunnels from and to the client.
    pub teids: [u32; 2],
    /// Base station and core.
    pub ends: [u128; 2],
    /// QoS flow of packets to the client.
    pub qfi: u8,
    /// How its packets are wrapped.
    pub form: Form,
}

/// All clients.
#[derive(Debug)]
pub struct Sessions {
    clients: HashMap<Client, State>,
    /// Clients without a session.
    proposers: usize,
    /// Clients with one.
    confirmed: usize,
    sessions_max: usize,
    networks: Networks,
    /// The link between two ends of a network, as last seen from the core.
    hops: HashMap<(u16, [u128; 2]), Hop>,
    /// Told sessions whose link is not known yet.
    waiting: BTreeMap<Client, (Told, Authority)>,
    /// Learnt sessions, the one that changed longest ago in front: it makes room for a new one. Should
    /// its client still be there, its next packets have it learnt again.
    by_age: BTreeMap<u64, Client>,
    places: u64,
    evicted: Vec<Client>,
}

impl Sessions {
    /// Nobody yet, and never more than `sessions_max`, in these networks.
    #[must_use]
    pub fn new(sessions_max: usize, networks: Networks) -> Self {
        Self {
            networks,
            clients: HashMap::new(),
            proposers: 0,
            confirmed: 0,
            sessions_max,
            hops: HashMap::new(),
            waiting: BTreeMap::new(),
            by_age: BTreeMap::new(),
            places: 0,
            evicted: Vec::new(),
        }
    }

    /// Whose packet it is: the wire tells the network, or the tunnel does, for it is of one session.
    #[must_use]
    pub fn whose(&self, sighting: &Sighting) -> Client {
        let (ends, teid) = (ends_of(sighting), teid_of(sighting));
        let told = self.networks.of_vlan(&sighting.hop);
        if let Some(network) = told.or_else(|| self.networks.of_core(ends[1])) {
            return sighting.client.within(network);
        }
        let way = sighting.direction as usize;
        let is_of = |teids: [u32; 2], session: [u128; 2]| {
            let is_same_station = way == 0 || session[0] == ends[0];
            teids[way] == teid && session[1] == ends[1] && is_same_station
        };
        let has = |client: &Client| {
            let used = self.get(*client).is_some_and(|(one, _)| is_of(one.teids, one.path.ends));
            used || self.waiting.get(client).is_some_and(|(one, _)| is_of(one.teids, one.ends))
        };
        let mut clients = (1..=self.networks.last()).map(|number| sighting.client.within(number));
        let found = if sighting.tunnel.is_some() { clients.find(has) } else { None };
        found.unwrap_or(sighting.client)
    }

    /// Takes note of a packet of [`Self::whose`].
    pub fn seen(&mut self, sighting: &Sighting, now_ms: u64) -> Learnt {
        if sighting.direction == Direction::Downlink {
            self.note_hop(sighting);
            if let Some(session) = self.complete(sighting.client) {
                return session;
            }
        }
        let is_known = self.clients.contains_key(&sighting.client);
        if !is_known {
            if sighting.direction == Direction::Downlink {
                return Learnt::Nothing;
            }
            if self.proposers >= (self.sessions_max / PROPOSERS_SHARE).max(1) {
                self.forget_proposers(now_ms);
                if self.proposers >= (self.sessions_max / PROPOSERS_SHARE).max(1) {
                    return Learnt::Full;
                }
            }
            self.proposers += 1;
        }
        let state = self.clients.entry(sighting.client).or_default();
        if now_ms < state.ambiguous_until_ms
            || state.session.is_some_and(|(_, by)| by == Authority::Pfcp)
        {
            return Learnt::Nothing;
        }
        match sighting.direction {
            Direction::Uplink => {
                state.propose(sighting, now_ms);
                Learnt::Nothing
            }
            Direction::Downlink => {
                let had = state.session.is_some();
                let learnt = state.answer(sighting, now_ms);
                let has = state.session.is_some();
                self.count(had, has);
                if matches!(learnt, Learnt::Session(_)) {
                    self.age(sighting.client);
                }
                if self.confirmed > self.sessions_max {
                    self.evict(sighting.client)
                } else {
                    learnt
                }
            }
        }
    }

    /// A session the operator or the core's signalling tells. It is used once the link to its base
    /// station is known: a packet from the core to it has been seen.
    pub fn tell(&mut self, told: Told, authority: Authority) -> Learnt {
        let current = self.clients.get(&told.client).and_then(|state| state.session);
        if current.is_some_and(|(_, by)| by < authority) {
            return Learnt::Nothing;
        }
        let is_another = current.is_none() && !self.waiting.contains_key(&told.client);
        if is_another && self.confirmed + self.waiting.len() >= self.sessions_max {
            // What is told is worth more than what was learnt.
            let Some(oldest) = self.make_room() else { return Learnt::Full };
            self.evicted.push(oldest);
        }
        self.waiting.insert(told.client, (told, authority));
        self.complete(told.client).unwrap_or(Learnt::Nothing)
    }

    /// Forgets a client's session if nobody of more weight than `authority` told it; whether it had
    /// one that was used.
    pub fn forget(&mut self, client: Client, authority: Authority) -> bool {
        if self.waiting.get(&client).is_some_and(|(_, by)| *by >= authority) {
            self.waiting.remove(&client);
        }
        let Some(state) = self.clients.get_mut(&client) else { return false };
        if state.session.is_none_or(|(_, by)| by < authority) {
            return false;
        }
        state.session = None;
        let is_empty = state.tags.is_empty();
        self.count(true, false);
        if is_empty {
            self.clients.remove(&client);
            self.proposers -= 1;
        }
        true
    }

    /// Sets a client's tags, whether or not it has a session.
    pub fn tag(&mut self, client: Client, mut tags: Vec<String>) {
        tags.sort_unstable();
        tags.dedup();
        if !self.clients.contains_key(&client) {
            self.proposers += 1;
        }
        self.clients.entry(client).or_default().tags = tags;
    }

    /// Learnt sessions that had to make room since this was last asked.
    pub fn evicted(&mut self) -> Vec<Client> {
        std::mem::take(&mut self.evicted)
    }

    /// Makes a client's session the youngest of those that may have to make room.
    fn age(&mut self, client: Client) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        self.by_age.remove(&state.place);
        self.places += 1;
        state.place = self.places;
        self.by_age.insert(state.place, client);
    }

    /// Takes the oldest learnt session away so that `client` has room.
    fn evict(&mut self, client: Client) -> Learnt {
        let session = self.get(client).map(|(session, _)| session);
        match self.make_room() {
            Some(oldest) if oldest != client => {
                self.evicted.push(oldest);
                session.map_or(Learnt::Nothing, Learnt::Session)
            }
            _ => Learnt::Full,
        }
    }

    /// Takes the oldest learnt session away, if there is one, and says whose it was.
    fn make_room(&mut self) -> Option<Client> {
        while let Some((_, oldest)) = self.by_age.pop_first() {
            let is_learnt = self.get(oldest).is_some_and(|(_, by)| by == Authority::Learnt);
            if is_learnt && self.forget(oldest, Authority::Learnt) {
                return Some(oldest);
            }
        }
        None
    }

    /// A client's tags, sorted.
    #[must_use]
    pub fn tags(&self, client: Client) -> &[String] {
        self.clients.get(&client).map_or(&[], |state| &state.tags)
    }

    /// A client's session, and who says so.
    #[must_use]
    pub fn get(&self, client: Client) -> Option<(Session, Authority)> {
        self.clients.get(&client)?.session
    }

    /// All sessions that are used.
    pub fn iter(&self) -> impl Iterator<Item = (Session, Authority)> {
        self.clients.values().filter_map(|state| state.session)
    }

    /// How many sessions are used.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.confirmed
    }

    /// Whether no session is used.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.confirmed == 0
    }

    /// A session as it was found in the kernel, by a process that takes over.
    pub fn adopt(&mut self, session: Session, authority: Authority, tags: Vec<String>) {
        let had = self.clients.get(&session.client).is_some_and(|state| state.session.is_some());
        if !self.clients.contains_key(&session.client) {
            self.proposers += 1;
        }
        self.hops.insert((session.client.network, session.path.ends), session.path.hop);
        let state = self.clients.entry(session.client).or_default();
        (state.session, state.tags) = (Some((session, authority)), tags);
        self.count(had, true);
        if authority == Authority::Learnt {
            self.age(session.client);
        }
    }

    const fn count(&mut self, had: bool, has: bool) {
        match (had, has) {
            (false, true) => {
                self.confirmed += 1;
                self.proposers -= 1;
            }
            (true, false) => {
                self.confirmed -= 1;
                self.proposers += 1;
            }
            _ => {}
        }
    }

    fn note_hop(&mut self, sighting: &Sighting) {
        let place = (sighting.client.network, ends_of(sighting));
        if self.hops.len() < super::PATHS_MAX || self.hops.contains_key(&place) {
            self.hops.insert(place, sighting.hop);
        }
    }

    /// Puts a told session into use when its link is known.
    fn complete(&mut self, client: Client) -> Option<Learnt> {
        let (told, authority) = self.waiting.get(&client).copied()?;
        let hop = [client.network, 0]
            .into_iter()
            .find_map(|network| self.hops.get(&(network, told.ends)));
        let hop = *hop?;
        self.waiting.remove(&client);
        let path = Path { ends: told.ends, hop };
        let (teids, qfi, form) = (told.teids, told.qfi, told.form);
        let session = Session { client, teids, qfi, form, path };
        let tags = self.tags(client).to_vec();
        self.adopt(session, authority, tags);
        Some(Learnt::Session(session))
    }

    /// Drops clients whose proposals all went unanswered.
    fn forget_proposers(&mut self, now_ms: u64) {
        self.clients.retain(|_, state| {
            let is_waiting =
                state.proposals.iter().any(|one| now_ms.saturating_sub(one.at_ms) < PROPOSAL_MS);
            state.session.is_some()
                || is_waiting
                || !state.tags.is_empty()
                || now_ms < state.ambiguous_until_ms
        });
        self.proposers = self.clients.len() - self.confirmed;
    }
}

/// Base station and core; 0 where nothing is tunnelled.
const fn ends_of(sighting: &Sighting) -> [u128; 2] {
    match (&sighting.tunnel, sighting.direction) {
        (None, _) => [0; 2],
        (Some(tunnel), Direction::Uplink) => [tunnel.source, tunnel.destination],
        (Some(tunnel), Direction::Downlink) => [tunnel.destination, tunnel.source],
    }
}

const fn teid_of(sighting: &Sighting) -> u32 {
    match &sighting.tunnel {
        Some(tunnel) => tunnel.teid,
        None => 0,
    }
}

impl State {
    fn propose(&mut self, sighting: &Sighting, now_ms: u64) {
        let (ends, teid) = (ends_of(sighting), teid_of(sighting));
        // The client of the session itself, from another base station: the core will say.
        let own = self.session.is_some_and(|(session, _)| {
            session.teids[0] == teid && session.path.ends[1] == ends[1]
        });
        if own {
            return;
        }
        self.proposals.retain(|one| {
            let is_same = one.ends == ends && one.teid == teid && one.flow == sighting.flow;
            !is_same && now_ms.saturating_sub(one.at_ms) < PROPOSAL_MS
        });
        if self.proposals.len() == PROPOSALS_MAX {
            self.proposals.pop_front();
        }
        self.proposals.push_back(Proposal { ends, teid, flow: sighting.flow, at_ms: now_ms });
    }

    fn answer(&mut self, sighting: &Sighting, now_ms: u64) -> Learnt {
        let (ends, teid) = (ends_of(sighting), teid_of(sighting));
        let current = self.session.map(|(session, _)| session);
        let uplink = match current {
            Some(session) if session.path.ends[1] == ends[1] => {
                if self.is_claimed(sighting) {
                    // Moved, or set up anew, or forged where the client moved to: both must show
                    // themselves again, and until then nobody has it.
                    (self.session, self.past) = (None, None);
                    self.proposals.clear();
                    return Learnt::Ambiguous;
                }
                // The core moves its own session.
                Some(session.teids[0])
            }
            _ => self.proposed(sighting, now_ms),
        };
        let Some(uplink) = uplink else { return Learnt::Nothing };
        let session = Session {
            client: sighting.client,
            teids: [uplink, teid],
            qfi: sighting.tunnel.map_or(0, |tunnel| tunnel.qfi),
            form: sighting.tunnel.map_or(Form::Plain, |tunnel| tunnel.form),
            path: Path { ends, hop: sighting.hop },
        };
        if current == Some(session) {
            return Learnt::Nothing;
        }
        if let Some(current) = current {
            let same_place =
                |one: &Session| one.teids == session.teids && one.path.ends == session.path.ends;
            let returned = self.past.filter(|past| {
                same_place(&past.session) && now_ms.saturating_sub(past.left_at_ms) < RETURN_MS
            });
            let returns = returned.map_or(0, |past| past.returns + 1);
            if returns >= 2 {
                *self = Self {
                    ambiguous_until_ms: now_ms + AMBIGUOUS_MS,
                    tags: std::mem::take(&mut self.tags),
                    ..Self::default()
                };
                return Learnt::Ambiguous;
            }
            if !same_place(&current) {
                self.past = Some(Past { session: current, left_at_ms: now_ms, returns });
            }
        }
        self.proposals.clear();
        self.session = Some((session, Authority::Learnt));
        Learnt::Session(session)
    }

    /// Whether another tunnel claims the flow. The session's own is never among proposals.
    fn is_claimed(&self, sighting: &Sighting) -> bool {
        let flow = sighting.flow.reversed();
        self.proposals.iter().any(|one| one.ends == ends_of(sighting) && one.flow == flow)
    }

    /// The tunnel from the client that this answers; none as well where it may be either of two.
    fn proposed(&self, sighting: &Sighting, now_ms: u64) -> Option<u32> {
        let (ends, flow) = (ends_of(sighting), sighting.flow.reversed());
        let mut teids = self
            .proposals
            .iter()
            .filter(|one| now_ms.saturating_sub(one.at_ms) < PROPOSAL_MS)
            .filter(|one| one.ends == ends && one.flow == flow)
            .map(|one| one.teid);
        let first = teids.next()?;
        teids.all(|teid| teid == first).then_some(first)
    }
}

#[cfg(test)]
#[path = "learn_tests.rs"]
mod tests;
