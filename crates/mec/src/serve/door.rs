//! Connections of clients, for axum.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use freshet_net::address::PeerAddress;
use freshet_net::listener::Listener;
use freshet_net::places::{Guarded, Place, Places};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Accepts for axum.
pub(super) struct Door {
    listener: Listener,
    places: Arc<Places>,
}

impl Door {
    pub(super) fn new(listener: Listener, places: Arc<Places>) -> Self {
        Self { listener, places }
    }
}

impl axum::serve::Listener for Door {
    type Io = Guarded;
    type Addr = Option<PlaceOf>;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, place, peer) = self.places.accept(&mut self.listener, "the platform").await;
        let from = match peer {
            PeerAddress::Tcp(address) => Some(address.ip().to_canonical()),
            PeerAddress::Unix => None,
        };
        (stream, Some(PlaceOf { place: Some(place), from }))
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(None)
    }
}

/// How a handler finds the place of its connection, and who is at the other end.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceOf {
    pub(super) place: Option<Arc<Place>>,
    /// Its address, where it has one.
    pub(super) from: Option<IpAddr>,
}

impl Connected<IncomingStream<'_, Door>> for PlaceOf {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone().unwrap_or_default()
    }
}
