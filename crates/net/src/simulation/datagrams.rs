//! Datagrams in memory: each takes its own time, so that they overtake one another, and some never arrive.

use super::Network;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Datagrams that wait at a port, or are under way to it, before more of them are lost.
const WAITING_MAX: usize = 4096;

/// A bound port. Several may share an address: which of them a datagram comes to is up to who sent it.
#[derive(Debug)]
pub struct Datagrams {
    network: Network,
    local: SocketAddr,
    /// How far this end is from all others.
    delay: Duration,
    inbox: Arc<Inbox>,
}

/// What is for a port.
#[derive(Debug, Default)]
pub(super) struct Inbox(Mutex<Arrivals>);

#[derive(Debug, Default)]
struct Arrivals {
    /// By the time of arrival, and in the order in which they were sent where that is the same.
    waiting: BTreeMap<(Instant, u64), Datagram>,
    sent: u64,
    reader: Option<Waker>,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Datagram {
    from: SocketAddr,
    bytes: Vec<u8>,
}

impl Network {
    /// Binds a port for datagrams, one of its own choice where that is 0.
    ///
    /// # Errors
    /// Never; it is what binding has.
    pub fn bind(&self, address: SocketAddr) -> io::Result<Datagrams> {
        let port = if address.port() == 0 { self.port() } else { address.port() };
        let local = SocketAddr::new(address.ip(), port);
        let delay = self.delay();
        let inbox = Arc::<Inbox>::default();
        let ports = &mut self.lock().datagrams;
        ports.entry(local).or_default().push(Arc::downgrade(&inbox));
        Ok(Datagrams { network: self.clone(), local, delay, inbox })
    }

    /// Who hears what `from` sends to an address, and how much later than usual; none where it is lost.
    fn way(&self, from: SocketAddr, to: SocketAddr, bytes: usize) -> Option<(Arc<Inbox>, u32)> {
        let mut state = self.lock();
        let ports = state.datagrams.get_mut(&to)?;
        ports.retain(|port| port.strong_count() > 0);
        // A kernel that does not know whose they are spreads them by who sends them.
        let index = usize::from(from.port()) % ports.len().max(1);
        let inbox = ports.get(index).and_then(Weak::upgrade)?;
        let is_lost = state.below(1000) < state.weather.losses_permille;
        let later = if state.below(32) == 0 { 3 } else { 1 };
        (!is_lost && bytes <= state.weather.datagram_bytes_max).then_some((inbox, later))
    }
}

impl Datagrams {
    /// Where it is bound.
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Sends a datagram, which may be lost.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) {
        let Some((inbox, later)) = self.network.way(self.local, to, bytes.len()) else { return };
        let mut arrivals = inbox.lock();
        if arrivals.waiting.len() >= WAITING_MAX {
            return;
        }
        arrivals.sent += 1;
        let at = (Instant::now() + self.delay * later, arrivals.sent);
        arrivals.waiting.insert(at, Datagram { from: self.local, bytes: bytes.to_vec() });
        let reader = arrivals.reader.take();
        drop(arrivals);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The next datagram that has arrived: who sent it, and how many bytes of `into` it takes.
    pub fn poll_receive(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<(SocketAddr, usize)> {
        let mut arrivals = self.inbox.lock();
        let now = Instant::now();
        if let Some(first) = arrivals.waiting.first_entry()
            && first.key().0 <= now
        {
            let Datagram { from, bytes } = first.remove();
            let count = bytes.len().min(into.len());
            into[..count].copy_from_slice(&bytes[..count]);
            return Poll::Ready((from, count));
        }
        arrivals.reader = Some(cx.waker().clone());
        let Some((at, _)) = arrivals.waiting.first_key_value().map(|(at, _)| *at) else {
            return Poll::Pending;
        };
        let timer = arrivals.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        timer.as_mut().reset(at);
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
