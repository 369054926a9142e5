//! The last word of a worker that ends. Of a process that is gone the kernel closes connections over TCP; to clients of
//! a port over UDP nobody says anything, and they wait for as long as they think the way is slow.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a worker that ends waits for its word to be said: as many connections as it may have take less.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// Connections of a worker that are to be told of its end.
#[derive(Debug, Default)]
pub struct Farewell {
    is_due: Cell<bool>,
    due: Notify,
    /// Those that were not told yet.
    untold: Cell<usize>,
    all_told: Notify,
}

/// A connection's part in it, until it has told its client, or is closed.
#[derive(Debug)]
pub struct Part(Rc<Farewell>);

impl Farewell {
    /// Has the end of the worker wait for this connection.
    pub fn part(self: &Rc<Self>) -> Part {
        self.untold.set(self.untold.get() + 1);
        Part(Rc::clone(self))
    }

    /// Waits until the word is to be said.
    pub async fn due(&self) {
        let told = self.due.notified();
        if !self.is_due.get() {
            told.await;
        }
    }

    /// Has all connections say it, and waits until they have.
    pub async fn say(&self) {
        self.is_due.set(true);
        self.due.notify_waiters();
        let all = async {
            while self.untold.get() > 0 {
                self.all_told.notified().await;
            }
        };
        let _ = timeout(FAREWELL_MAX, all).await;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let left = self.0.untold.get() - 1;
        self.0.untold.set(left);
        if left == 0 {
            self.0.all_told.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn the_end_waits_for_those_that_say_it_and_for_none_too_long() {
        let farewell = Rc::new(Farewell::default());
        let began = Instant::now();
        farewell.say().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "there is nobody");
        let (quick, slow) = (farewell.part(), farewell.part());
        let says = async {
            farewell.due().await;
            drop(quick);
        };
        tokio::join!(says, farewell.say());
        assert_eq!(began.elapsed(), FAREWELL_MAX);
        drop(slow);
        farewell.say().await;
        assert_eq!(began.elapsed(), FAREWELL_MAX);
    }
}
