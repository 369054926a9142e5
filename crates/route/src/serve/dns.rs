//! The sockets of DNS: a UDP socket for each worker and address, and a TCP listener beside it.

use super::Shared;
use crate::dns::{Transport, answer};
use crate::limits::{DNS_BATCH, DNS_UDP_BYTES_MAX, RESOLVERS};
use freshet_base::clock::UnixMillis;
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::places::{self as net, Guarded, Places};
use hickory_proto::op::ResponseCode;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

/// One address of one worker.
pub(super) struct Place {
    udp: StdSocket,
    tcp: Listener,
}

impl Place {
    /// Binds both, beside others of this process.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, String> {
        let options = ListenOptions { reuse_port: true, v6_only: true, ..ListenOptions::default() };
        let tcp = Listener::bind(&Address::Tcp(address), &options);
        let tcp = tcp.map_err(|error| format!("dns.listen: {error}"))?;
        // With port 0, the one that TCP got.
        let port = tcp.local_address().port().unwrap_or_else(|| address.port());
        let address = SocketAddr::new(address.ip(), port);
        let udp = udp(address).map_err(|error| format!("dns.listen: {address}: {error}"))?;
        Ok(Self { udp, tcp })
    }

    /// Where it is.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.udp.local_addr().ok()
    }

    /// Answers until it is dropped.
    pub(super) async fn serve(self, shared: Arc<Shared>) {
        let datagrams = UdpSocket::from_std(self.udp);
        let by_udp = async {
            match datagrams {
                Ok(socket) => serve_udp(&shared, socket).await,
                Err(error) => tracing::error!(%error, "DNS over UDP ends"),
            }
            std::future::pending::<()>().await
        };
        tokio::join!(by_udp, serve_tcp(Arc::clone(&shared), self.tcp));
    }
}

fn udp(address: SocketAddr) -> io::Result<StdSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

async fn serve_udp(shared: &Shared, socket: UdpSocket) {
    let mut message = [0; DNS_UDP_BYTES_MAX];
    loop {
        // Errors are those of earlier answers that could not be delivered.
        let Ok((count, from)) = socket.recv_from(&mut message).await else { continue };
        answer_datagram(shared, &socket, message.get(..count).unwrap_or_default(), from);
        for _ in 1..DNS_BATCH {
            let Ok((count, from)) = socket.try_recv_from(&mut message) else { break };
            answer_datagram(shared, &socket, message.get(..count).unwrap_or_default(), from);
        }
        tokio::task::yield_now().await;
    }
}

fn answer_datagram(shared: &Shared, socket: &UdpSocket, message: &[u8], from: SocketAddr) {
    // A socket that is full drops what it cannot take: resolvers ask again.
    let rate = &shared.routing.load().settings.rate;
    let is_above = rate.as_ref().is_some_and(|rate| !shared.dns_rates.allows(from.ip(), rate));
    let transport = if is_above { Transport::UdpAboveRate } else { Transport::Udp };
    if let Some(reply) = answered(shared, message, from.ip(), transport) {
        let _ = socket.try_send_to(&reply, from);
    }
}

fn answered(
    shared: &Shared,
    message: &[u8],
    from: IpAddr,
    transport: Transport,
) -> Option<Vec<u8>> {
    let routing = shared.routing.load();
    let now = UnixMillis::now();
    let (reply, code) =
        answer(&routing, &routing.settings, message, from.to_canonical(), transport, now)?;
    shared.dns.count(code);
    Some(reply)
}

async fn serve_tcp(shared: Arc<Shared>, mut listener: Listener) {
    let places = Places::new(RESOLVERS);
    loop {
        let (stream, place, peer) = places.accept(&mut listener, "DNS").await;
        let Some(from) = peer.ip() else { continue };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // How it ends is the client's business.
            let _ = serve_connection(&shared, stream, &place, from).await;
        });
    }
}

/// Questions one after the other, each behind its length (RFC 7766).
async fn serve_connection(
    shared: &Shared,
    mut stream: Guarded,
    place: &net::Place,
    from: IpAddr,
) -> io::Result<()> {
    loop {
        let mut message = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut message).await?;
        place.begin_work();
        let reply = answered(shared, &message, from, Transport::Tcp);
        place.end_work();
        let reply = reply.ok_or(io::ErrorKind::InvalidData)?;
        let length = u16::try_from(reply.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        stream.write_all(&[&length.to_be_bytes()[..], &reply].concat()).await?;
        stream.flush().await?;
    }
}

/// Answers by their code.
#[derive(Debug, Default)]
pub(super) struct Codes([std::sync::atomic::AtomicU64; CODES.len()]);

/// Codes that are told apart, with their names in metrics; others are of the last.
pub(super) const CODES: [(ResponseCode, &str); 7] = [
    (ResponseCode::NoError, "noerror"),
    (ResponseCode::NXDomain, "nxdomain"),
    (ResponseCode::Refused, "refused"),
    (ResponseCode::FormErr, "formerr"),
    (ResponseCode::NotImp, "notimp"),
    (ResponseCode::BADVERS, "badvers"),
    (ResponseCode::ServFail, "servfail"),
];

impl Codes {
    fn count(&self, code: ResponseCode) {
        let at = CODES.iter().position(|(known, _)| *known == code).unwrap_or(CODES.len() - 1);
        if let Some(cell) = self.0.get(at) {
            cell.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// How many of each until now, by name.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.0.iter().map(|cell| cell.load(std::sync::atomic::Ordering::Relaxed));
        CODES.iter().map(|(_, name)| *name).zip(counts)
    }
}
