//! Simulated viewers: players of HLS and DASH that read the manifests they are given, fetch pictures and
//! sound in real time over HTTP/1.1 keep-alive connections, and measure what they see.
//!
//! Each viewer has one connection and fetches one thing after the other, as a player with a full
//! buffer does. Of low-latency HLS it plays parts, each as soon as it is there. It may change the bit rate as the
//! throughput changes. It decodes nothing. What it measures is in [`Figures`].

mod adaptive;
mod boxes;
mod client;
mod dash;
mod low_latency;
mod meter;
mod player;
mod source;
mod uri;
mod words;

pub use meter::{Errors, Figures, Latency, Times};

use crate::manifest::{MANIFEST, MASTER};
use crate::origin;
use crate::programme::{Kind, Programme};
use freshet_load::error::{LabError, require};
use freshet_net::address::Address;
use meter::Meter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Viewers at most, for all threads together: each is a connection, and a port has some 28,000 to one
/// address.
const VIEWERS_MAX: usize = 1_000_000;

/// Threads at most.
const THREADS_MAX: usize = 256;

/// Where viewers go.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where to connect.
    pub address: Address,
    /// What requests say in `Host`.
    pub authority: String,
    /// TLS, or clear text without it.
    pub tls: Option<Tls>,
}

/// How viewers speak TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Versions, authorities, and ALPN, which must not offer anything but `http/1.1`.
    pub config: Arc<rustls::ClientConfig>,
    /// The name to ask for and to check.
    pub server_name: String,
}

impl Target {
    /// A clear-text target that is called by its address.
    pub fn clear(address: SocketAddr) -> Self {
        Self { address: Address::Tcp(address), authority: address.to_string(), tls: None }
    }
}

/// The two streaming formats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// HTTP Live Streaming, RFC 8216.
    Hls,
    /// Dynamic Adaptive Streaming over HTTP, ISO/IEC 23009-1.
    Dash,
}

/// A programme in one format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Viewing {
    /// The path of its manifest.
    pub path: String,
    /// The format of that manifest.
    pub format: Format,
}

impl Viewing {
    /// `programme` of a laboratory origin in `format`.
    pub fn of(programme: Programme, format: Format) -> Self {
        let manifest = match format {
            Format::Hls => MASTER,
            Format::Dash => MANIFEST,
        };
        Self { path: format!("/{programme}/{manifest}"), format }
    }

    /// All programmes of a laboratory origin in both formats; `kind` leaves out the others.
    pub fn all(origin: &origin::Settings, kind: Option<Kind>) -> Vec<Self> {
        origin
            .programmes()
            .filter(|programme| kind.is_none_or(|kind| kind == programme.kind))
            .flat_map(|programme| [Format::Hls, Format::Dash].map(|f| Self::of(programme, f)))
            .collect()
    }
}

/// Which quality viewers choose.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Quality {
    /// Each viewer another one, evenly.
    #[default]
    Any,
    /// The one of the lowest bit rate.
    Lowest,
    /// The one of the highest bit rate.
    Highest,
    /// The one that the throughput allows, chosen anew for each segment.
    Adaptive,
}

/// How fast viewers fetch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Pace {
    /// As players do: up to the size of the buffer ahead of the playback.
    #[default]
    RealTime,
    /// As fast as responses come, to find a limit. A channel still has a segment at a time.
    Unbounded,
}

/// A group of viewers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they go.
    pub target: Target,
    /// What they watch: each viewer picks evenly, so a programme that is listed twice is twice as popular.
    pub audience: Vec<Viewing>,
    /// How many they are, 1 to 1,000,000.
    pub viewers: usize,
    /// They begin evenly over this time.
    pub ramp: Duration,
    /// The quality they choose.
    pub quality: Quality,
    /// How fast they fetch.
    pub pace: Pace,
    /// Segments they keep ahead of the playback.
    pub buffer_segments: u32,
    /// How long they stay with a programme, from half of this to half as much again; to its end without.
    pub stay: Option<Duration>,
    /// Whether they say how they are doing with their requests (CMCD).
    pub says: bool,
    /// Threads that share them, 1 to 256.
    pub threads: usize,
    /// What their choices follow from; the same seed makes the same choices.
    pub seed: u64,
}

