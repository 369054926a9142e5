//! Metrics, sent to a collector as often as the configuration says.

use crate::background::Background;
use crate::collector::Collector;
use freshet_base::clock::UnixMillis;
use freshet_config::traces::Tracing;
use tokio::sync::oneshot::{Sender, channel};

/// Who sends a node's metrics, until [`Exporter::stop`].
#[derive(Debug)]
pub struct Exporter(Background<Sender<()>>);

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
        let (stop, stopped) = channel();
        let (every, began) = (settings.metrics, UnixMillis::now());
        let work = move || collector.tell(every, began, stopped, text);
        Background::start("metrics", stop, work).map(Self)
    }

    /// Sends how things stand once more, and ends.
    pub fn stop(&self) {
        self.0.stop();
    }
}
