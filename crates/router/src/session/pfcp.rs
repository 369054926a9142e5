//! The core's own signalling, PFCP (3GPP TS 29.244) on N4 or Sx, from a copy of its messages.
//!
//! A control plane tells a user plane per client which tunnel it sends into and which it is reached
//! by. Of that only sessions are read: the client's address and the end of its tunnel from a rule for
//! packets from the access side, the base station's end from the action for packets to it. What cannot
//! be read is counted and has no effect.

mod many;
mod wire;

use super::Client;
use super::learn::Told;
use super::network::Networks;
use crate::gtp::Form;
use many::{DELETE_SETS, RELEASE, SET_UP, Set};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use wire::{
    Message, be, clients, element, elements, f_teid, find, instance_of, is_whole, node_of,
    outer_header, seid_of,
};

/// Sessions and unanswered requests kept.
pub const SESSIONS_MAX: usize = super::SESSIONS_MAX;
/// Requests whose response is awaited.
pub const REQUESTS_MAX: usize = 4096;
/// Bytes of their elements: as many of 4 KiB, where most have some hundred bytes.
pub const REQUESTS_BYTES_MAX: usize = REQUESTS_MAX << 12;
/// Control planes and user planes whose starts are kept.
const STARTS_MAX: usize = 1024;
/// The sides of a user plane that name a network instance.
const ACCESS: usize = 0;
const DATA: usize = 1;
/// Elements within elements that are looked into.
const DEPTH_MAX: usize = 4;
/// Actions of a session that lead to base stations: one, and some more in a handover or with several flows.
const ACTIONS_MAX: usize = 16;

const ESTABLISH: u8 = 50;
const MODIFY: u8 = 52;
const DELETE: u8 = 54;
/// Causes of a request that was accepted (§8.2.1): also one of which more usage reports are to come, and one in part.
const ACCEPTED: RangeInclusive<u8> = 1..=63;

/// What a message changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// The client has this session.
    Told(Told),
    /// The client's session ended.
    Ended(Client),
}

/// Why a message had no effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unread {
    /// Lengths contradict each other, or an element lacks what it must have.
    Malformed,
    /// A response to no request that was seen, or a change of a session whose start was not seen.
    Unknown,
    /// More is under way than is kept.
    Full,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// Their addresses.
    clients: Vec<Client>,
    /// Network instances on the access side and towards the data network: with the second one clients'
    /// addresses are unique.
    instances: [Option<String>; 2],
    /// The core's end, by the rule that has it.
    core: Option<(u32, u128)>,
    core_rule: Option<u16>,
    /// Ends of base stations, where they are known, by the actions that lead there, of which the last one changed
    /// last. Some send on, in a handover, what one base station has to the next.
    ends: Vec<(u32, Option<(u32, u128)>)>,
    /// The rule for packets to the client, and its action.
    access_rule: Option<u16>,
    access_action: Option<u32>,
    qfi: u8,
    /// Who made it, by the name it has of its own and by its address.
    node: Option<Box<[u8]>>,
    control_plane: Option<IpAddr>,
    /// Sets that are deleted as one.
    sets: Vec<Set>,
}

/// Which session a message speaks of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Key {
    user_plane: IpAddr,
    seid: u64,
}

#[derive(Clone, Debug)]
struct Request {
    kind: u8,
    seid: u64,
    /// What it asks for, which holds from when it is accepted: others of its session may be before it.
    elements: Box<[u8]>,
}

/// Follows the messages between control planes and user planes.
#[derive(Debug, Default)]
pub struct Copies {
    networks: Networks,
    sessions: HashMap<Key, Known>,
    /// Of which session each client was told last. An older one, which it had before it came back, ends without it.
    holders: HashMap<Client, Key>,
    /// When who signals was started.
    starts: HashMap<IpAddr, u32>,
    requests: HashMap<(IpAddr, IpAddr, u32), Request>,
    /// Bytes of their elements.
    requests_bytes: usize,
}

impl Copies {
    /// Copies of the signalling of a core with these networks.
    #[must_use]
    pub fn new(networks: Networks) -> Self {
        Self { networks, ..Self::default() }
    }

