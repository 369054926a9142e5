//! The way between a client and this server, as datagrams are addressed.

use std::net::{IpAddr, SocketAddr};

/// Where a client is, and which address of ours it speaks to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// The client's address.
    pub remote: SocketAddr,
    /// Ours, which answers have to come from; `None` where the socket has only one.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Route {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None }
    }
}
