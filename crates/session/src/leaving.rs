//! Noticing that an HTTP/1 client has left while it is somebody else's turn to do something.

use super::h1_body::{BodyState, Progress};
use super::h1_io::SharedIo;
use freshet_worker::worker::Worker;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// How long something is worked at for a client that has closed its side of the connection.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(1);

/// A look at the connection while nothing is read or written.
pub(super) struct Leaving {
    io: SharedIo,
    /// The request's body, which may still be on its way.
    received: Option<Rc<Progress>>,
    looks: bool,
    grace: Option<Pin<Box<Sleep>>>,
}

impl Leaving {
    pub(super) fn new(worker: &Worker, io: &SharedIo, received: Option<&Rc<Progress>>) -> Self {
        let looks = worker.snapshot().manners.notices_leaving;
        Self { io: io.clone(), received: received.map(Rc::clone), looks, grace: None }
    }

    /// Ready once the client has left. One that only closed its own side may still want its answer,
    /// and cannot be told from one that closed both: it gets a little time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let grace = match &mut self.grace {
            Some(grace) => grace,
            None => {
                // Who takes the body sees it.
                let is_seen = |body: &Rc<Progress>| body.state.get() != BodyState::Done;
                if !self.looks || self.received.as_ref().is_some_and(is_seen) {
                    return Poll::Pending;
                }
                if ready!(self.io.poll_gone(cx)).is_err() {
                    return Poll::Ready(());
                }
                self.grace.insert(Box::pin(sleep(HALF_CLOSED_MAX)))
            }
        };
        grace.as_mut().poll(cx)
    }
}
