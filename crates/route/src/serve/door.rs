//! Connections of clients, for axum.

use super::Entrance;
use crate::limits::{ACCEPT_PAUSE, HANDSHAKE_WITHIN, HANDSHAKES_MAX};
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use freshet_net::address::PeerAddress;
use freshet_net::places::{Guarded, Place, Places};
use freshet_net::stream::Stream;
use freshet_net::tls::server::accept;
use freshet_net::trust::TrustedPeers;
use std::io;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) peer: PeerAddress,
    pub(super) is_secure: bool,
    pub(super) trusted: Arc<TrustedPeers>,
    pub(super) place: Arc<Place>,
}

/// Connections that are ready for requests.
pub(super) struct Door(mpsc::Receiver<(Guarded, Client)>);

impl Door {
    /// Accepts at an address for as long as this is read; each handshake in a task of its own.
    pub(super) fn open(entrance: Entrance, places: Arc<Places>) -> Self {
        let (ready, incoming) = mpsc::channel(1);
        tokio::spawn(accept_all(entrance, places, ready));
        Self(incoming)
    }
}

async fn accept_all(
    entrance: Entrance,
    places: Arc<Places>,
    ready: mpsc::Sender<(Guarded, Client)>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = entrance.listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::error!(%error, "cannot accept");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (tls, trusted) = (entrance.tls.clone(), Arc::clone(&entrance.trusted));
        let (places, ready) = (Arc::clone(&places), ready.clone());
        let hand_over = async move {
            let _permit = permit;
            let is_secure = tls.is_some();
            let stream = match tls {
                None => Stream::from(socket),
                Some(tls) => match accept(socket, &tls, HANDSHAKE_WITHIN).await {
                    Ok(stream) => stream,
                    Err(error) => return tracing::debug!(%error, "no handshake"),
                },
            };
            if let Some((stream, place)) = places.admit(stream) {
                let _ = ready.send((stream, Client { peer, is_secure, trusted, place })).await;
            }
        };
        tokio::spawn(hand_over);
    }
}

impl axum::serve::Listener for Door {
    type Io = Guarded;
    type Addr = Option<Client>;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.0.recv().await {
            Some((stream, client)) => (stream, Some(client)),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(None)
    }
}

/// How a handler finds who asks.
#[derive(Clone)]
pub(super) struct ClientOf(pub(super) Option<Client>);

impl Connected<IncomingStream<'_, Door>> for ClientOf {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(stream.remote_addr().clone())
    }
}
