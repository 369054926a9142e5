//! Connections to the interface, for axum.

use crate::limits::{FAILED_PAUSE, PATIENCE};
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use freshet_net::listener::Listener;
use freshet_net::places::{Guarded, Place, Places};
use freshet_net::stream::Stream;
use std::io;
use std::sync::Arc;
use tokio::time::sleep;

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
        loop {
            match self.listener.accept().await {
                Ok((socket, _)) => {
                    let admitted = self.places.admit(Stream::from(socket));
                    let Some((stream, place)) = admitted else { continue };
                    return (stream, Some(place));
                }
                Err(error) => {
                    tracing::error!(%error, "the admin interface cannot accept");
                    sleep(FAILED_PAUSE).await;
                }
            }
        }
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
