//! Metrics, sent to a collector as often as the configuration says.

use crate::collector::Collector;
use freshet_base::clock::UnixMillis;
use freshet_config::traces::Tracing;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot::{Sender, channel};

/// Who sends a node's metrics, until [`Exporter::stop`].
#[derive(Debug)]
pub struct Exporter(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Exporter {
    /// Begins to send what `text` says, in the text form of metrics, every [`Tracing::metrics`].
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(
        settings: &Tracing,
        collector: Collector,
        text: impl Fn() -> Option<String> + Send + 'static,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = channel();
        let (every, began) = (settings.metrics, UnixMillis::now());
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            runtime.block_on(collector.tell(every, began, stopped, text));
        })?;
        Ok(Self(Mutex::new(Some((stop, thread)))))
    }

    /// Sends how things stand once more, and ends.
    pub fn stop(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = running {
            drop(stop);
            let _ = thread.join();
        }
    }
}
