//! Work that is done while nobody else wants the processor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that takes hardly any time from others. Ends when dropped.
#[derive(Debug)]
pub struct Idle {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Idle {
    /// Takes `step` after step, each after the pause that the one before said, until one says that there is nothing
    /// more to do.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(
        name: &str,
        mut step: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> io::Result<Self> {
        let is_over = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&is_over);
        let thread = Builder::new().name(name.into()).spawn(move || {
            // Of the thread, in Linux, and not of the process. Without it, it only is less polite.
            let _ = rustix::process::setpriority_process(None, 19);
            while !ended.load(Relaxed) {
                match step() {
                    Some(Duration::ZERO) => {}
                    Some(pause) => std::thread::park_timeout(pause),
                    None => return,
                }
            }
        })?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
