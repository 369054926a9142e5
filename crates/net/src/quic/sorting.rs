//! Whose a datagram is. What is for no connection is answered here, or dropped.

use super::random;
use super::resets::{ClientTokens, GivenUp, Resets};
use super::secrets::Secrets;
use super::steering::Steering;
use super::token::TokenKey;
use crate::limits::{
    BEGUN_BEFORE_MAX, HANDSHAKES_OPEN_MAX, HANDSHAKES_UNASKED_MAX, RESETS_PER_SECOND_MAX,
};
use crate::socket::canonical;
use freshet_quic::error::code;
use freshet_quic::limits::{DATAGRAM_BYTES_MIN, RESET_BYTES_MIN};
use freshet_quic::packet::{Invariant, Kind, Protected, write_version_negotiation};
use freshet_quic::parameters::Names;
use freshet_quic::retry::write_retry;
use freshet_quic::{Accept, Id, Refused, ResetTokens, Route, Version};
use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Whose a datagram is.
#[derive(Debug)]
pub enum Sorted<K> {
    /// That of a connection.
    Of(K),
    /// That of one that begins with it.
    First(Box<Accept>),
    /// That of a connection of another worker.
    Elsewhere(u8),
    /// Perhaps that of a connection of the process before, which knows.
    Before,
    /// Nobody's; this is the answer to its sender.
    Answer(Answer, Vec<u8>),
    /// That of one that would begin with it, if there might be new ones.
    Refused(Refused),
    /// Nobody's.
    Dropped,
}

/// What is said to the sender of a datagram that is nobody's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// That it has to come again, to show where it is (RFC 9000 §8.1.2).
    Retry,
    /// That nothing is known of its connection (RFC 9000 §10.3).
    Reset,
    /// Which versions there are (RFC 9000 §6).
    Versions,
}

/// The connections of a worker, by their ids.
#[derive(Debug)]
pub struct Sorting<K> {
    steering: Steering,
    secrets: Arc<Secrets>,
    /// Ours, and those of clients' first packets while a handshake is open.
    ids: HashMap<Id, K>,
    /// What clients say with that know nothing of theirs any more.
    resets: Resets<K>,
    /// Handshakes that are not over.
    handshakes: usize,
    /// These by the networks of their clients.
    of_networks: HashMap<IpAddr, usize>,
    /// What the process before has, while it is there.
    before: Option<Before>,
    /// Answers to nobody's datagrams that may still be sent, and when that was counted.
    answers: (u32, Duration),
}

/// What the process before has.
#[derive(Debug)]
struct Before {
    /// Among how many workers its ids tell apart.
    workers: u8,
    /// Ids of clients' first packets, of handshakes that are open there.
    begun: HashSet<Id>,
}

impl<K: Copy> Sorting<K> {
    /// With no connections.
    pub fn new(steering: Steering, secrets: Arc<Secrets>, tokens: Arc<ClientTokens>) -> Self {
        let answers = (RESETS_PER_SECOND_MAX, Duration::ZERO);
        Self {
            steering,
            secrets,
            ids: HashMap::new(),
            resets: Resets::new(steering.worker, tokens),
            handshakes: 0,
            of_networks: HashMap::new(),
            before: None,
            answers,
        }
    }

    /// There is a process before, whose ids tell so many workers apart.
    pub fn follow(&mut self, workers: u8) {
        self.before = Some(Before { workers: workers.max(1), begun: HashSet::new() });
    }

    /// It has begun handshakes with clients that use these ids.
    pub fn begun_before(&mut self, ids: impl IntoIterator<Item = Id>) {
        if let Some(before) = &mut self.before {
            let room = BEGUN_BEFORE_MAX.saturating_sub(before.begun.len());
            before.begun.extend(ids.into_iter().take(room));
        }
    }

    /// It has ended: what is for nobody here is for nobody.
    pub fn follow_nobody(&mut self) {
        self.before = None;
    }