    /// Takes note of a message and of those that follow it, the payload of a UDP packet from or to port 8805.
    ///
    /// # Errors
    /// Why it had no effect.
    pub fn message(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        bytes: &[u8],
    ) -> Result<Vec<Change>, Unread> {
        let (mut changes, mut unread, mut rest) = (Vec::new(), None, Some(bytes));
        while let Some(bytes) = rest {
            let Some((message, after)) = Message::read(bytes) else {
                unread = Some(Unread::Malformed);
                break;
            };
            rest = after;
            let read = match message.kind {
                ESTABLISH | MODIFY | DELETE => self.request(source, destination, &message),
                51 | 53 | 55 => self.response(source, destination, &message),
                // Heartbeats, asked for and answered.
                1 | 2 => self.started(source, &message),
                SET_UP => self.started(source, &message).and_then(|ended| {
                    self.asks_of_many(source, destination, &message).map(|_| ended)
                }),
                6 => self.set_up(source, destination, &message),
                RELEASE | DELETE_SETS => self.asks_of_many(source, destination, &message),
                10 | 15 => self.done_of_many(source, destination, &message),
                _ => Ok(Vec::new()),
            };
            match read {
                Ok(more) => changes.extend(more),
                Err(why) => unread = Some(why),
            }
        }
        // What had an effect counts, whatever came with it.
        unread.filter(|_| changes.is_empty()).map_or(Ok(changes), Err)
    }