impl Settings {
    /// `viewers` viewers of `audience` at `target`, on one thread, without a ramp, with a buffer of three
    /// segments.
    pub fn new(target: Target, audience: Vec<Viewing>, viewers: usize) -> Self {
        Self {
            target,
            audience,
            viewers,
            ramp: Duration::ZERO,
            quality: Quality::default(),
            pace: Pace::default(),
            buffer_segments: 3,
            stay: None,
            says: false,
            threads: 1,
            seed: 1,
        }
    }
}

/// Viewers at work, on threads of their own. Dropping it stops them.
#[derive(Debug)]
pub struct Viewers {
    meter: Arc<Meter>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Viewers {
    /// Starts them.
    ///
    /// # Errors
    /// [`LabError`] when a setting is out of bounds or no thread can be had.
    pub fn start(settings: Settings) -> Result<Self, LabError> {
        let (viewers, threads) = (settings.viewers, settings.threads);
        require((1..=VIEWERS_MAX).contains(&viewers), "viewers", viewers, "1 to 1000000")?;
        require((1..=THREADS_MAX).contains(&threads), "threads", threads, "1 to 256")?;
        require(!settings.audience.is_empty(), "audience", "empty", "at least one programme")?;
        let settings = Arc::new(settings);
        let meter = Arc::new(Meter::new());
        let (stop, stopped) = watch::channel(false);
        let mut started = Self { meter: meter.clone(), stop, threads: Vec::new() };
        for thread in 0..threads {
            let no_thread = |error: std::io::Error| LabError::LocalThread(error.kind());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(no_thread)?;
            let numbers = (thread..viewers).step_by(threads);
            let group = run(settings.clone(), numbers, meter.clone(), stopped.clone());
            let handle = std::thread::Builder::new()
                .name(format!("lab-viewers-{thread}"))
                .spawn(move || runtime.block_on(group))
                .map_err(no_thread)?;
            started.threads.push(handle);
        }
        Ok(started)
    }

    /// Stops them in the middle of what they do and returns the last figures.
    pub fn stop(mut self) -> Figures {
        let figures = self.figures();
        self.join();
        figures
    }

    /// What they did so far.
    pub fn figures(&self) -> Figures {
        self.meter.figures()
    }

    /// The times to first bytes since the last call of this.
    pub fn take_interval(&self) -> Times {
        self.meter.take_interval()
    }

    fn join(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of viewers ended in a panic");
            }
        }
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        self.join();
    }
}

/// Runs some of the viewers until the word to stop.
async fn run(
    settings: Arc<Settings>,
    numbers: impl Iterator<Item = usize>,
    meter: Arc<Meter>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    for number in numbers {
        tasks.spawn(player::watch(settings.clone(), number as u64, meter.clone()));
    }
    drop(stopped.wait_for(|stopped| *stopped).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_bounds_are_named() {
        let refused = |change: fn(&mut Settings)| {
            let target = Target::clear(SocketAddr::from(([127, 0, 0, 1], 9)));
            let audience = Viewing::all(&origin::Settings::default(), None);
            let mut settings = Settings::new(target, audience, 1);
            change(&mut settings);
            match Viewers::start(settings).map(Viewers::stop) {
                Err(LabError::ConfigSetting { setting, .. }) => setting,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|s| s.viewers = 0), "viewers");
        assert_eq!(refused(|s| s.threads = 0), "threads");
        assert_eq!(refused(|s| s.audience.clear()), "audience");
    }

    #[test]
    fn an_audience_may_be_of_one_kind() {
        let origin = origin::Settings::default();
        assert_eq!(Viewing::all(&origin, None).len(), 32);
        let live = Viewing::all(&origin, Some(Kind::Live));
        assert_eq!(live.len(), 8);
        assert_eq!(live[1].path, "/channel-1/manifest.mpd");
    }
}