    /// Says whose a datagram is. `is_accepting` tells whether there may be new connections; `now` is
    /// since any moment that processes agree on which share secrets.
    pub fn sort(
        &mut self,
        route: Route,
        datagram: &[u8],
        is_accepting: bool,
        now: Duration,
    ) -> Sorted<K> {
        let Some(invariant) = Invariant::read(datagram) else { return Sorted::Dropped };
        if let Some(id) = Id::new(invariant.receiver)
            && let Some(connection) = self.ids.get(&id)
        {
            return Sorted::Of(*connection);
        }
        // It looks like a packet of a connection that is made, never like a first one.
        let given_up = invariant.version.is_none().then(|| self.resets.whose(datagram)).flatten();
        match given_up {
            Some(GivenUp::Ours(connection)) => return Sorted::Of(connection),
            Some(GivenUp::Of(worker)) => return Sorted::Elsewhere(worker),
            None => {}
        }
        let worker = self.steering.worker_of(invariant.receiver);
        if let Some(before) = &self.before
            && before.may_have(&invariant, datagram)
        {
            // It has its own count of workers, and each of ours a line to at most one of them.
            let line = invariant.receiver.first().map_or(0, |first| first % before.workers);
            return if line == self.steering.worker {
                Sorted::Before
            } else if worker == self.steering.worker {
                Sorted::Elsewhere(line)
            } else {
                Sorted::Elsewhere(worker)
            };
        }
        match invariant.version {
            // Any worker can answer first packets, but only one should.
            Some(_) | None if worker != self.steering.worker => Sorted::Elsewhere(worker),
            None => self.reset(invariant.receiver, datagram.len(), now),
            Some(number) if Version::of(number).is_some() => match is_accepting {
                true => self.first(route, datagram, now),
                false => self.refused(datagram, code::CONNECTION_REFUSED, now),
            },
            Some(0) => Sorted::Dropped,
            Some(_) if datagram.len() < DATAGRAM_BYTES_MIN => Sorted::Dropped,
            Some(_) => {
                let mut out = Vec::new();
                let ids = (invariant.receiver, invariant.sender);
                write_version_negotiation(ids, random::<1>()[0], &mut out);
                Sorted::Answer(Answer::Versions, out)
            }
        }
    }

    /// A packet that may begin a connection.
    fn first(&mut self, route: Route, datagram: &[u8], now: Duration) -> Sorted<K> {
        let Some(packet) = Protected::read(datagram) else { return Sorted::Dropped };
        let Some(version) = packet.version else { return Sorted::Dropped };
        let from = route.remote;
        if !begins(&packet, datagram) {
            return Sorted::Dropped;
        }
        if self.is_full_for(from) {
            return self.refused(datagram, code::CONNECTION_REFUSED, now);
        }
        let own = self.steering.draw_id();
        let token = datagram.get(packet.token.clone()).unwrap_or(&[]);
        let original = self.secrets.tokens.open((from, version), &packet.receiver, token, now);
        if original.is_none() && TokenKey::is_of_retry(token) {
            return self.refused(datagram, code::INVALID_TOKEN, now);
        }
        let is_known = original.is_some() || self.secrets.knows(from, token, now);
        if !is_known && self.handshakes >= HANDSHAKES_UNASKED_MAX {
            // The client has to show that it is where it says before more is done for it.
            let token = self.secrets.tokens.seal((from, version), &own, &packet.receiver, now);
            let mut out = Vec::new();
            let ids = (&packet.sender, &own, &packet.receiver);
            let is_written = write_retry(version, ids, &token, random::<1>()[0], &mut out);
            return if is_written { Sorted::Answer(Answer::Retry, out) } else { Sorted::Dropped };
        }
        Sorted::First(Box::new(Accept {
            version,
            names: Names {
                original: original.unwrap_or(packet.receiver),
                own,
                retry: original.map(|_| packet.receiver),
                reset_token: self.secrets.reset_token(&own),
            },
            receiver: packet.receiver,
            client: packet.sender,
            route,
            is_validated: is_known,
            seed: freshet_base::random::number(),
        }))
    }

    /// A packet that would begin a connection, but for what the code says.
    fn refused(&mut self, datagram: &[u8], code: u64, now: Duration) -> Sorted<K> {
        let refused = Protected::read(datagram).filter(|packet| begins(packet, datagram));
        match refused.and_then(|packet| Refused::of(&packet, code)) {
            Some(refused) if self.may_answer(now) => Sorted::Refused(refused),
            _ => Sorted::Dropped,
        }
    }

    /// Whether another answer to nobody's datagram may be sent, which is counted.
    pub fn may_answer(&mut self, now: Duration) -> bool {
        let (left, counted) = &mut self.answers;
        if now >= *counted + Duration::from_secs(1) {
            (*left, *counted) = (RESETS_PER_SECOND_MAX, now);
        }
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }

