//! The handshake over a socket, whoever computes it.

use crate::limits::HANDSHAKES_PER_TURN_MAX;
use crate::tls::on_demand::Settled;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// One side of a handshake and the socket it runs over.
pub(crate) trait Handshake {
    /// Hands what was computed to the socket.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads without computing anything; false at the end of the peer's direction.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>>;

    /// What has to be waited for before the input is looked at.
    fn awaited(&mut self) -> Option<Settled> {
        None
    }

    /// Computes what the input allows. Signing and key exchange happen here.
    fn step(&mut self) -> Result<(), rustls::Error>;

    /// Whether the handshake goes on.
    fn is_handshaking(&self) -> bool;

    /// Notes the end of the handshake and says whether what is still to be sent may wait: under
    /// TLS 1.3 a server has only session tickets left, which leave together with the first
    /// response, or when the first read has to wait.
    fn finish(&mut self) -> bool;
}

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

/// Runs `handshake` to its end. The caller bounds the time.
pub(crate) async fn run(handshake: &mut impl Handshake) -> Result<(), Failure> {
    while handshake.is_handshaking() {
        poll_fn(|cx| handshake.poll_flush(cx)).await.map_err(Failure::Io)?;
        if !poll_fn(|cx| handshake.poll_input(cx)).await.map_err(Failure::Io)? {
            return Err(Failure::Closed);
        }
        if let Some(settled) = handshake.awaited() {
            settled.await;
        }
        step(handshake).await?;
    }
    if handshake.finish() {
        return Ok(());
    }
    poll_fn(|cx| handshake.poll_flush(cx)).await.map_err(Failure::Io)
}

/// Computes what the input allows. A step in the middle of a handshake signs or agrees on a key:
/// of those only some are computed per turn of the worker.
async fn step(handshake: &mut impl Handshake) -> Result<(), Failure> {
    let steps = STEPS.with(Arc::clone);
    let permit = steps.acquire_owned().await.expect("the semaphore is never closed");
    let result = handshake.step();
    if result.is_err() || handshake.is_handshaking() {
        // Our flight, or the alert that says why not, leaves before others get their turn. What
        // does not fit the socket now is sent by the caller, without the permit.
        poll_fn(|cx| Poll::Ready(handshake.poll_flush(cx).is_ready())).await;
        yield_now().await;
    }
    drop(permit);
    result.map_err(Failure::Tls)
}
