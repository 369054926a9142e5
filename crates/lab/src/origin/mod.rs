//! The synthetic origin: live channels, titles on demand and large files over HTTP/1.1.
//!
//! | path | what |
//! |---|---|
//! | `/` | a page that plays and links all of this |
//! | `/figures` | what [`Origin::tell`] was told last, as server-sent events |
//! | `/channel-1/master.m3u8`, `/channel-1/manifest.mpd` | a channel in HLS and DASH; titles are `/vod-1/…` |
//! | `/channel-1/variant01/hlsha/405KB/playlist.m3u8` | the media playlist of a rung |
//! | `/channel-1/variant01/hlsha/405KB/init.mp4` | its track header |
//! | `/channel-1/variant01/hlsha/405KB/9912345` | a segment, with or without `.m4s` |
//! | `/channel-1/variant01/hlsha/405KB/9912345.0.m4s` | with [`Settings::part`]: a part of it |
//! | `/download/100MB/NAME` | a file of that size, another one for each name |
//! | `/…/variant01/hlsha/405KB/NUMBER` | with [`Settings::any_channel`]: bytes of that object's size |
//! | `/time` | the time, for players that ask |
//!
//! Responses carry `Cache-Control`, `ETag`, `Last-Modified` and `Surrogate-Key`; ranges, `HEAD` and
//! conditional requests are answered as RFC 9110 says. Playlists of channels may be kept for a second,
//! all else for as long as it is true. With [`Settings::part`] channels have low latency: playlists with
//! directives and the part they hint at are held back until they are there, and a segment that is being
//! made is sent chunk by chunk.

mod catalogue;
mod growth;
mod page;
mod respond;
mod server;

use crate::media::PICTURE_MS;
use crate::programme::{Kind, Programme, Schedule};
use freshet_base::counter::SharedCounter;
use freshet_load::error::{LabError, require};
use freshet_load::measurement::OriginFigures;
use freshet_load::observe::CountingOrigin;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Channels and titles at most: their numbers fit the pictures.
const PROGRAMMES_MAX: u32 = 99_999;

/// The longest segment: the media of 30 s still fit the smallest rung.
const SEGMENT_MAX: Duration = Duration::from_secs(30);

/// Segments of a window or a title at most; bounds the size of a playlist to some 200 KB.
const LISTED_SEGMENTS_MAX: u64 = 5000;

/// What an origin offers. The default is the live-linear study's: segments of 6 s, a window of
/// 6 minutes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Live channels, numbered from 1.
    pub channels: u32,
    /// Titles on demand, numbered from 1.
    pub titles: u32,
    /// Length of a segment: a multiple of 40 ms (a picture), at most 30 s.
    pub segment: Duration,
    /// Length of the parts of a channel's segments: a multiple of 40 ms that divides a segment. Channels
    /// have low latency with it.
    pub part: Option<Duration>,
    /// How much of a channel its playlists list, rounded up to whole segments.
    pub window: Duration,
    /// Length of each title, rounded up to whole segments.
    pub title: Duration,
    /// Whether every path that ends as one of the eleven objects does names a segment, whatever
    /// stands before it: bytes of the right size that never change, for loads that ask for more
    /// channels than there are.
    pub any_channel: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            channels: 4,
            titles: 12,
            segment: Duration::from_secs(6),
            part: None,
            window: Duration::from_secs(360),
            title: Duration::from_secs(600),
            any_channel: false,
        }
    }
}

impl Settings {
    /// All programmes, channels first.
    pub fn programmes(&self) -> impl Iterator<Item = Programme> + use<> {
        let live = (1..=self.channels).map(|number| Programme { kind: Kind::Live, number });
        let titles = (1..=self.titles).map(|number| Programme { kind: Kind::OnDemand, number });
        live.chain(titles)
    }

    /// The times that follow from these settings.
    ///
    /// # Errors
    /// [`LabError::ConfigSetting`] names the setting that is out of bounds.
    pub fn schedule(&self) -> Result<Schedule, LabError> {
        let segment_ms = u64::try_from(self.segment.as_millis()).unwrap_or(u64::MAX);
        require(
            segment_ms > 0 && segment_ms.is_multiple_of(PICTURE_MS) && self.segment <= SEGMENT_MAX,
            "segment",
            format_args!("{:?}", self.segment),
            "a multiple of 40 ms, at most 30 s",
        )?;
        let part_ms = self.part.map(|part| u64::try_from(part.as_millis()).unwrap_or(u64::MAX));
        let divides = |part_ms: u64| {
            part_ms > 0 && part_ms.is_multiple_of(PICTURE_MS) && segment_ms.is_multiple_of(part_ms)
        };
        require(
            part_ms.is_none_or(divides),
            "part",
            format_args!("{:?}", self.part.unwrap_or_default()),
            "a multiple of 40 ms that divides a segment",
        )?;
        let segments = |setting: &'static str, span: Duration| {
            let count = span.as_millis().div_ceil(u128::from(segment_ms));
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            require(
                (1..=LISTED_SEGMENTS_MAX).contains(&count),
                setting,
                format_args!("{count} segments"),
                "1 to 5000 segments",
            )?;
            Ok(count)
        };
        let (channels, titles) = (self.channels, self.titles);
        require(channels <= PROGRAMMES_MAX, "channels", channels, "at most 99999")?;
        require(titles <= PROGRAMMES_MAX, "titles", titles, "at most 99999")?;
        Ok(Schedule {
            segment_ms,
            part_ms,
            window_segments: segments("window", self.window)?,
            title_segments: segments("title", self.title)?,
        })
    }
}

