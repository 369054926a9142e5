//! Connections: hyper parses and frames, [`State`] answers.

use super::Counters;
use super::growth::{Due, Growth, Parts};
use super::respond::State;
use bytes::Bytes;
use freshet_base::clock::UnixMillis;
use freshet_load::content::Content;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

/// Connections at a time; further ones wait in the listener's backlog. Each costs some 10 KB.
const CONNECTIONS_MAX: usize = 16_384;

/// A client that sends no whole request head for this long is disconnected.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// How long answers under way may take once the origin is told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// A pause after a failed accept, so that a lack of descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bytes handed to a connection at a time. Large, because the pieces are not copied.
const PIECE_BYTES: usize = 256 << 10;

/// Serves until `stopped` turns true.
pub(super) async fn run(
    listener: TcpListener,
    state: Arc<State>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = places.clone().acquire_owned();
        let accepted = async { (place.await, listener.accept().await) };
        tokio::select! {
            () = told(&mut stopped) => break,
            Some(_) = connections.join_next() => {}
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    state.counters.connections.add(1);
                    let connection = serve(stream, state.clone(), stopped.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the laboratory's origin cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
        tracing::debug!("the laboratory's origin stopped with answers under way");
    }
}

/// Waits for the word to stop, or for the origin to be gone.
async fn told(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// One connection, until the client leaves or the origin stops.
async fn serve(stream: TcpStream, state: Arc<State>, mut stopped: watch::Receiver<bool>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let stops = stopped.clone();
    let service = service_fn(|request: Request<Incoming>| {
        let (state, stops) = (state.clone(), stops.clone());
        async move { Ok::<_, Infallible>(answer(&state, &request, stops).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the laboratory's origin ended early");
    }
}

/// The answer to a request, once it is there.
async fn answer(
    state: &State,
    request: &Request<Incoming>,
    mut stopped: watch::Receiver<bool>,
) -> Response<Answer> {
    let (method, path) = (request.method(), request.uri().path());
    if method == Method::GET && path == FIGURES_PATH {
        return events(state.figures.subscribe(), stopped);
    }
    let query = request.uri().query().unwrap_or_default();
    let mut now = UnixMillis::now();
    if let Due::At(due) = state.due(path, query, now) {
        tokio::select! {
            // Timers and the clock are not the same to the millisecond.
            () = tokio::time::sleep(due.since(now)) => now = UnixMillis::now().max(due),
            () = told(&mut stopped) => {}
        }
    }
    let mut response = state.respond(method, (path, query), request.headers(), now);
    let growth = response.extensions_mut().remove::<Parts>().map(Growth::new);
    let counters = state.counters.clone();
    response.map(|content| Answer::Pieces { content, growth, counters })
}

/// Where the figures of a demonstration are.
const FIGURES_PATH: &str = "/figures";

/// Events as they come, until the client leaves or the origin stops. Who asks before there are any waits for
/// the first: a browser whose request for events is refused does not ask again (HTML §9.2.3).
fn events(
    mut figures: watch::Receiver<Bytes>,
    mut stopped: watch::Receiver<bool>,
) -> Response<Answer> {
    // One that a slow client has not taken is not followed by others; then it gets the newest.
    let (sender, receiver) = mpsc::channel(1);
    if !figures.borrow().is_empty() {
        figures.mark_changed();
    }
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = told(&mut stopped) => return,
                () = sender.closed() => return,
                changed = figures.changed() => if changed.is_err() { return },
            }
            let event = figures.borrow_and_update().clone();
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Answer::Events(receiver));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of an answer.
enum Answer {
    /// Content that is handed out without copying, and counted, and what follows of a segment that is
    /// being made.
    Pieces { content: Content, growth: Option<Growth>, counters: Arc<Counters> },
    /// What happens, as it happens.
    Events(mpsc::Receiver<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Pieces { content, growth, counters } => {
                if content.is_empty()
                    && let Some(growth) = growth
                    && let Some(part) = ready!(growth.poll_part(context))
                {
                    *content = part;
                }
                let piece = content.take_front(PIECE_BYTES);
                counters.body_bytes.add(piece.as_ref().map_or(0, Bytes::len) as u64);
                piece
            }
            Self::Events(events) => ready!(events.poll_recv(context)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Pieces { content, growth: None, .. } if content.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Pieces { content, growth: None, .. } => SizeHint::with_exact(content.len()),
            Self::Pieces { .. } | Self::Events(_) => SizeHint::default(),
        }
    }
}
