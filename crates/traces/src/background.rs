//! A thread with a runtime of its own, until it is stopped.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Work in a thread, with the sender by which it hears of more. It ends when that is gone.
#[derive(Debug)]
pub(crate) struct Background<S>(Mutex<Option<(S, JoinHandle<()>)>>);

impl<S> Background<S> {
    /// Begins the work.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start<W: Future<Output = ()>>(
        name: &str,
        sender: S,
        work: impl FnOnce() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread =
            thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work()))?;
        Ok(Self(Mutex::new(Some((sender, thread)))))
    }

    /// Work that has ended before it began.
    #[cfg(test)]
    pub(crate) const fn ended() -> Self {
        Self(Mutex::new(None))
    }

    /// What comes of the sender; nothing once the work was stopped.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&S) -> R) -> Option<R> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|(sender, _)| act(sender))
    }

    /// Lets it end, and waits for that.
    pub(crate) fn stop(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = running {
            drop(sender);
            let _ = thread.join();
        }
    }
}