/// What an origin did so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered, with any status.
    pub requests: u64,
    /// Of these, answers of 4xx and 5xx.
    pub refused: u64,
    /// Of these, answers of 304.
    pub not_modified: u64,
    /// Of these, for what is new of low latency: parts, versions of playlists, segments that are made.
    pub news: u64,
    /// Of these, for what had been asked for before: a cache in front that asks for each once has none.
    pub news_again: u64,
    /// Bytes of bodies handed to connections.
    pub body_bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    connections: SharedCounter,
    requests: SharedCounter,
    refused: SharedCounter,
    not_modified: SharedCounter,
    news: SharedCounter,
    news_again: SharedCounter,
    body_bytes: SharedCounter,
}

/// A running origin, on a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    state: Arc<respond::State>,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Origin {
    /// Listens and begins to serve; connections are accepted from here on.
    ///
    /// # Errors
    /// [`LabError`] when a setting is out of bounds, the address is taken, or no thread can be had.
    pub fn start(settings: Settings) -> Result<Self, LabError> {
        let listen = settings.listen;
        let refused =
            |error: std::io::Error| LabError::LocalBind { address: listen, kind: error.kind() };
        let state = Arc::new(respond::State::new(settings)?);
        let listener = std::net::TcpListener::bind(listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (counters, kept) = (state.counters.clone(), state.clone());
        let (stop, stopped) = watch::channel(false);
        let no_thread = |error: std::io::Error| LabError::LocalThread(error.kind());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(refused)?
        };
        let thread = std::thread::Builder::new()
            .name("lab-origin".into())
            .spawn(move || runtime.block_on(server::run(listener, state, stopped)))
            .map_err(no_thread)?;
        Ok(Self { address, state: kept, counters, stop, thread: Some(thread) })
    }

    /// Stops: no more connections are accepted, answers under way are finished, for two seconds at most.
    /// Blocks for that long; returns the last totals.
    pub fn stop(mut self) -> Totals {
        self.join();
        self.totals()
    }

    /// The address it listens on, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it serves at paths that always have the same content: files, and segments of titles.
    /// Whoever has it can tell right bytes from wrong ones.
    pub fn known_content(&self) -> Arc<freshet_load::KnownContent> {
        let state = Arc::clone(&self.state);
        Arc::new(move |path| state.content_of(path))
    }

    /// Tells whoever looks at the page what goes on, in JSON without line breaks.
    pub fn tell(&self, figures: &str) {
        self.state.figures.send_replace(format!("data: {figures}\n\n").into());
    }

    /// What it did so far.
    pub fn totals(&self) -> Totals {
        Totals {
            connections: self.counters.connections.value(),
            requests: self.counters.requests.value(),
            refused: self.counters.refused.value(),
            not_modified: self.counters.not_modified.value(),
            news: self.counters.news.value(),
            news_again: self.counters.news_again.value(),
            body_bytes: self.counters.body_bytes.value(),
        }
    }

    fn join(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the laboratory's origin ended in a panic");
        }
    }
}

impl CountingOrigin for Origin {
    fn figures(&self) -> OriginFigures {
        let totals = self.totals();
        OriginFigures { requests: totals.requests, body_bytes: totals.body_bytes }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_bounds_are_named() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            match Origin::start(settings).map(Origin::stop) {
                Err(LabError::ConfigSetting { setting, .. }) => setting,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|s| s.segment = Duration::ZERO), "segment");
        assert_eq!(refused(|s| s.segment = Duration::from_millis(1001)), "segment");
        assert_eq!(refused(|s| s.segment = Duration::from_secs(31)), "segment");
        for part_ms in [0, 41, 4000, 12_000] {
            let part = Some(Duration::from_millis(part_ms));
            let settings = Settings { part, ..Settings::default() };
            let refused = settings.schedule().unwrap_err();
            assert!(matches!(refused, LabError::ConfigSetting { setting: "part", .. }));
        }
        assert_eq!(refused(|s| s.window = Duration::ZERO), "window");
        assert_eq!(refused(|s| s.title = Duration::MAX), "title");
        assert_eq!(refused(|s| s.channels = 100_000), "channels");
    }

    #[test]
    fn a_taken_address_is_named() {
        let origin = Origin::start(Settings::default()).unwrap();
        let listen = origin.address();
        let error = Origin::start(Settings { listen, ..Settings::default() }).map(|_| ());
        let kind = std::io::ErrorKind::AddrInUse;
        assert_eq!(error, Err(LabError::LocalBind { address: listen, kind }));
    }

    #[test]
    fn who_asks_for_figures_before_there_are_any_gets_the_first() {
        use std::io::{BufRead, BufReader, Write};
        let origin = Origin::start(Settings::default()).unwrap();
        let mut client = std::net::TcpStream::connect(origin.address()).unwrap();
        client.write_all(b"GET /figures HTTP/1.1\r\nHost: page\r\n\r\n").unwrap();
        let mut lines = BufReader::new(client).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
        origin.tell("{}");
        assert!(lines.any(|line| line == "data: {}"));
    }

    #[test]
    fn the_default_is_the_window_of_the_study() {
        let schedule = Settings::default().schedule().unwrap();
        assert_eq!((schedule.segment_ms, schedule.window_segments), (6000, 60));
        assert_eq!(Settings::default().programmes().count(), 16);
    }
}
