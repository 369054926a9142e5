//! A network in memory, for worlds whose time is virtual: what [`Listener`](crate::listener::Listener),
//! [`Socket`](crate::socket::Socket) and [`UdpPort`](crate::quic::port::UdpPort) are made of on a thread that runs one.
//!
//! Every byte takes a while to arrive, comes in pieces that no sender chose, and sometimes not at all:
//! all by the seed. Without the feature `simulation` none of this is there.

mod datagrams;
mod pipe;
mod queue;

pub use datagrams::Datagrams;
pub(crate) use pipe::End;
pub(crate) use queue::Queue;

use crate::address::Address;
use crate::error::NetError;
use crate::socket::Socket;
use datagrams::Inbox;
use freshet_base::splitmix::next;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{sleep, timeout};

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// What a network does to what is sent.
#[derive(Clone, Debug)]
pub struct Weather {
    /// How long bytes are under way, in microseconds; each connection has its own time.
    pub delay_us: Range<u64>,
    /// How many bytes are taken at once at most; each connection has its own number.
    pub piece_bytes: Range<usize>,
    /// Of a thousand connections so many are reset before they would have ended.
    pub resets_permille: u64,
    /// After how many bytes in one direction.
    pub reset_after_bytes: Range<u64>,
    /// Of a thousand datagrams so many are lost.
    pub losses_permille: u64,
    /// Longer ones never arrive.
    pub datagram_bytes_max: usize,
}

/// A network. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Network(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: u64,
    weather: Weather,
    listeners: BTreeMap<SocketAddr, Arc<Queue>>,
    datagrams: BTreeMap<SocketAddr, Vec<Weak<Inbox>>>,
    next_port: u16,
}

/// A thread's network, until it is dropped.
#[derive(Debug)]
pub struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        NETWORK.take();
    }
}

impl Network {
    /// A network in which all goes as `seed` says.
    pub fn new(seed: u64, weather: Weather) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: seed,
            weather,
            listeners: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            next_port: 32_768,
        })))
    }

    /// Has this thread's sockets in this network.
    #[must_use]
    pub fn install(&self) -> Installed {
        NETWORK.set(Some(self.clone()));
        Installed(())
    }

    /// That of this thread, where it has one.
    pub(crate) fn current() -> Option<Self> {
        NETWORK.with_borrow(Clone::clone)
    }

    /// Connects from an IP address within `limit`.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub async fn connect(
        &self,
        from: IpAddr,
        to: &Address,
        limit: Duration,
    ) -> Result<Socket, NetError> {
        let failed = |kind: io::ErrorKind| NetError::connect(to, &kind.into());
        let Address::Tcp(address) = to else { return Err(failed(io::ErrorKind::NotFound)) };
        let connecting = async {
            let delay = self.delay();
            sleep(2 * delay).await;
            let queue = self.lock().listeners.get(address).cloned();
            let queue = queue.ok_or_else(|| failed(io::ErrorKind::ConnectionRefused))?;
            let (near, far) = self.connection(SocketAddr::new(from, self.port()), *address, delay);
            queue.push(far);
            Ok(Socket::simulated(near))
        };
        let expired = |_| NetError::OriginConnectTimeout { address: to.clone() };
        timeout(limit, connecting).await.map_err(expired)?
    }

    /// Listens, on a port of its own choice where that is 0.
    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<(SocketAddr, Arc<Queue>)> {
        let port = if address.port() == 0 { self.port() } else { address.port() };
        let address = SocketAddr::new(address.ip(), port);
        let queue = Arc::new(Queue::default());
        let listeners = &mut self.lock().listeners;
        if listeners.get(&address).is_some_and(|queue| Arc::strong_count(queue) > 1) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        listeners.insert(address, Arc::clone(&queue));
        Ok((address, queue))
    }

    /// Ends what nobody listens to any more.
    pub(crate) fn close(&self, address: SocketAddr, queue: &Arc<Queue>) {
        let listeners = &mut self.lock().listeners;
        // This table's and the one that is being dropped.
        let is_last = Arc::strong_count(queue) == 2;
        if is_last && listeners.get(&address).is_some_and(|other| Arc::ptr_eq(other, queue)) {
            listeners.remove(&address);
        }
    }

    fn connection(&self, near: SocketAddr, far: SocketAddr, delay: Duration) -> (End, End) {
        let mut state = self.lock();
        let weather = state.weather.clone();
        let is_reset = state.below(1000) < weather.resets_permille;
        let mut conditions = || pipe::Conditions {
            delay,
            piece_bytes: state
                .within(&(weather.piece_bytes.start as u64..weather.piece_bytes.end as u64))
                as usize,
            reset_after: is_reset.then(|| state.within(&weather.reset_after_bytes)),
            seed: state.next(),
        };
        pipe::pair((near, far), (conditions(), conditions()))
    }

    fn delay(&self) -> Duration {
        let mut state = self.lock();
        let range = state.weather.delay_us.clone();
        Duration::from_micros(state.within(&range))
    }

    fn port(&self) -> u16 {
        let mut state = self.lock();
        state.next_port = state.next_port.checked_add(1).unwrap_or(32_768);
        state.next_port
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> u64 {
        next(&mut self.random)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn within(&mut self, range: &Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }
}

/// A descriptor for who asks for one: of no socket, so that each call on it says so.
pub(crate) fn no_socket() -> BorrowedFd<'static> {
    static NOTHING: OnceLock<OwnedFd> = OnceLock::new();
    let open = || std::fs::File::open("/dev/null").expect("every Linux has it").into();
    NOTHING.get_or_init(open).as_fd()
}