    /// Tells a client that we know nothing of its connection (RFC 9000 §10.3).
    fn reset(&mut self, receiver: &[u8], datagram_bytes: usize, now: Duration) -> Sorted<K> {
        /// What a reset has at most.
        const BYTES_MAX: usize = 42;
        // Shorter than what it answers, so that two who know nothing come to an end.
        let bytes = datagram_bytes.saturating_sub(1).min(BYTES_MAX);
        let Some(id) =
            Id::new(receiver).filter(|_| bytes >= RESET_BYTES_MIN && self.may_answer(now))
        else {
            return Sorted::Dropped;
        };
        let mut out = random::<BYTES_MAX>().to_vec();
        out.truncate(bytes - 16);
        if let Some(first) = out.first_mut() {
            *first = *first & 0x3f | 0x40;
        }
        out.extend_from_slice(&self.secrets.reset_token(&id));
        Sorted::Answer(Answer::Reset, out)
    }

    /// Datagrams for `id` are this connection's.
    pub fn add(&mut self, id: Id, connection: K) {
        self.ids.insert(id, connection);
    }

    /// They are nobody's any more.
    pub fn remove(&mut self, id: &Id) {
        self.ids.remove(id);
    }

    /// The tokens have changed by which a connection's client can say that it knows nothing of it.
    pub fn change_tokens(&mut self, tokens: &ResetTokens, connection: K) {
        self.resets.change(tokens, connection);
    }

    /// These tokens mean nothing any more.
    pub fn forget_tokens(&mut self, tokens: &[[u8; 16]]) {
        self.resets.forget(tokens);
    }

    /// Another id for a connection, and its token.
    pub fn draw_id(&mut self, connection: K) -> (Id, [u8; 16]) {
        let id = self.steering.draw_id();
        self.ids.insert(id, connection);
        (id, self.secrets.reset_token(&id))
    }

    /// A token for a client that is known to be there, for its later connections; `now` as for
    /// [`Sorting::sort`].
    pub fn token_for(&self, client: SocketAddr, now: Duration) -> Vec<u8> {
        self.secrets.tokens.seal_visit(canonical(client).ip(), now)
    }

    /// A handshake with a client began.
    pub fn handshake_began(&mut self, client: SocketAddr) {
        self.handshakes += 1;
        *self.of_networks.entry(network(client)).or_default() += 1;
    }

    /// One is over, or given up.
    pub fn handshake_ended(&mut self, client: SocketAddr) {
        self.handshakes = self.handshakes.saturating_sub(1);
        if let Entry::Occupied(mut of_network) = self.of_networks.entry(network(client)) {
            *of_network.get_mut() -= 1;
            if *of_network.get() == 0 {
                of_network.remove();
            }
        }
    }

    /// Whether no more handshakes may begin with a client.
    fn is_full_for(&self, client: SocketAddr) -> bool {
        let of_network = self.of_networks.get(&network(client)).copied().unwrap_or_default();
        of_network >= HANDSHAKES_OPEN_MAX.saturating_sub(self.handshakes)
    }

    /// How many ids are known.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Before {
    /// Whether a datagram that is for no connection here can be for one of theirs. Clients' first
    /// packets begin connections here, but for those that have begun there.
    fn may_have(&self, invariant: &Invariant<'_>, datagram: &[u8]) -> bool {
        match invariant.version {
            None => true,
            Some(number) if Version::of(number).is_some() => {
                let begins = Protected::read(datagram)
                    .is_none_or(|packet| matches!(packet.kind, Kind::Initial | Kind::ZeroRtt));
                !begins || Id::new(invariant.receiver).is_some_and(|id| self.begun.contains(&id))
            }
            Some(_) => false,
        }
    }
}

/// Whether a packet may begin a connection (RFC 9000 §7.2, §14.1).
fn begins(packet: &Protected, datagram: &[u8]) -> bool {
    packet.kind == Kind::Initial
        && datagram.len() >= DATAGRAM_BYTES_MIN
        && packet.receiver.as_bytes().len() >= 8
}

