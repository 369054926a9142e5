//! The PROXY protocol on a fresh connection: who the peer in front speaks for.
//!
//! Only what belongs to the header is taken out of the socket, so that the TLS handshake or the
//! request behind it begins at its first byte.

use crate::address::PeerAddress;
use crate::error::NetError;
use crate::limits::PROXY_HEADER_BYTES_MAX;
use crate::socket::{Socket, canonical};
use crate::trust::TrustedPeers;
use freshet_wire::proxy_protocol::parse_by;
pub use freshet_wire::proxy_protocol::{
    Conduct, Error, Header, Ignored, SPECIFIED, Ssl, Tlvs, VARNISH,
};
use rustix::net::RecvFlags;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Where version 2 says its version, and whether the peer speaks for a client.
const VERSION_AND_COMMAND_AT: usize = 12;

/// Whom a connection is for, after the PROXY protocol has had its say.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The client: named by the header, or else the peer itself.
    pub address: PeerAddress,
    /// The address the client connected to, where the header names it.
    pub destination: Option<SocketAddr>,
    /// The header.
    pub header: Header,
}

/// Reads the header of a connection on a listener that expects one. A trusted peer must send it; any
/// other is refused before a byte of it is read. To serve it under its own address instead would
/// make a proxy that nobody listed speak for itself, and what it may do all its clients could.
///
/// # Errors
/// [`NetError::ClientProxyUntrusted`], [`NetError::ClientProxyHeader`] and
/// [`NetError::ClientProxyTimeout`]; the connection is of no use afterwards.
pub async fn identify(
    socket: &Socket,
    peer: PeerAddress,
    trusted: &TrustedPeers,
    conduct: Conduct,
    limit: Duration,
) -> Result<Client, NetError> {
    if !trusted.contains(peer) {
        return Err(NetError::ClientProxyUntrusted { peer });
    }
    let header = read_header(socket, conduct, limit).await?;
    let source = header.source.filter(|_| !header.local).map(canonical);
    Ok(Client {
        address: source.map_or(peer, PeerAddress::Tcp),
        destination: header.destination.filter(|_| !header.local).map(canonical),
        header,
    })
}

/// Reads a header of version 1 or 2 of at most [`PROXY_HEADER_BYTES_MAX`] within `limit`, and
/// nothing behind it.
///
/// # Errors
/// [`NetError::ClientProxyHeader`] and [`NetError::ClientProxyTimeout`].
async fn read_header(
    socket: &Socket,
    conduct: Conduct,
    limit: Duration,
) -> Result<Header, NetError> {
    timeout(limit, header_of(socket, conduct)).await.unwrap_or(Err(NetError::ClientProxyTimeout))
}

async fn header_of(socket: &Socket, conduct: Conduct) -> Result<Header, NetError> {
    let refuse =
        |why: String| NetError::ClientProxyHeader { why, error: None, version_and_command: None };
    let failed = |error: io::Error| refuse(error.to_string());
    let mut buffer = [0; PROXY_HEADER_BYTES_MAX];
    let mut taken = 0;
    loop {
        // Look first; take only what the parser says belongs to the header, or, while it cannot
        // say, everything: then all of it does.
        let room = &mut buffer[taken..];
        if room.is_empty() {
            return Err(refuse(format!("longer than {PROXY_HEADER_BYTES_MAX} bytes")));
        }
        let seen = taken + receive(socket, room, RecvFlags::PEEK).await.map_err(failed)?;
        if seen == taken {
            return Err(refuse("the peer closed the connection".into()));
        }
        let parsed = parse_by(conduct, &buffer[..seen]).map_err(|error| {
            let is_of_it = error == Error::ClientVersionUnsupported;
            NetError::ClientProxyHeader {
                why: error.to_string(),
                error: Some(error),
                version_and_command: buffer
                    .get(VERSION_AND_COMMAND_AT)
                    .copied()
                    .filter(|_| is_of_it),
            }
        })?;
        let end = parsed.as_ref().map_or(seen, |(_, bytes)| *bytes);
        while taken < end {
            let part = &mut buffer[taken..end];
            match receive(socket, part, RecvFlags::empty()).await.map_err(failed)? {
                0 => return Err(refuse("the peer closed the connection".into())),
                count => taken += count,
            }
        }
        if let Some((header, _)) = parsed {
            return Ok(header);
        }
    }
}

async fn receive(socket: &Socket, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match socket.try_receive(into, flags) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable().await?,
            result => return result,
        }
    }
}
