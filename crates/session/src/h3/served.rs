//! One connection as it is served.

mod client;

use super::Port;
use super::multiplexed::Piece;
use super::unacknowledged::Kept;
use crate::accept::Open;
use crate::refusal::{Asked, Refusal, Told};
use crate::streams::{State, Turn, serve, take_on};
use freshet_access::client::Client;
use freshet_config::limits::Limits;
use freshet_http::message::{Method, Version};
use freshet_limits::Held;
use freshet_net::limits::SEND_PAUSE;
use freshet_net::quic::sorting::Sorting;
use freshet_net::tls::HandshakeContext;
use freshet_quic::error::Class;
use freshet_quic::{self as quic, Batch, Closed, Ecn, Id, Marks, Route};
use freshet_wire::h3::frame::FRAME_HEAD_BYTES_MAX;
use freshet_wire::h3::limits::BLOCKED_STREAMS_MAX;
use freshet_wire::h3::{Code, Connection, Event, Local};
use freshet_worker::farewell::Part;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Sleep, sleep_until};

/// Batches of a connection before others have their turn.
const BATCHES_PER_TURN: usize = 4;
/// How often a connection is looked at that has nothing to wait for.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a client has that was told to go and has acknowledged everything: what it has received and not read yet
/// would be lost with the connection (RFC 9000 §10.2). It closes when it is through; some take bytes out slower than
/// they come, and have up to a few seconds' worth of them.
const LINGER: Duration = Duration::from_secs(5);

thread_local! {
    /// Where all connections of a worker write to.
    static BATCH: RefCell<Batch> = RefCell::default();
}

/// A connection, to who brings it datagrams.
pub(super) struct Handle {
    state: Rc<RefCell<State<Connection<Piece>>>>,
    /// Of its handshake.
    context: RefCell<HandshakeContext>,
    task: RefCell<Option<Waker>>,
    number: u64,
    ids: [Id; 2],
    /// Where the client was when it began.
    from: SocketAddr,
    /// Whether it waits for room in the socket.
    is_waiting: Cell<bool>,
    /// Counts the connection, until it is closed.
    open: Cell<Option<Open>>,
}

impl Handle {
    pub(super) fn begin(
        port: &Port,
        (quic, context): (quic::Connection<Piece>, HandshakeContext),
        (number, from): (u64, SocketAddr),
        ids: [Id; 2],
        open: Open,
    ) -> Rc<Self> {
        let limits = port.worker.snapshot().h1_limits;
        let local = Local { limits, blocked_streams_max: BLOCKED_STREAMS_MAX };
        let connection = Connection::new(quic, local);
        let state = State::new(connection, port.worker.connection_memory());
        Rc::new(Self {
            state: Rc::new(RefCell::new(state)),
            context: RefCell::new(context),
            task: RefCell::default(),
            number,
            ids,
            from,
            is_waiting: Cell::default(),
            open: Cell::new(Some(open)),
        })
    }

    /// The ids of clients' first packets, while the handshake is open.
    pub(super) fn begun(&self) -> impl Iterator<Item = Id> + use<> {
        let is_open = !self.state.borrow().connection.quic.is_established();
        self.ids.into_iter().filter(move |_| is_open)
    }

    /// Its number at the port.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Has nothing lead to it any more.
    pub(super) fn forget(&self, sorting: &mut Sorting<u64>) {
        let quic = &self.state.borrow().connection.quic;
        quic.ids().chain(self.ids).for_each(|id| sorting.remove(&id));
        sorting.forget_tokens(quic.told_reset_tokens());
    }

    /// Has it wait for room in the socket; whether it did not before.
    pub(super) fn await_room(&self) -> bool {
        !self.is_waiting.replace(true)
    }

    /// There is room again.
    pub(super) fn go_on(&self) {
        self.is_waiting.set(false);
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }

    /// A datagram came.
    pub(super) fn receive(&self, route: Route, ecn: Ecn, datagram: &mut [u8], now: Duration) {
        let quic = &mut self.state.borrow_mut().connection.quic;
        match quic.is_established() {
            true => quic.receive(route, ecn, datagram, now),
            false => self.context.borrow_mut().during(|| quic.receive(route, ecn, datagram, now)),
        }
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }
}

