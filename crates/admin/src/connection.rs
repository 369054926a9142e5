//! Connections to the interface, for axum.

use crate::limits::PATIENCE;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use freshet_net::listener::Listener;
use freshet_net::places::{Guarded, Place, Places};
use std::io;
use std::sync::Arc;

/// Accepts for axum.
pub(crate) struct Door {
    listener: Listener,
    places: Arc<Places>,
}

impl Door {
    pub(crate) fn new(listener: Listener) -> Self {
        Self { listener, places: Places::new(PATIENCE) }
    }
}

impl axum::serve::Listener for Door {
    type Io = Guarded;
    type Addr = Option<Arc<Place>>;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, place, _) =
            self.places.accept(&mut self.listener, "the admin interface").await;
        (stream, Some(place))
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(None)
    }
}

/// How a handler finds the place of its connection.
#[derive(Clone)]
pub(crate) struct PlaceOf(pub(crate) Option<Arc<Place>>);

impl Connected<IncomingStream<'_, Door>> for PlaceOf {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.remote_addr().clone())
    }
}
