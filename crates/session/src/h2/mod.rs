//! HTTP/2 connections: one task reads and writes, and a task serves each stream.
//!
//! The connection's task gives what it reads to [`Connection`] and starts a task for each request.
//! Those queue pieces of bodies, as leases on the cache, and the connection's task sends them in the
//! order clients ask for (RFC 9218), frames of several streams in one batch.

mod multiplexed;
mod out;

use super::First;
use super::deadline::Deadline;
use super::refusal::{Asked, Refusal, Told};
use super::streams::{State, serve, take_on};
use freshet_access::client::Client;
use freshet_config::limits::Limits;
use freshet_http::message::{Scheme, Version};
use freshet_net::limits::READ_BYTES_MAX;
use freshet_net::stream::Stream;
use freshet_wire::h2::{Code, Connection, Event, FRAME_HEADER_BYTES, Local, Request, Upgrade};
use freshet_worker::worker::Worker;
use multiplexed::wants_input;
use out::Out;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// How often a connection with open streams looks whether it still comes on.
const STREAMS_OPEN_CHECK: Duration = Duration::from_secs(60);
/// How long what was planned for a client stays in memory where it is. It is little, and copied
/// after that.
const OUT_KEPT_MAX: Duration = Duration::from_secs(1);
/// How long a closing connection is read on, so that what was said last is not lost to a reset.
const LINGER: Duration = Duration::from_secs(2);
/// After this many bytes a connection lets the worker's other tasks run.
const TURN_BYTES: usize = 256 << 10;

thread_local! {
    /// Where all connections of a worker read to; of what arrived only a part of a frame is copied
    /// to its connection, so an idle one holds no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into());
}

/// Serves the connection until it ends. `first` was read from it already.
pub(super) async fn serve(worker: Rc<Worker>, stream: Stream, client: Rc<Client>, first: First) {
    let scheme = if client.tls.is_some() { Scheme::Https } else { Scheme::Http };
    let connection = Connection::new(local(&worker), scheme);
    run(Session::new(worker, stream, client, first, connection)).await;
}

/// The same of one that began with HTTP/1.1, whose client was told that it may go on like this.
pub(super) async fn serve_upgraded(
    worker: Rc<Worker>,
    stream: Stream,
    client: Rc<Client>,
    first: First,
    upgrade: Upgrade,
) {
    let Ok(connection) = upgrade.connection(local(&worker)) else { return };
    let session = Session::new(worker, stream, client, first, connection);
    let admitted = session.admit(&mut session.state.borrow_mut(), 1, upgrade.request);
    if admitted.is_ok() {
        run(session).await;
    }
}

/// Our side's configuration.
fn local(worker: &Worker) -> Local {
    let snapshot = worker.snapshot();
    let settings = &snapshot.settings.http2;
    Local {
        limits: snapshot.h1_limits,
        conduct: snapshot.manners.http2,
        streams_max: snapshot.settings.limits.streams_max,
        stream_window_bytes: settings.stream_window_bytes,
        connection_window_bytes: settings.connection_window_bytes,
        header_table_bytes: settings.header_table_bytes,
    }
}

async fn run(mut session: Session) {
    let worker = Rc::clone(&session.worker);
    let snapshot = worker.snapshot();
    let limits = &snapshot.settings.limits;
    let ending = Ending(Rc::clone(&session.state));
    let mut deadline = Deadline::new();
    let mut is_draining = false;
    let mut was_told_to_go = false;
    loop {
        let limit = session.time_left(limits);
        let turn = tokio::select! {
            biased;
            turn = deadline.within(limit, std::future::poll_fn(|cx| session.poll_turn(cx))) => turn,
            () = worker.drained(), if !is_draining => {
                is_draining = true;
                session.state.borrow_mut().connection.shut_down();
                continue;
            }
        };
        if !is_draining && session.stream.is_worn() {
            is_draining = true;
            session.state.borrow_mut().connection.shut_down();
        }
        match turn {
            Ok(Turn::Changed) => {}
            Ok(Turn::Done) => {
                drop(ending);
                return session.stream.close(LINGER).await;
            }
            Ok(Turn::Broken) => return,
            Err(_) => match session.overdue(limits) {
                None => session.out.let_go(),
                Some(Overdue::Idle) if !was_told_to_go => {
                    (is_draining, was_told_to_go) = (true, true);
                    session.since = Instant::now();
                    session.state.borrow_mut().connection.shut_down();
                }
                Some(Overdue::Begun) => {
                    worker.stats.timeouts.increment();
                    session.begun = None;
                    let state = &mut *session.state.borrow_mut();
                    state.connection.fail(Code::EnhanceYourCalm);
                    state.break_all();
                }
                Some(Overdue::Idle | Overdue::Taking) => {
                    worker.stats.timeouts.increment();
                    return;
                }
            },
        }
    }
}

