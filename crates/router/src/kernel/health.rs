//! Signs of life of apps: a thread for each looks, and the router tells the kernel.

use super::config::Health;
use super::interface::Interface;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(150);
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_millis(150);

/// The monotonic clock, in nanoseconds.
#[must_use]
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// When an app last gave a sign, in nanoseconds of the monotonic clock. Whoever has it is told; dropping it
/// ends the looking.
#[derive(Debug)]
pub(super) struct Sign(Arc<AtomicU64>);

impl Sign {
    /// Starts looking at an app behind these interfaces. One of which another took the place is not its
    /// own: the kernel has no way to it.
    #[must_use]
    pub(super) fn watch(health: Health, legs: Vec<Interface>) -> Self {
        let sign = Arc::new(AtomicU64::new(0));
        let told = Arc::downgrade(&sign);
        std::thread::spawn(move || {
            loop {
                let looked_ns = now_ns();
                let is_alive = is_alive(&health, &legs) && legs.iter().all(Interface::is_there);
                let Some(sign) = told.upgrade() else { return };
                if is_alive {
                    sign.store(looked_ns, Ordering::Relaxed);
                }
                drop(sign);
                std::thread::sleep(PAUSE);
            }
        });
        Self(sign)
    }

    /// When the app last gave a sign; 0 is never.
    #[must_use]
    pub(super) fn last_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn is_alive(health: &Health, legs: &[Interface]) -> bool {
    match health {
        Health::Carrier => legs.iter().all(Interface::has_carrier),
        Health::Tcp(address) => TcpStream::connect_timeout(address, PATIENCE).is_ok(),
    }
}
