//! The client's end of a connection, as far as policies and logs care.

use freshet_net::tls::TlsInfo;
use std::net::SocketAddr;

/// Facts that hold for every request of one connection.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Who the client is: the peer, or what a PROXY header says. `None` on a Unix socket.
    pub address: Option<SocketAddr>,
    /// The address it reached.
    pub local_address: Option<SocketAddr>,
    /// TLS facts, on a TLS listener.
    pub tls: Option<TlsInfo>,
}
