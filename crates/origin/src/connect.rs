//! From an origin to a stream that can carry a request: name, TCP, TLS.

use crate::definition::{Origin, OriginAddress};
use crate::error::{FailureKind, OriginError};
use crate::race::{Lost, race};
use crate::resolve::Resolved;
use freshet_base::clock::UnixMillis;
use freshet_net::address::Address;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What is offered in a TLS handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Offer {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, with what else the origin's settings allow.
    Http2,
}

/// Opens a connection within the origin's connect timeout and tells health and counters.
pub(crate) async fn connect(origin: &Origin, offer: Offer) -> Result<Stream, OriginError> {
    if origin.hold.is_on(UnixMillis::now()) {
        return Err(OriginError::OriginHeldDown { address: origin.authority() });
    }
    let started = Instant::now();
    let result = establish(origin, offer, started + origin.settings.timeouts.connect).await;
    match &result {
        Ok(_) => {
            let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            origin.stats.connects.add(1);
            origin.stats.connect_us_sum.add(took_us);
        }
        Err(error) if error.marks_down() => {
            if matches!(error.kind(), FailureKind::Refused | FailureKind::Unreachable) {
                origin.hold.begin(UnixMillis::now());
            }
            origin.health.went_unanswered(origin.settings.passive, UnixMillis::now());
        }
        Err(_) => {}
    }
    result
}

/// Opens a connection until `deadline`, which is one connect timeout away.
pub(crate) async fn establish(
    origin: &Origin,
    offer: Offer,
    deadline: Instant,
) -> Result<Stream, OriginError> {
    let limit = origin.settings.timeouts.connect;
    match &origin.settings.address {
        OriginAddress::Fixed(address) => {
            let connecting = Socket::connect(address, left(deadline)).await;
            let socket = connecting.map_err(|error| OriginError::from_connect(error, limit))?;
            begin(origin, offer, socket, deadline).await
        }
        OriginAddress::Name { host, .. } => by_name(origin, host, offer, deadline).await,
    }
}

/// Brings a socket to where it can carry a request.
async fn begin(
    origin: &Origin,
    offer: Offer,
    socket: Socket,
    deadline: Instant,
) -> Result<Stream, OriginError> {
    let limit = origin.settings.timeouts.connect;
    let mut stream = match &origin.tls {
        None => Stream::from(socket),
        Some(client) => {
            let config = match offer {
                Offer::Http1 => &client.config,
                Offer::Http2 => &client.offering_http2,
            };
            tls::client::connect(socket, config, &client.server_name, left(deadline))
                .await
                .map_err(|error| OriginError::from_connect(error, limit))?
        }
    };
    let preamble = &origin.settings.preamble;
    if !preamble.is_empty() {
        let sending = timeout_at(deadline, stream.write(preamble)).await;
        let authority = || origin.authority();
        sending
            .map_err(|_| OriginError::OriginConnectTimeout { address: authority(), limit })?
            .map_err(|error| OriginError::from_io(&error, 0))?;
    }
    Ok(stream)
}

async fn by_name(
    origin: &Origin,
    host: &str,
    offer: Offer,
    deadline: Instant,
) -> Result<Stream, OriginError> {
    let limit = origin.settings.timeouts.connect;
    let Some(resolver) = &origin.resolver else {
        return Err(OriginError::OriginNameUnknown {
            name: host.to_owned(),
            reason: "no resolver was given for it".into(),
        });
    };
    let resolving = resolver.resolve(Instant::now().into_std());
    let resolved = timeout_at(deadline, resolving)
        .await
        .map_err(|_| OriginError::OriginNameTimeout { name: host.to_owned(), limit })??;
    let error = match one_of(origin, &resolved, offer, deadline).await {
        Ok(stream) => return Ok(stream),
        Err(error) if !error.marks_down() => return Err(error),
        Err(error) => error,
    };
    // It may be elsewhere by now, as what was started anew in a container is.
    match resolver.elsewhere(&resolved, deadline).await {
        Some(resolved) => one_of(origin, &resolved, offer, deadline).await,
        None => Err(error),
    }
}

/// Opens a connection to one of the addresses of a name.
async fn one_of(
    origin: &Origin,
    resolved: &Resolved,
    offer: Offer,
    deadline: Instant,
) -> Result<Stream, OriginError> {
    let limit = origin.settings.timeouts.connect;
    let dial =
        async |address: SocketAddr| Socket::connect(&Address::Tcp(address), left(deadline)).await;
    let note = |address, failed| resolved.note(address, failed);
    let mut untried = resolved.order();
    loop {
        let (address, socket) = match race(&untried, deadline, dial, note).await {
            Ok(won) => won,
            Err(Lost { error: Some((_, error)), .. }) => {
                return Err(OriginError::from_connect(error, limit));
            }
            Err(Lost { error: None, address }) => {
                let address =
                    address.map_or_else(|| origin.authority(), |address| address.to_string());
                return Err(OriginError::OriginConnectTimeout { address, limit });
            }
        };
        match begin(origin, offer, socket, deadline).await {
            Ok(stream) => return Ok(stream),
            // It listens, and is no good: another one may be.
            Err(error) => {
                resolved.note(address, true);
                untried.retain(|one| *one != address);
                if untried.is_empty() || Instant::now() >= deadline {
                    return Err(error);
                }
            }
        }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