/// Serves a connection until nothing of it has to be remembered.
pub(super) async fn serve(port: Rc<Port>, handle: Rc<Handle>) {
    let mut session = Session {
        state: Rc::clone(&handle.state),
        handle: Rc::clone(&handle),
        client: None,
        held: None,
        timer: Box::pin(sleep_until(tokio::time::Instant::now())),
        timer_at: Duration::ZERO,
        due: Duration::ZERO,
        since: port.now(),
        is_shaking_hands: true,
        is_told_to_go: false,
        quiet_since: None,
        kept: Kept::default(),
        farewell: Some(port.worker.farewell.part()),
        port: Rc::clone(&port),
    };
    let worker = Rc::clone(&port.worker);
    {
        let mut drained = std::pin::pin!(worker.drained());
        let mut ends = std::pin::pin!(worker.farewell.due());
        let (mut is_draining, mut is_ending) = (false, false);
        poll_fn(|cx| {
            if !is_ending && ends.as_mut().poll(cx).is_ready() {
                is_ending = true;
                session.end();
            }
            if !is_draining && drained.as_mut().poll(cx).is_ready() {
                is_draining = true;
                session.state.borrow_mut().connection.shut_down();
            }
            session.poll(cx)
        })
        .await;
    }
    session.state.borrow_mut().break_all();
    if let Some(client) = &session.client {
        client.presence.end();
    }
    session.end_handshake();
    port.forget(&handle);
}

struct Session {
    port: Rc<Port>,
    handle: Rc<Handle>,
    state: Rc<RefCell<State<Connection<Piece>>>>,
    /// Known once the handshake is over.
    client: Option<Rc<Client>>,
    /// That it counts for its network.
    held: Option<Held>,
    timer: Pin<Box<Sleep>>,
    /// When it goes off.
    timer_at: Duration,
    /// When time makes a difference to the engine.
    due: Duration,
    /// Since when the handshake is waited for, or there are no requests.
    since: Duration,
    is_shaking_hands: bool,
    is_told_to_go: bool,
    /// Since when no request is open and nothing on its way.
    quiet_since: Option<Duration>,
    kept: Kept,
    /// That its client is to be told when the worker ends.
    farewell: Option<Part>,
}