/// What a connection's bytes are read and made from.
struct Session {
    worker: Rc<Worker>,
    client: Rc<Client>,
    stream: Stream,
    state: Rc<RefCell<State<Connection>>>,
    /// What was read and is not done: a part of a frame, or all that came while the client did not
    /// read what it made us say.
    input: Vec<u8>,
    /// Whether there may be a whole frame in it.
    has_unread: bool,
    out: Out,
    sent_bytes: u64,
    /// When that was seen to have grown, and to what.
    taking: (Instant, u64),
    /// Since when the client has said nothing yet, has no streams, or was told to go.
    since: Instant,
    /// When that began of which a part was read: a frame, or a head in several of them; in time since
    /// the connection began.
    begun: Option<Duration>,
    /// What was known when a turn ended last: whether the client has said what comes first, and
    /// something wrong; whether the keys should not be used much longer; whether a part of something
    /// was read.
    known: (bool, bool, bool, bool),
    shows_broken_bodies: bool,
    started: Instant,
}

/// What a client has taken too long for.
enum Overdue {
    /// To say what comes first, to ask for something, or to go.
    Idle,
    /// To end what it began.
    Begun,
    /// To take anything of what it asked for.
    Taking,
}

/// Why a connection's task has something to think about.
enum Turn {
    /// What is waited for is another now, and for how long.
    Changed,
    /// All is said.
    Done,
    /// The client is gone.
    Broken,
}

impl Session {
    fn new(
        worker: Rc<Worker>,
        stream: Stream,
        client: Rc<Client>,
        first: First,
        connection: Connection,
    ) -> Self {
        let snapshot = worker.snapshot();
        let state = Rc::new(RefCell::new(State::new(connection, worker.connection_memory())));
        Self {
            out: Out::new(stream.is_tls()),
            shows_broken_bodies: snapshot.manners.shows_broken_bodies,
            worker,
            client,
            stream,
            state,
            has_unread: !first.bytes.is_empty(),
            input: first.bytes,
            sent_bytes: 0,
            taking: (first.begun, 0),
            since: first.begun,
            begun: None,
            known: (false, false, false, false),
            started: first.begun,
        }
    }

    /// How long to wait for the client before it is looked at again.
    fn time_left(&mut self, limits: &Limits) -> Duration {
        let left = if let Some(limit) = self.idle_limit(limits) {
            limit.saturating_sub(self.since.elapsed())
        } else {
            if self.taking.1 != self.sent_bytes {
                self.taking = (Instant::now(), self.sent_bytes);
            }
            // While streams are open, each has its own time limits.
            STREAMS_OPEN_CHECK.min(limits.send_timeout)
        };
        let left = if self.out.keeps_memory() { left.min(OUT_KEPT_MAX) } else { left };
        let begun = self.begun.map(|begun| begun + limits.request_timeout);
        left.min(begun.map_or(left, |end| end.saturating_sub(self.started.elapsed())))
    }

    /// How long the client may go on as it does; `None` while it has streams.
    fn idle_limit(&self, limits: &Limits) -> Option<Duration> {
        let state = self.state.borrow();
        if state.connection.has_failed() {
            Some(LINGER)
        } else if !state.connection.is_established() {
            Some(limits.request_timeout)
        } else {
            (state.serving() == 0).then_some(limits.idle_timeout)
        }
    }

    /// What the client has taken too long for, if it has.
    fn overdue(&self, limits: &Limits) -> Option<Overdue> {
        let is_over = |begun: Duration| self.started.elapsed() >= begun + limits.request_timeout;
        if let Some(limit) = self.idle_limit(limits) {
            if self.since.elapsed() >= limit {
                return Some(Overdue::Idle);
            }
        } else if !self.out.is_empty()
            && self.taking.1 == self.sent_bytes
            && self.taking.0.elapsed() >= STREAMS_OPEN_CHECK.min(limits.send_timeout)
        {
            return Some(Overdue::Taking);
        }
        self.begun.is_some_and(is_over).then_some(Overdue::Begun)
    }

