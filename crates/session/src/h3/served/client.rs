//! Who is at the other end of a connection, and where.

use super::super::multiplexed::Piece;
use super::Session;
use crate::accept;
use crate::streams::State;
use freshet_access::client::{Client, End, Link, Presence};
use freshet_access::ledger::network::Network;
use freshet_net::socket::canonical;
use freshet_net::tls::TlsInfo;
use freshet_quic::Route;
use freshet_telemetry::transcript::{Side, Transcript};
use freshet_wire::h3::{Code, Connection};
use std::net::SocketAddr;
use std::rc::Rc;

impl Session {
    /// It is known who the client is, or was, where it is early.
    pub(super) fn note_client(&mut self, state: &mut State<Connection<Piece>>, is_early: bool) {
        let worker = &self.port.worker;
        let quic = &mut state.connection.quic;
        let of_quic = |tls| TlsInfo::of_quic(tls, &self.handle.context.borrow());
        let tls = quic.tls().map(of_quic);
        let route = quic.route();
        let remote = canonical(route.remote);
        let id = worker.next_id();
        let scribe = worker.shared.scribe.as_ref();
        let transcript = Transcript::begin(scribe, Side::Client, id, "sess", 0, "HTTP/3");
        let local = self.local_address(route);
        let prefixes = worker.snapshot().settings.limits.network;
        let mut client = Client {
            id,
            address: Some(remote),
            peer_address: Some(remote),
            local_address: Some(local),
            socket_address: Some(local),
            path: None,
            forwarder: None,
            tls: None,
            front: None,
            shown: None,
            network: Network::of(Some(remote.ip()), prefixes),
            listener: self.port.name.clone(),
            alt_svc: None,
            controls: None,
            link: Rc::new(Link {
                transcript,
                presence: if is_early { Presence::open() } else { Presence::default() },
                ..Link::default()
            }),
        };
        client.note_handshake(tls, self.port.verifies_clients);
        client.note_opened();
        self.admit(&client, state);
        self.client = Some(Rc::new(client));
    }

    /// Takes it that the client is where it has moved to, once it has shown that: what it asks for from then on is judged,
    /// counted and logged by that address. Whether it may ask.
    pub(super) fn follow(&mut self, state: &mut State<Connection<Piece>>) -> bool {
        let quic = &state.connection.quic;
        let route = quic.known_route();
        let remote = canonical(route.remote);
        let Some(known) = &self.client else { return false };
        if known.peer_address == Some(remote) {
            return known.end.get() != End::Refused;
        }
        let is_elsewhere = known.peer_address.map(|known| known.ip()) != Some(remote.ip());
        let mut client = Client::clone(known);
        client.address = Some(remote);
        client.peer_address = Some(remote);
        client.local_address = Some(self.local_address(route));
        client.socket_address = client.local_address;
        let prefixes = self.port.worker.snapshot().settings.limits.network;
        client.network = Network::of(Some(remote.ip()), prefixes);
        let is_let_in = !is_elsewhere || {
            // It leaves its place among those of its network to another.
            self.held = None;
            self.admit(&client, state)
        };
        self.client = Some(Rc::new(client));
        is_let_in
    }

    /// Counts the connection for the network that its client is in; ends it, and is false, where it may not be.
    fn admit(&mut self, client: &Client, state: &mut State<Connection<Piece>>) -> bool {
        match accept::admit(&self.port.worker, client) {
            Ok(held) => {
                self.held = held;
                true
            }
            Err(accept::Refused) => {
                client.end.set(End::Refused);
                state.connection.quic.close(Code::ExcessiveLoad as u64, self.port.now());
                false
            }
        }
    }

    /// Our end of a way.
    fn local_address(&self, route: Route) -> SocketAddr {
        let mut local = self.port.udp.local_address();
        if let Some(asked) = route.local {
            local.set_ip(asked);
        }
        local
    }
}
