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

/// When each app last gave a sign, in nanoseconds of the monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct Signs(Arc<[AtomicU64]>);

/// The monotonic clock, in nanoseconds.
#[must_use]
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Signs {
    /// Starts looking. The threads end with the process.
    #[must_use]
    pub(super) fn watch(health: &[Health], interfaces: &[Vec<String>]) -> Self {
        let signs = Self(health.iter().map(|_| AtomicU64::new(0)).collect());
        for (number, (health, interfaces)) in health.iter().zip(interfaces).enumerate() {
            let (signs, health, interfaces) = (signs.clone(), health.clone(), interfaces.clone());
            std::thread::spawn(move || {
                loop {
                    let looked_ns = now_ns();
                    if is_alive(&health, &interfaces) {
                        signs.0[number].store(looked_ns, Ordering::Relaxed);
                    }
                    std::thread::sleep(PAUSE);
                }
            });
        }
        signs
    }

    /// When the app last gave a sign; 0 is never.
    #[must_use]
    pub(super) fn last_ns(&self, app: usize) -> u64 {
        self.0[app].load(Ordering::Relaxed)
    }
}

fn is_alive(health: &Health, interfaces: &[String]) -> bool {
    match health {
        Health::Carrier => interfaces.iter().all(|name| Interface::has_carrier(name)),
        Health::Tcp(address) => TcpStream::connect_timeout(address, PATIENCE).is_ok(),
    }
}
