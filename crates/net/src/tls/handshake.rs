//! The handshake over a socket, the same for both sides.

use crate::limits::HANDSHAKES_PER_TURN_MAX;
use crate::tls::session::Session;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Why a handshake ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The peer closed before the handshake was complete.
    Closed,
    /// The socket failed.
    Io(io::Error),
    /// rustls refused, or the peer did.
    Tls(rustls::Error),
}

impl Failure {
    /// What happened, for an error's text.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Closed => "the peer closed the connection".into(),
            Self::Io(error) => error.to_string(),
            Self::Tls(error) => error.to_string(),
        }
    }
}

thread_local! {
    /// Steps that may be computed before the worker looks at its sockets again. A step returns its
    /// permit only after such a look.
    static STEPS: Arc<Semaphore> = Arc::new(Semaphore::new(HANDSHAKES_PER_TURN_MAX));
}

/// Runs the handshake of `session` to its end. The caller bounds the time.
pub(crate) async fn run(session: &mut Session) -> Result<(), Failure> {
    while session.is_handshaking() {
        poll_fn(|cx| session.poll_flush(cx)).await.map_err(Failure::Io)?;
        if !poll_fn(|cx| session.poll_handshake_input(cx)).await.map_err(Failure::Io)? {
            return Err(Failure::Closed);
        }
        step(session).await?;
    }
    if session.finish_handshake() {
        return Ok(());
    }
    poll_fn(|cx| session.poll_flush(cx)).await.map_err(Failure::Io)
}

/// Computes what the input allows. A step in the middle of a handshake signs or agrees on a key:
/// of those only some are computed per turn of the worker.
async fn step(session: &mut Session) -> Result<(), Failure> {
    let steps = STEPS.with(Arc::clone);
    let permit = steps.acquire_owned().await.expect("the semaphore is never closed");
    let result = session.handshake_step();
    if result.is_err() || session.is_handshaking() {
        // Our flight, or the alert that says why not, leaves before others get their turn. What
        // does not fit the socket now is sent by the caller, without the permit.
        poll_fn(|cx| Poll::Ready(session.poll_flush(cx).is_ready())).await;
        yield_now().await;
    }
    drop(permit);
    result.map_err(Failure::Tls)
}
