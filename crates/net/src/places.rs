//! Connections of an interface for operators and programs: few, none that stays without asking, and
//! always room for one that asks at once, as a health check does.
//!
//! A connection is at one of the `Step`s, each with a time of its own. Where all places are taken,
//! the one that has waited longest for its client loses its own: slow clients, and those that only
//! connect, cost one another their connections and nobody else.

use crate::address::PeerAddress;
use crate::listener::Listener;
use crate::stream::Stream;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Pause before accepting again after the listener failed, which is not expected to get better.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// What clients of an interface may cost.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Connections at a time.
    pub connections_max: usize,
    /// How long a connection may be silent between requests.
    pub silence_max: Duration,
    /// Time from the first byte of a request to its last.
    pub request_time_max: Duration,
    /// How long a client may take no byte of its answer.
    pub send_silence_max: Duration,
    /// Longest request altogether: head, framing and body.
    pub request_bytes_max: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// The next request, for [`Patience::silence_max`].
    Idle,
    /// The rest of a request, for [`Patience::request_time_max`] from its first byte to the end of its body.
    Receiving,
    /// Us: the request is whole.
    Working,
    /// The client, which takes no byte of the answer, for [`Patience::send_silence_max`].
    Sending,
}

impl Step {
    fn time_max(self, patience: &Patience) -> Option<Duration> {
        match self {
            Self::Idle => Some(patience.silence_max),
            Self::Receiving => Some(patience.request_time_max),
            Self::Working => None,
            Self::Sending => Some(patience.send_silence_max),
        }
    }
}

/// The connections that are open.
#[derive(Debug)]
pub struct Places {
    open: Mutex<Vec<Arc<Place>>>,
    patience: Patience,
}

impl Places {
    /// No connection yet.
    pub fn new(patience: Patience) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), patience })
    }

    /// Gives a connection a place, taken from another where there is none; `None` where all of them
    /// are being worked for. Its [`Place`] tells when that begins and ends.
    pub fn admit(self: &Arc<Self>, stream: Stream) -> Option<(Guarded, Arc<Place>)> {
        let place = self.take()?;
        Some((Guarded::new(stream, Arc::clone(&place), Arc::clone(self)), place))
    }

    /// The next connection of a listener that gets a place, and who is at its other end. While it cannot accept, that is said in the
    /// log as a failure of `who`, and tried again.
    pub async fn accept(
        self: &Arc<Self>,
        listener: &mut Listener,
        who: &str,
    ) -> (Guarded, Arc<Place>, PeerAddress) {
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => {
                    if let Some((stream, place)) = self.admit(Stream::from(socket)) {
                        return (stream, place, peer);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "{who} cannot accept");
                    sleep(FAILED_PAUSE).await;
                }
            }
        }
    }

    /// A place for a new connection, taken from another where there is none; `None` where all of
    /// them are being worked for, which takes the token.
    fn take(&self) -> Option<Arc<Place>> {
        let mut open = self.open();
        if open.len() >= self.patience.connections_max {
            let longest = open
                .iter()
                .enumerate()
                .filter(|(_, place)| place.state().step != Step::Working)
                .min_by_key(|(_, place)| place.state().served)
                .map(|(index, _)| index)?;
            open.swap_remove(longest).end();
        }
        let state = State {
            step: Step::Idle,
            served: Instant::now(),
            more_bytes: 0,
            ended: false,
            waker: None,
        };
        let place = Arc::new(Place { state: Mutex::new(state) });
        open.push(Arc::clone(&place));
        Some(place)
    }

    fn give_back(&self, place: &Arc<Place>) {
        self.open().retain(|other| !Arc::ptr_eq(other, place));
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Place>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What others may know of a connection.
#[derive(Debug)]
pub struct Place {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    step: Step,
    /// When its last request was done, or it was accepted.
    served: Instant,
    /// Bytes that the request may have besides those any may.
    more_bytes: usize,
    /// Another connection needed the place.
    ended: bool,
    waker: Option<Waker>,
}

impl Place {
    /// Its request is whole: from here on, we are waited for.
    pub fn begin_work(&self) {
        self.state().step = Step::Working;
    }

    /// As [`Self::begin_work`], before the request is whole: so many bytes more may come of it. Whoever
    /// reads them sees to it that they come in time.
    pub fn begin_upload(&self, more_bytes: usize) {
        let mut state = self.state();
        state.step = Step::Working;
        state.more_bytes = more_bytes;
    }

    /// Its answer is made.
    pub fn end_work(&self) {
        let mut state = self.state();
        state.step = Step::Sending;
        state.more_bytes = 0;
        state.served = Instant::now();
    }

    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that ends when its client takes too long over its `Step`, sends a request that is
/// too long, or loses its place.
#[derive(Debug)]
pub struct Guarded {
    stream: Stream,
    place: Arc<Place>,
    places: Arc<Places>,
    timer: Pin<Box<Sleep>>,
    /// The step the timer is set for.
    timed: Step,
    /// Bytes of the request that is arriving.
    received_bytes: usize,
}

impl Guarded {
    fn new(stream: Stream, place: Arc<Place>, places: Arc<Places>) -> Self {
        let timer = Box::pin(sleep(places.patience.silence_max));
        Self { stream, place, places, timer, timed: Step::Idle, received_bytes: 0 }
    }

    /// Goes on to `step`, whose time begins now.
    fn enter(&mut self, step: Step) {
        self.place.state().step = step;
        self.set_timer(step);
    }

    fn set_timer(&mut self, step: Step) {
        self.timed = step;
        if let Some(time_max) = step.time_max(&self.places.patience) {
            self.timer.as_mut().reset(Instant::now() + time_max);
        }
    }

    /// The step it is at, with the timer set for it; an error where it has lost its place.
    fn step(&mut self) -> io::Result<Step> {
        let (step, ended) = {
            let state = self.place.state();
            (state.step, state.ended)
        };
        if ended {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if step != self.timed {
            self.set_timer(step);
        }
        Ok(step)
    }

    /// Waits on behalf of a read or write that is pending.
    fn poll_patience(&mut self, cx: &mut Context<'_>, step: Step) -> Poll<io::Error> {
        self.place.state().waker = Some(cx.waker().clone());
        match step.time_max(&self.places.patience) {
            Some(_) => self.timer.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.places.give_back(&self.place);
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let step = self.step()?;
        let before = buffer.filled().len();
        match AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buffer) {
            Poll::Ready(Ok(())) => {
                if matches!(step, Step::Idle | Step::Sending) {
                    self.received_bytes = 0;
                    self.enter(Step::Receiving);
                }
                // Also of what is sent while we work: it is kept for later.
                self.received_bytes += buffer.filled().len() - before;
                let more = self.place.state().more_bytes;
                let bytes_max = self.places.patience.request_bytes_max.saturating_add(more);
                if self.received_bytes > bytes_max {
                    return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => self.poll_patience(cx, step).map(Err),
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let step = self.step()?;
        match AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes) {
            Poll::Ready(result) => {
                if step == Step::Sending {
                    self.set_timer(step);
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                if step == Step::Idle {
                    self.enter(Step::Sending);
                }
                self.poll_patience(cx, step).map(Err)
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx);
        if flushed.is_ready() && self.step()? == Step::Sending {
            self.enter(Step::Idle);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