/// Whom a client counts for: its address, of IPv6 the first 64 bits.
fn network(client: SocketAddr) -> IpAddr {
    match canonical(client).ip() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const NOW: Duration = Duration::from_secs(10);

    fn sorting() -> Sorting<u32> {
        let steering = Steering::new(0, 1).unwrap();
        Sorting::new(steering, Arc::new(Secrets::random()), Arc::default())
    }

    fn client() -> Route {
        "192.0.2.9:5000".parse::<SocketAddr>().unwrap().into()
    }

    const V1: u32 = 1;
    const V2: u32 = 0x6b33_43cf;

    fn initial(version: u32, receiver: &[u8], token: &[u8], bytes: usize) -> Vec<u8> {
        let mut out = vec![if version == V2 { 0xd0 } else { 0xc0 }];
        out.extend(version.to_be_bytes());
        out.push(receiver.len() as u8);
        out.extend(receiver);
        out.extend([3, 1, 2, 3]);
        out.extend((token.len() as u16 | 0x4000).to_be_bytes());
        out.extend(token);
        let rest = bytes - out.len() - 2;
        out.extend((rest as u16 | 0x4000).to_be_bytes());
        out.resize(bytes, 0);
        out
    }

    #[test]
    fn first_packets_begin_connections_and_later_ones_find_them() {
        let mut sorting = sorting();
        let datagram = initial(V1, &[8; 8], &[], 1200);
        let Sorted::First(accept) = sorting.sort(client(), &datagram, true, NOW) else {
            panic!("it is a first packet");
        };
        assert!(!accept.is_validated && accept.names.retry.is_none());
        sorting.add(accept.receiver, 7);
        sorting.add(accept.names.own, 7);
        assert!(matches!(sorting.sort(client(), &datagram, false, NOW), Sorted::Of(7)));
        let short = [&[0x40], accept.names.own.as_bytes(), &[0; 30]].concat();
        assert!(matches!(sorting.sort(client(), &short, false, NOW), Sorted::Of(7)));
    }

    #[test]
    fn what_cannot_begin_one_is_dropped() {
        let mut sorting = sorting();
        for datagram in [
            initial(V1, &[8; 8], &[], 1199),
            initial(V1, &[8; 7], &[], 1200),
            initial(0, &[8; 8], &[], 1200),
            initial(5, &[8; 8], &[], 1199),
            [&[0xe0, 0, 0, 0, 1][..], &[0xff; 1195]].concat(),
            vec![0x40; 21],
            vec![],
        ] {
            let sorted = sorting.sort(client(), &datagram, true, NOW);
            assert!(matches!(sorted, Sorted::Dropped), "{sorted:?}");
        }
    }

    #[test]
    fn who_comes_too_late_is_refused_and_not_too_often() {
        let mut sorting = sorting();
        let small = initial(V1, &[8; 8], &[], 1199);
        assert!(matches!(sorting.sort(client(), &small, false, NOW), Sorted::Dropped));
        let datagram = initial(V1, &[8; 8], &[], 1200);
        let Sorted::Refused(refused) = sorting.sort(client(), &datagram, false, NOW) else {
            panic!("it is refused");
        };
        let (receiver, sender) = (refused.receiver, refused.client);
        assert_eq!((receiver.as_bytes(), sender.as_bytes()), (&[8; 8][..], &[1, 2, 3][..]));
        let refused = (0..10_000)
            .filter(|_| matches!(sorting.sort(client(), &datagram, false, NOW), Sorted::Refused(_)))
            .count();
        assert_eq!(refused, RESETS_PER_SECOND_MAX as usize - 1);
    }

    #[test]
    fn other_versions_are_told_ours() {
        let datagram = initial(0xff00_001d, &[8; 9], &[], 1200);
        let Sorted::Answer(Answer::Versions, answer) =
            sorting().sort(client(), &datagram, true, NOW)
        else {
            panic!("there is an answer");
        };
        let read = Invariant::read(&answer).unwrap();
        assert_eq!(
            (read.version, read.receiver, read.sender),
            (Some(0), &[1, 2, 3][..], &[8; 9][..])
        );
        for ours in [V1, V2] {
            assert!(answer.windows(4).any(|version| version == ours.to_be_bytes()));
        }
        assert!(answer.len() < 60);
    }

    #[test]
    fn where_handshakes_are_many_a_client_has_to_come_again() {
        for (version, other_version) in [(V1, V2), (V2, V1)] {
            let mut sorting = sorting();
            open(&mut sorting, HANDSHAKES_UNASKED_MAX);
            let datagram = initial(version, &[8; 8], &[], 1200);
            let Sorted::Answer(Answer::Retry, retry) = sorting.sort(client(), &datagram, true, NOW)
            else {
                panic!("it is asked to come again");
            };
            let packet = Protected::read(&retry).unwrap();
            assert_eq!((packet.kind, packet.version), (Kind::Retry, Version::of(version)));
            let token = &retry[packet.token.start..retry.len() - 16];
            let again = initial(version, packet.sender.as_bytes(), token, 1200);
            let Sorted::First(accept) = sorting.sort(client(), &again, true, NOW) else {
                panic!("it has come again");
            };
            assert!(accept.is_validated);
            assert_eq!(Some(accept.version), Version::of(version));
            assert_eq!(accept.names.original, Id::new(&[8; 8]).unwrap());
            assert_eq!(accept.names.retry, Some(packet.sender));
            // In another version, and from elsewhere, it has not, and will not another time.
            let otherwise = initial(other_version, packet.sender.as_bytes(), token, 1200);
            let other = "192.0.2.8:5000".parse::<SocketAddr>().unwrap().into();
            for (route, datagram) in [(client(), &otherwise), (other, &again)] {
                let Sorted::Refused(refused) = sorting.sort(route, datagram, true, NOW) else {
                    panic!("it is told so");
                };
                assert_eq!(refused.code, code::INVALID_TOKEN);
            }
            // A token of other servers says nothing.
            let foreign = initial(version, &[8; 8], &[7; 40], 1200);
            let sorted = sorting.sort(client(), &foreign, true, NOW);
            assert!(matches!(sorted, Sorted::Answer(Answer::Retry, _)));
            open(&mut sorting, HANDSHAKES_OPEN_MAX - HANDSHAKES_UNASKED_MAX);
            let sorted = sorting.sort(client(), &again, true, NOW);
            assert!(matches!(sorted, Sorted::Refused(_)), "{sorted:?}");
        }
    }

    #[test]
    fn who_was_here_before_shows_it_once_and_need_not_come_again() {
        let mut sorting = sorting();
        open(&mut sorting, HANDSHAKES_UNASKED_MAX);
        let from = |text: &str| text.parse::<SocketAddr>().unwrap();
        let token = sorting.token_for(from("192.0.2.9:1"), NOW);
        let datagram = initial(V1, &[8; 8], &token, 1200);
        let mut sort = |client: &str, late: u64| {
            let now = NOW + Duration::from_secs(late);
            sorting.sort(from(client).into(), &datagram, true, now)
        };
        let day = 24 * 60 * 60;
        for (client, late) in [("192.0.2.8:5000", 0), ("192.0.2.9:5000", day + 1)] {
            assert!(matches!(sort(client, late), Sorted::Answer(Answer::Retry, _)));
        }
        // It has another port by now.
        let Sorted::First(accept) = sort("[::ffff:192.0.2.9]:5000", day) else {
            panic!("it is known");
        };
        let Names { original, retry, .. } = accept.names;
        assert!(accept.is_validated && retry.is_none() && original == accept.receiver);
        // Whoever has seen it cannot use it.
        assert!(matches!(sort("192.0.2.9:5000", 0), Sorted::Answer(Answer::Retry, _)));
    }

    /// Handshakes of clients that are each of a network of its own.
    fn open(sorting: &mut Sorting<u32>, count: usize) {
        for number in 0..count {
            let address = Ipv4Addr::from_bits(0x0a00_0000 + number as u32);
            sorting.handshake_began(SocketAddr::from((address, 4000)));
        }
    }

    #[test]
    fn one_network_keeps_no_other_out() {
        for (one, same, other) in [
            ("192.0.2.9:5000", "[::ffff:192.0.2.9]:5001", "192.0.2.8:5000"),
            ("[2001:db8::1]:5000", "[2001:db8::2:1]:5000", "[2001:db8:0:1::1]:5000"),
        ] {
            let mut sorting = sorting();
            let [one, same, other] = [one, same, other].map(|client| client.parse().unwrap());
            (0..HANDSHAKES_OPEN_MAX / 2).for_each(|_| sorting.handshake_began(one));
            let datagram = initial(V1, &[8; 8], &[], 1200);
            let mut sort = |client: SocketAddr| sorting.sort(client.into(), &datagram, true, NOW);
            assert!(matches!(sort(same), Sorted::Refused(_)));
            assert!(matches!(sort(other), Sorted::Answer(Answer::Retry, _)));
            sorting.handshake_ended(same);
            let sorted = sorting.sort(same.into(), &datagram, true, NOW);
            assert!(matches!(sorted, Sorted::Answer(Answer::Retry, _)));
            (1..HANDSHAKES_OPEN_MAX / 2).for_each(|_| sorting.handshake_ended(one));
            assert!(sorting.of_networks.is_empty());
        }
    }

    #[test]
    fn what_is_for_nobody_here_is_for_the_process_before() {
        let mut sorting = sorting();
        let short = [&[0x40], &[9; 8][..], &[0; 30]].concat();
        let begun = initial(V1, &[8; 8], &[], 1200);
        let handshake = [&[0xe0, 0, 0, 0, 1, 8][..], &[7; 8], &[0, 0x40, 100], &[0; 100]].concat();
        let sort = |sorting: &mut Sorting<u32>, datagram: &[u8]| {
            sorting.sort(client(), datagram, true, NOW)
        };
        assert!(matches!(sort(&mut sorting, &short), Sorted::Answer(..)));
        sorting.follow(1);
        assert!(matches!(sort(&mut sorting, &begun), Sorted::First(_)));
        sorting.begun_before([Id::new(&[8; 8]).unwrap()]);
        for datagram in [&short, &begun, &handshake] {
            assert!(matches!(sort(&mut sorting, datagram), Sorted::Before));
        }
        // What is ours stays ours, and clients of other versions are answered here.
        sorting.add(Id::new(&[9; 8]).unwrap(), 3);
        assert!(matches!(sort(&mut sorting, &short), Sorted::Of(3)));
        let other = initial(5, &[8; 8], &[], 1200);
        assert!(matches!(sort(&mut sorting, &other), Sorted::Answer(..)));
        sorting.follow_nobody();
        assert!(matches!(sort(&mut sorting, &handshake), Sorted::Dropped));
        assert!(matches!(sort(&mut sorting, &begun), Sorted::First(_)));
    }

    #[test]
    fn a_process_before_with_other_workers_is_reached_by_one_of_ours() {
        let secrets = Arc::new(Secrets::random());
        for first in 0..=255 {
            let short = [&[0x40, first], &[0; 37][..]].concat();
            for arrives in 0..3 {
                let (mut at, mut ways) = (arrives, 0);
                loop {
                    let steering = Steering::new(at, 3).unwrap();
                    let mut sorting =
                        Sorting::<u32>::new(steering, Arc::clone(&secrets), Arc::default());
                    sorting.follow(2);
                    match sorting.sort(client(), &short, true, NOW) {
                        Sorted::Before => break assert_eq!(at, usize::from(first % 2)),
                        Sorted::Elsewhere(other) => at = usize::from(other),
                        other => panic!("{other:?}"),
                    }
                    ways += 1;
                    assert!(ways <= 2);
                }
            }
        }
    }

    #[test]
    fn who_gives_a_connection_up_is_heard_by_the_worker_that_has_it() {
        let (secrets, tokens) = (Arc::new(Secrets::random()), Arc::default());
        let mut workers = [0, 1].map(|worker| {
            let steering = Steering::new(worker, 2).unwrap();
            Sorting::<u32>::new(steering, Arc::clone(&secrets), Arc::clone(&tokens))
        });
        workers[1].change_tokens(&ResetTokens { new: vec![[9; 16]], gone: vec![] }, 5);
        for first in [0, 1] {
            let reset = [&[0x40, first][..], &[0; 20], &[9; 16]].concat();
            let sorted = workers[0].sort(client(), &reset, true, NOW);
            assert!(matches!(sorted, Sorted::Elsewhere(1)), "{sorted:?}");
            assert!(matches!(workers[1].sort(client(), &reset, true, NOW), Sorted::Of(5)));
        }
        workers[1].forget_tokens(&[[9; 16]]);
        let reset = [&[0x40, 1][..], &[0; 20], &[9; 16]].concat();
        assert!(matches!(workers[1].sort(client(), &reset, true, NOW), Sorted::Answer(..)));
    }

    #[test]
    fn who_speaks_of_what_is_forgotten_hears_so_and_not_too_often() {
        let mut sorting = sorting();
        let id = sorting.steering.draw_id();
        let short = [&[0x40], id.as_bytes(), &[0; 30]].concat();
        let Sorted::Answer(Answer::Reset, reset) = sorting.sort(client(), &short, true, NOW) else {
            panic!("there is an answer");
        };
        assert!(reset.len() < short.len() && reset[0] & 0xc0 == 0x40);
        assert!(reset.ends_with(&sorting.secrets.reset_token(&id)));
        let answered = (0..10_000)
            .filter(|_| matches!(sorting.sort(client(), &short, true, NOW), Sorted::Answer(..)))
            .count();
        assert_eq!(answered, RESETS_PER_SECOND_MAX as usize - 1);
    }
}