    fn request(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<Vec<Change>, Unread> {
        let key = Key { user_plane: destination, seid: message.seid };
        let mut known = match message.kind {
            ESTABLISH => Known::default(),
            _ => self.sessions.get(&key).cloned().ok_or(Unread::Unknown)?,
        };
        known.apply(message.elements, 0).ok_or(Unread::Malformed)?;
        self.keep(source, destination, message);
        Ok(Vec::new())
    }

    /// Keeps a request until it is answered.
    fn keep(&mut self, source: IpAddr, destination: IpAddr, message: &Message<'_>) {
        let bytes = message.elements.len();
        if self.requests.len() >= REQUESTS_MAX || self.requests_bytes + bytes > REQUESTS_BYTES_MAX {
            // Those are requests nobody answered; their senders will repeat what matters.
            self.requests.clear();
            self.requests_bytes = 0;
        }
        let request =
            Request { kind: message.kind, seid: message.seid, elements: message.elements.into() };
        let before = self.requests.insert((source, destination, message.sequence), request);
        self.requests_bytes += bytes;
        self.requests_bytes -= before.map_or(0, |before| before.elements.len());
    }

    /// The request that a message answers, and the answer's cause.
    fn answered(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<(Request, Option<u8>), Unread> {
        let place = (destination, source, message.sequence);
        let request = self.requests.get(&place).ok_or(Unread::Unknown)?;
        if request.kind + 1 != message.kind {
            return Err(Unread::Unknown);
        }
        let cause = find(message.elements, element::CAUSE).and_then(|value| value.first()).copied();
        let request = self.requests.remove(&place).ok_or(Unread::Unknown)?;
        self.requests_bytes -= request.elements.len();
        Ok((request, cause))
    }

    fn response(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<Vec<Change>, Unread> {
        let (Request { kind, seid, elements: asked }, cause) =
            self.answered(source, destination, message)?;
        if !cause.is_some_and(|cause| ACCEPTED.contains(&cause)) {
            return Ok(Vec::new());
        }
        let seid = if kind == ESTABLISH {
            seid_of(message.elements).ok_or(Unread::Malformed)?
        } else {
            seid
        };
        let key = Key { user_plane: source, seid };
        let before = self.sessions.get(&key).cloned();
        let mut known = match (kind, &before) {
            (ESTABLISH, _) => Known {
                node: node_of(&asked).map(Box::from),
                control_plane: Some(destination),
                ..Known::default()
            },
            (_, before) => before.clone().ok_or(Unread::Unknown)?,
        };
        for elements in [&asked[..], message.elements] {
            known.apply(elements, 0).ok_or(Unread::Malformed)?;
        }
        self.sessions.remove(&key);
        let before = before.unwrap_or_default();
        let before: Vec<Client> = before.clients(&self.networks).collect();
        if kind == DELETE {
            return Ok(self.ended(key, before));
        }
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(Unread::Full);
        }
        let now: Vec<Client> = known.clients(&self.networks).collect();
        let gone = before.into_iter().filter(|client| !now.contains(client)).collect();
        let mut changes = self.ended(key, gone);
        let told = known.told(&now);
        if !told.is_empty() {
            self.holders.extend(now.into_iter().map(|client| (client, key)));
        }
        changes.extend(told);
        self.sessions.insert(key, known);
        Ok(changes)
    }

    /// Who signals was started then: a user plane that was started anew has no session of before (TS 23.527 §4.2).
    fn started(&mut self, source: IpAddr, message: &Message<'_>) -> Result<Vec<Change>, Unread> {
        let stamp = find(message.elements, element::RECOVERY_TIME_STAMP);
        let Some(stamp) = stamp else { return Ok(Vec::new()) };
        let at_s = be(stamp.get(..4).ok_or(Unread::Malformed)?) as u32;
        if self.starts.len() >= STARTS_MAX && !self.starts.contains_key(&source) {
            return Err(Unread::Full);
        }
        if self.starts.insert(source, at_s).is_none_or(|before| before == at_s) {
            return Ok(Vec::new());
        }
        let lost = self.sessions.keys().filter(|key| key.user_plane == source);
        let lost: Vec<Key> = lost.copied().collect();
        Ok(self.lost(&lost))
    }

    /// An association is set up: in the place of another one perhaps, whose sessions are no more.
    fn set_up(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        message: &Message<'_>,
    ) -> Result<Vec<Change>, Unread> {
        let mut ended = self.started(source, message)?;
        // One whose request was not seen tells what a heartbeat does.
        ended.extend(self.done_of_many(source, destination, message).unwrap_or_default());
        Ok(ended)
    }

    /// Clients have this session no more, and none where they were not told of another since.
    fn ended(&mut self, key: Key, mut clients: Vec<Client>) -> Vec<Change> {
        clients.retain(|client| self.holders.get(client).is_none_or(|holder| *holder == key));
        for client in &clients {
            self.holders.remove(client);
        }
        clients.into_iter().map(Change::Ended).collect()
    }
}

impl Known {
    /// Who they are: in the network the core names, or the one its address tells.
    fn clients(&self, networks: &Networks) -> impl Iterator<Item = Client> + use<'_> {
        let named = |side: usize| {
            self.instances[side].as_ref().and_then(|instance| networks.of_instance(instance))
        };
        let told = named(DATA).or_else(|| named(ACCESS));
        let told = told.or_else(|| networks.of_core(self.core?.1)).unwrap_or_default();
        self.clients.iter().map(move |client| client.within(told))
    }

    fn told(&self, clients: &[Client]) -> Vec<Change> {
        let (Some((up, core)), Some((down, access))) = (self.core, self.access()) else {
            return Vec::new();
        };
        let form = if self.qfi == 0 { Form::Gtp } else { Form::GtpContainer };
        let told = |client: &Client| {
            let (teids, ends, qfi) = ([up, down], [access, core], self.qfi);
            Change::Told(Told { client: *client, teids, ends, qfi, form })
        };
        clients.iter().map(told).collect()
    }

    /// Where packets to the client go: by their rule, or by the last word where there was none of that.
    fn access(&self) -> Option<(u32, u128)> {
        let of = |id| self.ends.iter().find(|(known, _)| *known == id);
        self.access_action.map_or_else(|| self.ends.last(), of).and_then(|(_, end)| *end)
    }

    /// Takes over what a list of elements says; nothing when one cannot be read.
    fn apply(&mut self, list: &[u8], depth: usize) -> Option<()> {
        if depth > DEPTH_MAX || !is_whole(list) {
            return None;
        }
        // Before others take their place, in whatever order they are.
        for (kind, value) in elements(list) {
            match kind {
                element::REMOVE_PDR => self.rule_removed(value)?,
                element::REMOVE_FAR => {
                    let id = be(find(value, element::FAR_ID)?.get(..4)?) as u32;
                    self.ends.retain(|(known, _)| *known != id);
                }
                _ => {}
            }
        }
        for (kind, value) in elements(list) {
            match kind {
                element::CREATE_PDR | element::UPDATE_PDR => self.rule(value)?,
                element::CREATED_PDR => self.created(value)?,
                element::CREATE_FAR | element::UPDATE_FAR => self.action(value)?,
                element::CREATE_QER => self.apply(value, depth + 1)?,
                element::SETS => self.take_sets(value)?,
                // The first flow is there for as long as the session, others for a call or a film.
                element::QFI if self.qfi == 0 => self.qfi = value.first()? & 0x3f,
                _ => {}
            }
        }
        Some(())
    }

    fn rule(&mut self, rule: &[u8]) -> Option<()> {
        if !is_whole(rule) {
            return None;
        }
        let id = id_of_rule(rule);
        if id.is_some() && id == self.access_rule {
            self.take_action(rule)?;
        }
        let Some(pdi) = find(rule, element::PDI) else { return Some(()) };
        if !is_whole(pdi) {
            return None;
        }
        let from = find(pdi, element::SOURCE_INTERFACE).and_then(|value| value.first());
        let side = from.and_then(|from| side_of(*from));
        if let (Some(side), Some(instance)) = (side, find(pdi, element::NETWORK_INSTANCE)) {
            self.instances[side] = instance_of(instance);
        }
        self.take_address(pdi)?;
        if let Some(qfi) = find(pdi, element::QFI).filter(|_| self.qfi == 0) {
            self.qfi = qfi.first()? & 0x3f;
        }
        // A further rule of the access side that names no client is for what a base station sends on.
        let names_client = find(pdi, element::UE_ADDRESS).is_some();
        if side == Some(ACCESS)
            && (names_client || self.core_rule.is_none_or(|one| Some(one) == id))
        {
            self.core_rule = id;
            if let Some(end) = find(pdi, element::F_TEID) {
                // The user plane may choose, and say so in its response.
                self.core = f_teid(end)?.or(self.core);
            }
        }
        if side == Some(DATA) && self.access_rule.is_none() {
            self.access_rule = id;
            self.take_action(rule)?;
        }
        Some(())
    }

    /// The action of the rule for packets to the client, where it is said.
    fn take_action(&mut self, rule: &[u8]) -> Option<()> {
        if let Some(id) = find(rule, element::FAR_ID) {
            self.access_action = Some(be(id.get(..4)?) as u32);
        }
        Some(())
    }

    fn rule_removed(&mut self, rule: &[u8]) -> Option<()> {
        let id = Some(id_of_rule(rule)?);
        if id == self.core_rule {
            self.core_rule = None;
        }
        if id == self.access_rule {
            (self.access_rule, self.access_action) = (None, None);
        }
        Some(())
    }

    /// The addresses of a client, where a rule has any.
    fn take_address(&mut self, rule: &[u8]) -> Option<()> {
        let Some(address) = find(rule, element::UE_ADDRESS) else { return Some(()) };
        for client in clients(address)? {
            if !self.clients.contains(&client) && self.clients.len() < 4 {
                self.clients.push(client);
            }
        }
        Some(())
    }

    /// What the user plane chose of a rule: its end of the tunnel, the client's address.
    fn created(&mut self, rule: &[u8]) -> Option<()> {
        if !is_whole(rule) {
            return None;
        }
        self.take_address(rule)?;
        let id = id_of_rule(rule);
        if id.is_some()
            && id == self.core_rule
            && let Some(end) = find(rule, element::F_TEID)
        {
            self.core = f_teid(end)?.or(self.core);
        }
        Some(())
    }

    fn action(&mut self, action: &[u8]) -> Option<()> {
        if !is_whole(action) {
            return None;
        }
        let id = be(find(action, element::FAR_ID)?.get(..4)?) as u32;
        let forwarding =
            find(action, element::FORWARDING).or_else(|| find(action, element::UPDATE_FORWARDING));
        let Some(forwarding) = forwarding else { return Some(()) };
        if !is_whole(forwarding) {
            return None;
        }
        let to = find(forwarding, element::DESTINATION_INTERFACE).and_then(|value| value.first());
        let side = to.and_then(|to| side_of(*to));
        if side == Some(DATA)
            && let Some(instance) = find(forwarding, element::NETWORK_INSTANCE)
        {
            self.instances[DATA] = instance_of(instance);
        }
        // An update need not repeat what it does not change.
        let known = self.ends.iter().position(|(known, _)| *known == id);
        let is_access = side == Some(ACCESS) || (to.is_none() && known.is_some());
        if is_access {
            let header = find(forwarding, element::OUTER_HEADER_CREATION);
            let end = match header {
                Some(header) => outer_header(header)?,
                None => None,
            };
            let before = known.and_then(|place| self.ends.remove(place).1);
            self.ends.push((id, end.or(before)));
            if self.ends.len() > ACTIONS_MAX {
                let is_oldest_other = |(other, _): &(u32, _)| Some(*other) != self.access_action;
                let oldest = self.ends.iter().position(is_oldest_other).unwrap_or(0);
                self.ends.remove(oldest);
            }
        }
        Some(())
    }
}

/// The side an interface is on (§8.2.2): base stations, or the data network; neither where it is the control
/// plane's or lawful interception's.
const fn side_of(interface: u8) -> Option<usize> {
    match interface {
        0 => Some(ACCESS),
        1 | 2 | 5 => Some(DATA),
        _ => None,
    }
}

fn id_of_rule(rule: &[u8]) -> Option<u16> {
    Some(be(find(rule, element::PDR_ID)?.get(..2)?) as u16)
}