    /// Reads and sends what can be.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let mut turn_bytes = 0;
        loop {
            let read = match self.poll_receive(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Turn::Broken),
                Poll::Ready(Ok(count)) => {
                    self.state.borrow_mut().wake_loose();
                    count
                }
                Poll::Pending => 0,
            };
            self.out.plan(&mut self.state.borrow_mut());
            let sent = match self.out.poll_send(cx, &mut self.stream) {
                Poll::Ready(Ok(0)) if self.state.borrow().connection.is_done() => {
                    return Poll::Ready(Turn::Done);
                }
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::Broken),
                Poll::Pending => {
                    self.state.borrow_mut().set_blocked(!self.out.is_empty());
                    0
                }
            };
            if self.out.is_empty() {
                self.state.borrow_mut().set_blocked(false);
            }
            self.sent_bytes += sent as u64;
            turn_bytes += sent + read;
            let is_established = self.state.borrow().connection.is_established();
            let has_failed = self.state.borrow().connection.has_failed();
            let known = (is_established, has_failed, self.stream.is_worn(), self.begun.is_some());
            let before = std::mem::replace(&mut self.known, known);
            let has_emptied = self.state.borrow_mut().take_emptied();
            if has_emptied || (is_established, has_failed) != (before.0, before.1) {
                // The time without streams begins, or that in which to hear that it is over.
                self.since = Instant::now();
            }
            if has_emptied || known != before {
                return Poll::Ready(Turn::Changed);
            }
            if turn_bytes >= TURN_BYTES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if read == 0 && sent == 0 {
                self.state.borrow_mut().wait(cx);
                return Poll::Pending;
            }
        }
    }

    /// Reads some bytes, handles the frames in them and says how many; 0 at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if !wants_input(&self.state.borrow()) {
            return Poll::Pending;
        }
        if std::mem::take(&mut self.has_unread) {
            let input = std::mem::take(&mut self.input);
            let used = self.handle(&input);
            self.keep(input, used);
            self.note_begun(used > 0);
            // Something was done even where no byte was.
            return Poll::Ready(Ok(used.max(1)));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let count = std::task::ready!(self.stream.poll_read(cx, scratch))?;
            let arrived = &scratch[..count];
            let used = if self.input.is_empty() {
                let used = self.handle(arrived);
                self.input.extend_from_slice(&arrived[used..]);
                used
            } else {
                let mut input = std::mem::take(&mut self.input);
                input.extend_from_slice(arrived);
                let used = self.handle(&input);
                self.keep(input, used);
                used
            };
            self.note_begun(used > 0);
            Poll::Ready(Ok(count))
        })
    }

    /// Looks whether there is a part of something, `is_new` where what was there before is done.
    fn note_begun(&mut self, is_new: bool) {
        let state = self.state.borrow();
        self.begun = match state.connection.head_begun() {
            // What is not read cannot come on.
            _ if self.has_unread || !wants_input(&state) => None,
            Some(begun) => Some(begun),
            None if self.input.is_empty() => None,
            None => self.begun.filter(|_| !is_new).or_else(|| Some(self.started.elapsed())),
        };
    }

    /// Keeps what is behind the first `used` bytes of what was read.
    fn keep(&mut self, mut input: Vec<u8>, used: usize) {
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Serves a request, unless those under way hold what they may.
    fn admit(
        &self,
        state: &mut State<Connection>,
        number: u32,
        request: Request,
    ) -> Result<(), Box<Request>> {
        let taken = take_on(&self.state, state, number.into(), &request);
        let Some((handle, charge)) = taken else { return Err(Box::new(request)) };
        let (worker, client) = (Rc::clone(&self.worker), Rc::clone(&self.client));
        serve::spawn(serve::serve(worker, client, handle, request, charge));
        Ok(())
    }

    /// Handles the frames at the front of `input` and returns how many bytes they have.
    fn handle(&mut self, input: &[u8]) -> usize {
        let now = self.started.elapsed();
        let state = &mut *self.state.borrow_mut();
        let mut used = 0;
        while state.connection.wants_input() {
            let rest = &input[used..];
            let received = match state.connection.receive(rest, now) {
                Ok(Some(received)) => received,
                Ok(None) => return used,
                Err(_) => {
                    self.worker.stats.h2_goaway.increment();
                    state.break_all();
                    return input.len();
                }
            };
            match received.event {
                Event::Nothing | Event::Opened => {}
                // What a server says, which clients do not.
                Event::Answer(..) | Event::Wrong(..) | Event::Trailers(..) | Event::Leaving(_) => {}
                Event::Request(number, request) => {
                    if let Err(request) = self.admit(state, number, *request) {
                        let asked = Asked::Head(&request.head);
                        Refusal::NO_ROOM.note(&self.worker, &self.client, asked);
                        if state.connection.turn_away(number).is_err() {
                            self.worker.stats.h2_goaway.increment();
                            state.break_all();
                            return input.len();
                        }
                    }
                }
                Event::Refused { status, head_bytes, said, .. } => {
                    let refusal = status.map_or(Refusal::MALFORMED, Refusal::of_status);
                    let told = Told::in_stream(status, FRAME_HEADER_BYTES + head_bytes);
                    let asked = Asked::Said(&said, Version::Http2);
                    refusal.note_told(&self.worker, &self.client, asked, told);
                }
                Event::Data(number, place, ends) => {
                    state.receive(number.into(), &rest[place], ends)
                }
                Event::End(number) => state.receive(number.into(), &[], true),
                Event::Reset { stream, by_peer } => {
                    let body_only = self.shows_broken_bodies && by_peer.is_none();
                    state.break_off(stream.into(), body_only);
                }
            }
            used += received.bytes;
        }
        self.has_unread = used < input.len();
        used
    }
}

/// Tells those who serve the streams when the connection is over, however that comes.
struct Ending(Rc<RefCell<State<Connection>>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.borrow_mut().break_all();
    }
}