impl Session {
    /// Does what can be done; ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.port.now();
        if self.due <= now {
            self.state.borrow_mut().connection.quic.on_timeout(now);
        }
        self.handle_events(now);
        self.look_at_limits(now);
        let has_more = self.send(now);
        self.count_marks();
        if self.is_closed() {
            return Poll::Ready(());
        }
        self.wait(cx, now);
        if has_more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Lets the task be woken by datagrams, by those who serve streams, and in time.
    fn wait(&mut self, cx: &mut Context<'_>, now: Duration) {
        *self.handle.task.borrow_mut() = Some(cx.waker().clone());
        let state = &mut *self.state.borrow_mut();
        state.wait(cx);
        self.due = state.connection.quic.timeout().unwrap_or(now + CHECK_INTERVAL);
        let mut at = self.due.min(now + CHECK_INTERVAL);
        // Nobody looks at limits of what is closed and only answers what still comes.
        if state.connection.quic.closed().is_none() {
            self.kept.wait(cx);
            let limit = self.limit_at(state.serving(), state.connection.head_begun());
            let kept = self.kept.due(&state.connection);
            let end = self.ends_at(&state.connection);
            at = kept.into_iter().chain(end).fold(at.min(limit), Duration::min);
        }
        if self.handle.is_waiting.get() {
            // What is due cannot be sent, however often it is tried.
            at = at.max(now + SEND_PAUSE);
        }
        // Each acknowledgement moves on what is waited for. A timer that goes off too early has it look
        // again, once, which is less work than to move the timer on each time.
        if at >= self.timer_at && self.timer_at > now && !self.timer.is_elapsed() {
            return;
        }
        self.timer_at = at;
        self.timer.as_mut().reset(self.port.epoch + at);
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Takes what datagrams brought.
    fn handle_events(&mut self, now: Duration) {
        let state = Rc::clone(&self.state);
        let state = &mut *state.borrow_mut();
        let quic = &state.connection.quic;
        let (is_established, is_early) = (quic.is_established(), quic.is_early());
        if self.client.is_none() && (is_established || is_early) {
            self.note_client(state, is_early);
        }
        if self.is_shaking_hands && is_established {
            self.note_established(state);
        }
        while let Some(event) = state.connection.next_event(now) {
            match event {
                Event::Request(number, request) => {
                    if self.follow(state) {
                        self.begin(state, number, *request);
                    }
                }
                Event::Refused { status, head_bytes, said, .. } => {
                    let refusal = status.map_or(Refusal::MALFORMED, Refusal::of_status);
                    let told = Told::in_stream(status, FRAME_HEAD_BYTES_MAX + head_bytes);
                    if let Some(client) = &self.client {
                        let asked = Asked::Said(&said, Version::Http3);
                        refusal.note_told(&self.port.worker, client, asked, told);
                    }
                }
                Event::Data(number, bytes) => state.receive(number, &bytes, false),
                Event::End(number) => state.receive(number, &[], true),
                Event::Reset { stream, .. } => state.break_off(stream, false),
            }
        }
        state.wake_loose();
    }

    /// A request came.
    fn begin(
        &self,
        state: &mut State<Connection<Piece>>,
        number: u64,
        request: freshet_wire::h3::Request,
    ) {
        let Some(client) = &self.client else { return };
        let worker = &self.port.worker;
        let Some((handle, charge)) = take_on(&self.state, state, number, &request) else {
            Refusal::NO_ROOM.note(worker, client, Asked::Head(&request.head));
            state.connection.turn_away(number);
            return;
        };
        let (worker, client) = (Rc::clone(worker), Rc::clone(client));
        if client.presence.is_proved() {
            serve::spawn(serve::serve(worker, client, handle, request, charge));
            return;
        }
        worker.stats.requests_early.increment();
        // What changes nothing may go on, as far as it is not asked of others (RFC 8470 §3).
        let is_safe = matches!(request.head.method, Method::Get | Method::Head);
        serve::spawn(async move {
            if is_safe || client.presence.known().await {
                serve::serve(worker, client, handle, request, charge).await;
            }
        });
    }

    /// The handshake is over.
    fn note_established(&mut self, state: &mut State<Connection<Piece>>) {
        let worker = &self.port.worker;
        state.connection.quic.forget_handshake();
        worker.stats.tls_handshakes.increment();
        if let Some(client) = &self.client {
            let is_resumed = client.tls.as_ref().is_some_and(|tls| tls.resumed);
            worker.stats.tls_resumed.add(u64::from(is_resumed));
            client.presence.prove();
        }
        self.end_handshake();
        self.since = self.port.now();
    }

    fn end_handshake(&mut self) {
        if std::mem::take(&mut self.is_shaking_hands) {
            let mut sorting = self.port.sorting.borrow_mut();
            sorting.handshake_ended(self.handle.from);
            if !self.client.as_ref().is_some_and(|client| client.presence.is_proved()) {
                self.port.worker.stats.tls_failed.increment();
            }
        }
    }

    /// When the client has taken too long for something.
    fn limit_at(&self, serving: usize, head_begun: Option<Duration>) -> Duration {
        let snapshot = self.port.worker.snapshot();
        let limits: &Limits = &snapshot.settings.limits;
        if self.is_shaking_hands {
            return self.since + snapshot.settings.handshake_timeout;
        }
        let head = head_begun.map(|begun| begun + limits.request_timeout);
        let idle = (serving == 0).then_some(self.since + limits.idle_timeout);
        [head, idle].into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// When a connection that has nothing left to do is closed, unless its client does it.
    fn ends_at(&self, connection: &Connection<Piece>) -> Option<Duration> {
        self.quiet_since.filter(|_| connection.is_done()).map(|since| since + LINGER)
    }

    /// Tells the client that the connection is over, as the worker ends, whatever of it was under way.
    fn end(&mut self) {
        let quic = &mut self.state.borrow_mut().connection.quic;
        if quic.closed().is_none() {
            quic.close(Code::NoError as u64, self.port.now());
        }
    }

    fn look_at_limits(&mut self, now: Duration) {
        let state = Rc::clone(&self.state);
        let state = &mut *state.borrow_mut();
        if state.take_emptied() {
            self.since = now;
        }
        let connection = &mut state.connection;
        if connection.quic.closed().is_some() {
            return;
        }
        let quiet_since = self.quiet_since.unwrap_or(now);
        self.quiet_since = connection.is_quiet().then_some(quiet_since);
        if self.ends_at(connection).is_some_and(|end| end <= now) {
            return connection.quic.close(Code::NoError as u64, now);
        }
        if !self.kept.look(connection, now) {
            self.port.worker.stats.readers_ended.increment();
            return connection.quic.close(Code::ExcessiveLoad as u64, now);
        }
        let head_begun = connection.head_begun();
        if now < self.limit_at(state.serving(), head_begun) {
            return;
        }
        let connection = &mut state.connection;
        let is_late = self.is_shaking_hands || head_begun.is_some() || self.is_told_to_go;
        if is_late {
            self.port.worker.stats.timeouts.increment();
            let code = if head_begun.is_some() { Code::ExcessiveLoad } else { Code::NoError };
            return connection.quic.close(code as u64, now);
        }
        // Told to go first: it may be about to ask for something.
        self.is_told_to_go = true;
        self.since = now;
        connection.shut_down();
    }

    /// Sends what there is to say; whether there is more.
    fn send(&mut self, now: Duration) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut sorting = self.port.sorting.borrow_mut();
        for _ in 0..state.connection.quic.ids_wanted() {
            let (id, token) = sorting.draw_id(self.handle.number);
            state.connection.quic.add_id(id, token);
        }
        for id in state.connection.quic.take_retired_ids() {
            sorting.remove(&id);
        }
        let quic = &mut state.connection.quic;
        if let Some(tokens) = quic.take_reset_tokens() {
            sorting.change_tokens(&tokens, self.handle.number);
        }
        if quic.is_token_wanted() {
            let token = sorting.token_for(quic.route().remote, self.port.epoch_unix + now);
            quic.give_token(&token);
        }
        drop(sorting);
        BATCH.with_borrow_mut(|batch| {
            for _ in 0..BATCHES_PER_TURN {
                if self.port.udp.is_full() {
                    self.port.await_room(&self.handle);
                    return false;
                }
                feed(state);
                if state.connection.is_full()
                    && state.connection.queued_of_all() > 0
                    && let Some(client) = &self.client
                {
                    let id = Rc::as_ptr(&self.handle) as usize;
                    let who = (&*self.port.worker, client.network, id);
                    while state.connection.is_full()
                        && self.kept.grow(who, &mut state.connection, now)
                    {
                        feed(state);
                    }
                }
                batch.clear();
                let Some(to) = state.connection.quic.fill(now, batch) else {
                    let waits = state.connection.queued_of_all() > 0;
                    state.set_blocked(waits);
                    if waits {
                        state.note_shut();
                    }
                    return false;
                };
                self.port.udp.send(to, batch.ecn(), batch.bytes(), batch.segment_bytes());
                if state.connection.has_control_room() {
                    state.wake_heads();
                }
            }
            state.set_blocked(false);
            true
        })
    }

    /// Counts what became of marks of congestion, and wishes of how to acknowledge.
    fn count_marks(&self) {
        let marks = self.state.borrow_mut().connection.quic.take_marks();
        if marks != Marks::default() {
            let stats = &self.port.worker.stats;
            stats.quic_ecn_sent.add(marks.sent);
            stats.quic_ecn_congested.add(marks.congested);
            stats.quic_ecn_received.add(marks.received);
            stats.quic_ecn_failed.add(marks.failed);
            stats.quic_ack_frequency_asked.add(marks.frequencies_asked);
            stats.quic_ack_frequency_obeyed.add(marks.frequencies_obeyed);
        }
    }

    /// Whether nothing of it has to be remembered. What it holds goes as soon as it is closed.
    fn is_closed(&mut self) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.connection.quic.closed().is_none() {
            return false;
        }
        if let Some(open) = self.handle.open.take() {
            state.break_all();
            state.connection.quic.forget_streams();
            (self.kept, self.held, self.farewell) = (Kept::default(), None, None);
            let stats = &self.port.worker.stats;
            stats.h3_errors.add(u64::from(state.connection.has_failed()));
            match state.connection.quic.closed() {
                Some(Closed::ByError(error)) => match error.class() {
                    Class::Handshake => stats.quic_errors_handshake.increment(),
                    Class::Frames => stats.quic_errors_frames.increment(),
                    Class::Streams => stats.quic_errors_streams.increment(),
                    Class::Ids => stats.quic_errors_ids.increment(),
                    Class::Keys => stats.quic_errors_keys.increment(),
                    Class::Idle => stats.quic_errors_idle.increment(),
                    Class::Acks => stats.quic_errors_acks.increment(),
                    Class::Rules => stats.quic_errors_rules.increment(),
                },
                Some(Closed::ByReset) => stats.quic_resets_heard.increment(),
                _ => {}
            }
            if let Some(client) = &self.client {
                client.note_closed();
            }
            drop(open);
        }
        state.connection.quic.is_over()
    }
}

/// Gives streams the pieces whose turn it is, as far as there is room.
fn feed(state: &mut State<Connection<Piece>>) {
    while let Some(frame) = state.connection.next_data() {
        let turn = Turn { stream: frame.stream, bytes: frame.bytes, left: frame.left };
        let mut pieces = Vec::new();
        state.take_pieces(turn, |chunk| pieces.push(chunk));
        for piece in pieces {
            state.connection.write(frame, Piece(piece));
        }
        state.connection.data_done(frame);
    }
}
