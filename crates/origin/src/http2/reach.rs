//! From an origin to a stream of a connection to it, which may have to be opened.

use super::session::Session;
use super::sessions::{Dial, Sessions};
use super::stream::Stream;
use crate::capacity::{Permit, Waiting};
use crate::connect::{Offer, connect};
use crate::connection::Connection;
use crate::definition::{HttpVersion, Origin};
use crate::error::OriginError;
use crate::line::Claim;
use crate::pool::Pool;
use freshet_base::clock::UnixMillis;
use freshet_net::stream::Stream as Socket;
use freshet_net::tls::ALPN_HTTP_2;
use freshet_wire::h2::Ask;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// How long an origin that agreed on HTTP/1.1 is asked in that without another offer.
const OLD_FOR: Duration = Duration::from_secs(60);

/// What an exchange begins on.
#[allow(clippy::large_enum_variant, reason = "made and taken apart at once")]
pub(crate) enum Reached {
    /// A stream on which the request's head was sent.
    Stream(Stream),
    /// A new connection of HTTP/1.1, which is what the origin agreed on.
    Connection(Connection),
    /// None: the origin speaks HTTP/1.1.
    Old,
}

/// Sends the head of a request on a connection that has room, opening one where none has. `fresh`
/// asks for a new one whatever there is.
pub(crate) async fn reach(
    pool: &Pool,
    origin: &Arc<Origin>,
    ask: Ask<'_>,
    fresh: bool,
    claim: Claim,
) -> Result<Reached, OriginError> {
    let deadline = Instant::now() + origin.settings.timeouts.queue;
    loop {
        if is_old(origin) {
            return Ok(Reached::Old);
        }
        if !fresh {
            let find = |sessions: &mut Sessions| sessions.usable().find_map(|one| one.ask(ask));
            if let Some(stream) = pool.with_sessions(origin, find) {
                return Ok(Reached::Stream(stream));
            }
            if let Some(dial) = pool.with_sessions(origin, |sessions| sessions.dialing()) {
                dial.done.notified().await;
                if let Some(error) = dial.failure.borrow().clone() {
                    return Err(error);
                }
                continue;
            }
            if pool.with_sessions(origin, |sessions| sessions.usable().any(Session::is_new)) {
                welcome(pool, origin).await?;
                continue;
            }
        }
        let permit = match origin.capacity.try_permit() {
            Some(permit) => permit,
            None => match wait(pool, origin, deadline, claim).await? {
                Some(permit) => permit,
                None if fresh => return reach_any(pool, origin, ask),
                None => continue,
            },
        };
        origin.capacity.note(false);
        if let Some(reached) = open(pool, origin, ask, permit).await? {
            return Ok(reached);
        }
    }
}

/// Waits until an origin to which a connection is open may have said how many exchanges it takes,
/// which it does at once.
async fn welcome(pool: &Pool, origin: &Arc<Origin>) -> Result<(), OriginError> {
    let limit = origin.settings.timeouts.connect;
    let room = pool.with_sessions(origin, |sessions| Rc::clone(&sessions.room));
    timeout(limit, room.notified()).await.map_err(|_| {
        let address = origin.authority();
        OriginError::OriginConnectTimeout { address, limit }
    })
}

/// Any stream at all, where a new connection is not to be had.
fn reach_any(pool: &Pool, origin: &Arc<Origin>, ask: Ask<'_>) -> Result<Reached, OriginError> {
    let find = |sessions: &mut Sessions| sessions.usable().find_map(|one| one.ask(ask));
    pool.with_sessions(origin, find).map(Reached::Stream).ok_or_else(|| limit(origin))
}

fn limit(origin: &Origin) -> OriginError {
    OriginError::LocalConnectionLimit {
        connections_max: origin.settings.connections_max,
        waited: origin.settings.timeouts.queue,
    }
}

/// Waits for room on a connection, which is `None`, or for the right to open one.
async fn wait(
    pool: &Pool,
    origin: &Arc<Origin>,
    deadline: Instant,
    claim: Claim,
) -> Result<Option<Permit>, OriginError> {
    let waiting_max = origin.settings.connection_waiters_max;
    let place = Place::take(pool, origin).ok_or(OriginError::LocalQueueFull { waiting_max })?;
    origin.stats.waits.add(1);
    let _waiting = Waiting::new(origin);
    let room = pool.with_sessions(origin, |sessions| Rc::clone(&sessions.room));
    let result = tokio::select! {
        biased;
        () = room.notified() => Ok(None),
        permit = origin.capacity.permit(claim) => Ok(Some(permit)),
        () = sleep_until(deadline) => {
            origin.capacity.note(true);
            Err(limit(origin))
        }
    };
    drop(place);
    result
}

/// A place among those that wait, until it is dropped.
struct Place<'a>(&'a Pool, &'a Arc<Origin>);

impl<'a> Place<'a> {
    fn take(pool: &'a Pool, origin: &'a Arc<Origin>) -> Option<Self> {
        let waiting_max = origin.settings.connection_waiters_max;
        pool.with_sessions(origin, |sessions| {
            (sessions.waiting < waiting_max).then(|| sessions.waiting += 1)
        })?;
        Some(Self(pool, origin))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.with_sessions(self.1, |sessions| sessions.waiting -= 1);
    }
}

/// Opens a connection, for all who wait for one. `None` where it takes no request after all.
async fn open(
    pool: &Pool,
    origin: &Arc<Origin>,
    ask: Ask<'_>,
    permit: Permit,
) -> Result<Option<Reached>, OriginError> {
    let dial = pool.with_sessions(origin, Sessions::begin_dial);
    let dialing = Dialing { pool, origin, dial };
    let opened = connect(origin, Offer::Http2).await.and_then(|socket| judged(origin, socket));
    let (socket, is_http2) = opened.inspect_err(|error| {
        dialing.dial.failure.replace(Some(error.clone()));
    })?;
    if !is_http2 {
        let until = UnixMillis::now().0.saturating_add(OLD_FOR.as_millis() as u64);
        origin.old_until.store(until, Relaxed);
        return Ok(Some(Reached::Connection(Connection::new(origin, socket, permit))));
    }
    let session = pool.with_sessions(origin, |sessions| sessions.add(origin, socket, permit));
    Ok(session.ask(ask).map(Reached::Stream))
}

/// A connection that is being opened, until this is dropped.
struct Dialing<'a> {
    pool: &'a Pool,
    origin: &'a Arc<Origin>,
    dial: Rc<Dial>,
}

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        self.pool.with_sessions(self.origin, |sessions| sessions.end_dial(&self.dial));
    }
}

/// Whether it is HTTP/2 that a new connection speaks.
pub(crate) fn judged(origin: &Origin, socket: Socket) -> Result<(Socket, bool), OriginError> {
    let is_http2 = !socket.is_tls() || socket.alpn() == Some(ALPN_HTTP_2);
    match (is_http2, origin.settings.http) {
        (false, HttpVersion::Http2) => {
            Err(OriginError::OriginTls { reason: "it does not agree on HTTP/2 (ALPN `h2`)".into() })
        }
        _ => Ok((socket, is_http2)),
    }
}

/// Whether it said a moment ago that it speaks HTTP/1.1.
fn is_old(origin: &Origin) -> bool {
    let until = origin.old_until.load(Relaxed);
    until > 0 && UnixMillis::now().0 < until
}
