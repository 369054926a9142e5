//! `freshet lab`: the methods of published studies against any server.

mod common;
#[cfg(feature = "router")]
mod forwarding;
mod http3;
mod position;
mod progress;

use crate::form::FormArguments;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use common::{Common, Output, bytes, span};
use freshet_lab::origin::{self, Origin};
use freshet_lab::scenario::{
    Moment, Outcome, Setup, channels, compare, connections, custom::Custom, energy, imdb, library,
    object_path, players, sweep,
};
use freshet_lab::viewers::{Format, Quality, Viewing};
use progress::Line;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code of a scenario whose indicators are not all met, or that was cut short.
const NOT_MET: u8 = 2;

/// How long each load of `freshet lab energy` lasts, and how long the idle server is watched at most, if nothing is
/// said.
const ENERGY_LOAD: Duration = Duration::from_secs(60);
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Flags of `freshet lab`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// Video on demand: all in the cache, at 256, 512 and 4,096 connections.
    Vod(Vod),
    /// Live-linear video: a data set of which 93.3 % fit the cache.
    LiveLinear(LiveLinear),
    /// Live channels: how many hold, with users of known and unknown ones.
    Channels(Channels),
    /// Sizes of objects from 100 KB to 50 MB.
    Sweep(Sweep),
    /// Connections, more and more until response times degrade.
    Connections(Connections),
    /// Power when idle and at low, typical and high load.
    Energy(Energy),
    /// Players of HLS and DASH: start-up, stalls, bit rates.
    Players(Players),
    /// In-memory databases: many Redis servers, started here.
    Imdb(Imdb),
    #[cfg(feature = "router")]
    /// Packets a second through the edge router without loss.
    Forwarding(forwarding::Forwarding),
    /// A load over HTTP/3.
    Http3(http3::Http3),
    /// Positions of clients in a made-up mobile network, and false ones.
    Position(position::Position),
    /// A scenario of your own, from a TOML file.
    Run(Run),
    /// Two results beside each other.
    Compare(Compare),
    /// The lab's origin alone, for a cache to point at.
    Origin(OriginArguments),
}

/// `freshet lab vod`
#[derive(Args)]
struct Vod {
    #[command(flatten)]
    common: Common,
    /// Objects in the data set.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    objects: u64,
    #[command(flatten)]
    asked: Library,
}

/// `freshet lab live-linear`
#[derive(Args)]
struct LiveLinear {
    #[command(flatten)]
    common: Common,
    /// Bytes of objects that the cache under test can hold.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    cache: u64,
    /// Share of the data set that fits.
    #[arg(long, value_name = "SHARE", default_value_t = library::LIVE_SHARE)]
    share: f64,
    #[command(flatten)]
    asked: Library,
}

/// What both have.
#[derive(Args)]
struct Library {
    /// Size of an object.
    #[arg(long, value_name = "SIZE", default_value = "1MB", value_parser = bytes)]
    object: u64,
    /// Path of an object, where the origin is not the lab's; its number stands for n in braces.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Numbers of connections; from 4096 on they pause for 115 to 120 ms.
    #[arg(long, value_name = "N,N...", value_delimiter = ',', default_value = "256,512,4096")]
    connections: Vec<usize>,
    /// Runs of each.
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,
}

/// `freshet lab channels`
#[derive(Args)]
struct Channels {
    #[command(flatten)]
    common: Common,
    /// Numbers of channels.
    #[arg(long, value_name = "N,N...", value_delimiter = ',', default_value = "100,175,250")]
    channels: Vec<u64>,
    /// Segments of a channel.
    #[arg(long, value_name = "N", default_value_t = channels::SEGMENTS)]
    segments: u64,
    /// Users per second in the first step; each further one has as many more.
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    users: f64,
    /// Steps of the load, each as long as --duration says (the study: 4 minutes).
    #[arg(long, value_name = "N", default_value_t = 5)]
    steps: u32,
    /// Share of users that ask for known channels.
    #[arg(long, value_name = "SHARE", default_value_t = 0.85)]
    known: f64,
    /// Users at a time at most.
    #[arg(long, value_name = "N", default_value_t = 4000)]
    connections: usize,
    /// Bytes that the cache can hold, to show what the study's equation gives.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    cache: Option<u64>,
    /// Measure the given numbers only.
    #[arg(long)]
    no_search: bool,
}

/// `freshet lab sweep`
#[derive(Args)]
struct Sweep {
    #[command(flatten)]
    common: Common,
    /// Sizes of objects.
    #[arg(
        long,
        value_name = "SIZE,SIZE...",
        value_delimiter = ',',
        default_value = "100KB,500KB,1MB,10MB,16MB,50MB"
    )]
    sizes: Vec<String>,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 100)]
    connections: usize,
    /// Share of requests for objects that are in the cache.
    #[arg(long, value_name = "SHARE", default_value_t = 0.925)]
    hits: f64,
    /// Bytes of the known objects of each size.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = bytes)]
    set: u64,
    /// Path of an object, where the origin is not the lab's; its size and its number stand for size
    /// and n in braces.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
}

/// `freshet lab connections`
#[derive(Args)]
struct Connections {
    #[command(flatten)]
    common: Common,
    /// Connections to begin with.
    #[arg(long, value_name = "N", default_value_t = 16)]
    min: usize,
    /// Connections at most.
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    max: usize,
    /// How many times more each step has.
    #[arg(long, value_name = "X", default_value_t = 2.0)]
    factor: f64,
    /// How long the peak is held.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = span)]
    hold: Duration,
    /// Channels that are asked for.
    #[arg(long, value_name = "N", default_value_t = 10)]
    channels: u64,
    /// Segments of each.
    #[arg(long, value_name = "N", default_value_t = 4)]
    segments: u64,
}

/// `freshet lab energy`
#[derive(Args)]
struct Energy {
    #[command(flatten)]
    common: Common,
    /// Size of an object.
    #[arg(long, value_name = "SIZE", default_value = "1MB", value_parser = bytes)]
    object: u64,
    /// Path of an object, where the origin is not the lab's; its number stands for n in braces.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Objects in the data set.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    objects: u64,
    /// Connections.
    #[arg(long, value_name = "N", default_value_t = 192)]
    connections: usize,
    /// How long the idle server is watched; 30s, or as long as each load where that is shorter.
    #[arg(long, value_name = "TIME", value_parser = span)]
    idle: Option<Duration>,
}

/// `freshet lab players`
#[derive(Args)]
struct Players {
    #[command(flatten)]
    common: Common,
    /// Numbers of players, one after the other.
    #[arg(long, value_name = "N,N...", value_delimiter = ',', default_value = "10,50,100")]
    players: Vec<usize>,
    /// Live channels of the lab's origin that they watch.
    #[arg(long, value_name = "N", default_value_t = 4)]
    channels: u32,
    /// Titles of the lab's origin that they watch.
    #[arg(long, value_name = "N", default_value_t = 12)]
    titles: u32,
    /// Playlists or manifests to watch instead: paths that end in .m3u8 or .mpd.
    #[arg(long, value_name = "PATH,PATH...", value_delimiter = ',')]
    playlists: Vec<String>,
    /// They begin evenly over this time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    ramp: Duration,
    /// Segments they keep ahead.
    #[arg(long, value_name = "N", default_value_t = 3)]
    buffer: u32,
    /// Always the highest bit rate, instead of what the throughput allows.
    #[arg(long)]
    highest: bool,
    /// Always the lowest, for a crowd that is larger than the machine's network.
    #[arg(long, conflicts_with = "highest")]
    lowest: bool,
    /// How long they stay with a programme, half less to half more, before they take another.
    #[arg(long, value_name = "TIME", value_parser = span)]
    stay: Option<Duration>,
    /// Say how they are doing with each request (CMCD).
    #[arg(long)]
    cmcd: bool,
    #[command(flatten)]
    segments: Segments,
}

/// How the lab's origin cuts what it offers.
#[derive(Args)]
struct Segments {
    /// Length of a segment.
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = span)]
    segment: Duration,
    /// Length of its parts: channels have low latency with it.
    #[arg(long, value_name = "TIME", value_parser = span)]
    part: Option<Duration>,
}

impl Segments {
    fn of(self, mut settings: origin::Settings) -> origin::Settings {
        (settings.segment, settings.part) = (self.segment, self.part);
        settings
    }
}

/// `freshet lab imdb`
#[derive(Args)]
struct Imdb {
    /// Servers.
    #[arg(long, value_name = "N", default_value_t = 20)]
    servers: usize,
    /// Keys of each; the study has 210,000,000 of them on machines of 16 GB.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "SIZE", default_value = "1024B", value_parser = bytes)]
    value: u64,
    /// Operations in a pipeline.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pipeline: usize,
    /// Threads for each server.
    #[arg(long, value_name = "N", default_value_t = 3)]
    threads: usize,
    /// Connections of each thread.
    #[arg(long, value_name = "N", default_value_t = 3)]
    connections: usize,
    /// Processors to pin the servers to.
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    server_cpus: Vec<usize>,
    /// How long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    duration: Duration,
    /// Folder for the result and the report.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    form: FormArguments,
}

/// `freshet lab run`
#[derive(Args)]
struct Run {
    /// The file.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// `freshet lab compare`
#[derive(Args)]
struct Compare {
    /// A result, the earlier or the other's.
    #[arg(value_name = "A.json")]
    before: PathBuf,
    /// A result beside it.
    #[arg(value_name = "B.json")]
    after: PathBuf,
    /// Write a page as well.
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
}

/// `freshet lab origin`
#[derive(Args)]
struct OriginArguments {
    /// Where to listen.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    #[command(flatten)]
    segments: Segments,
}

/// Runs a scenario, writes its result and its report, and says what came out.
///
/// # Errors
/// Why it could not begin, or its result could not be written.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.scenario {
        Scenario::Vod(vod) => vod.run(),
        Scenario::LiveLinear(live) => live.run(),
        Scenario::Channels(channels) => channels.run(),
        Scenario::Sweep(sweep) => sweep.run(),
        Scenario::Connections(connections) => connections.run(),
        Scenario::Energy(energy) => energy.run(),
        Scenario::Players(players) => players.run(),
        Scenario::Imdb(imdb) => imdb.run(),
        #[cfg(feature = "router")]
        Scenario::Forwarding(forwarding) => forwarding.run(),
        Scenario::Http3(http3) => http3.run(),
        Scenario::Position(position) => position.run(),
        Scenario::Run(file) => {
            let custom = Custom::read(&file.file)?;
            perform(&file.common, Duration::from_secs(10), |setup, show| custom.run(setup, show))
        }
        Scenario::Compare(compare) => compare.run(),
        Scenario::Origin(origin) => origin.run(),
    }
}

impl Vod {
    fn run(self) -> Result<ExitCode> {
        let content = library::Content::OnDemand { objects: self.objects };
        let options = self.asked.options(content, "vod");
        perform(&self.common, Duration::from_secs(120), |setup, show| {
            library::run(setup, &options, show)
        })
    }
}

impl LiveLinear {
    fn run(self) -> Result<ExitCode> {
        let content = library::Content::Live { cache_bytes: self.cache, share: self.share };
        let options = self.asked.options(content, "live");
        perform(&self.common, Duration::from_secs(120), |setup, show| {
            library::run(setup, &options, show)
        })
    }
}

impl Library {
    fn options(self, content: library::Content, set: &str) -> library::Options {
        library::Options {
            content,
            object_bytes: self.object,
            path: self.path.unwrap_or_else(|| object_path(&self.object.to_string(), set)),
            connections: self.connections,
            runs: self.runs,
        }
    }
}

impl Channels {
    fn run(self) -> Result<ExitCode> {
        let options = channels::Options {
            profiles: self.channels,
            segments: self.segments,
            users: self.users,
            steps: self.steps,
            known_share: self.known,
            connections: self.connections,
            cache_bytes: self.cache,
            search: !self.no_search,
        };
        perform(&self.common, Duration::from_secs(240), |setup, show| {
            channels::run(setup, &options, show)
        })
    }
}

impl Sweep {
    fn run(self) -> Result<ExitCode> {
        let options = sweep::Options {
            sizes: self.sizes,
            connections: self.connections,
            hit_share: self.hits,
            set_bytes: self.set,
            path: self.path,
        };
        perform(&self.common, Duration::from_secs(60), |setup, show| {
            sweep::run(setup, &options, show)
        })
    }
}

impl Connections {
    fn run(self) -> Result<ExitCode> {
        let options = connections::Options {
            first: self.min,
            last: self.max,
            factor: self.factor,
            hold: self.hold,
            channels: self.channels,
            segments: self.segments,
        };
        perform(&self.common, Duration::from_secs(20), |setup, show| {
            connections::run(setup, &options, show)
        })
    }
}

impl Energy {
    fn run(self) -> Result<ExitCode> {
        let each = self.common.duration.unwrap_or(ENERGY_LOAD);
        let options = energy::Options {
            object_bytes: self.object,
            path: self.path.unwrap_or_else(|| object_path(&self.object.to_string(), "energy")),
            objects: self.objects,
            connections: self.connections,
            idle: self.idle.unwrap_or_else(|| each.min(IDLE_MAX)),
        };
        perform(&self.common, ENERGY_LOAD, |setup, show| energy::run(setup, &options, show))
    }
}

impl Players {
    fn run(self) -> Result<ExitCode> {
        let mut audience = Vec::new();
        for path in self.playlists {
            let format = if path.ends_with(".m3u8") {
                Format::Hls
            } else if path.ends_with(".mpd") {
                Format::Dash
            } else {
                bail!("--playlists takes paths that end in .m3u8 or .mpd, not {path}");
            };
            audience.push(Viewing { path, format });
        }
        if audience.is_empty() {
            audience = players::audience(self.channels, self.titles);
        }
        let options = players::Options {
            players: self.players,
            audience,
            ramp: self.ramp,
            buffer_segments: self.buffer,
            quality: match (self.highest, self.lowest) {
                (true, _) => Quality::Highest,
                (_, true) => Quality::Lowest,
                _ => Quality::Adaptive,
            },
            stay: self.stay,
            says: self.cmcd,
        };
        let segments = self.segments;
        perform(&self.common, Duration::from_secs(60), |mut setup, show| {
            let origin = segments.of(setup.origin);
            setup.origin =
                origin::Settings { channels: self.channels, titles: self.titles, ..origin };
            players::run(setup, &options, show)
        })
    }
}

impl Imdb {
    fn run(self) -> Result<ExitCode> {
        let options = imdb::Options {
            servers: self.servers,
            value_bytes: usize::try_from(self.value).unwrap_or(usize::MAX),
            pipeline: self.pipeline,
            threads: self.threads,
            connections: self.connections,
            keys: self.keys,
            server_cpus: self.server_cpus,
            ..imdb::Options::default()
        };
        let mut setup = imdb::setup();
        setup.duration = self.duration;
        let output = Output::new(&self.out, self.form.is_json())?;
        carry_out(setup, &output, |setup, show| imdb::run(setup, &options, show))
    }
}

impl Compare {
    fn run(self) -> Result<ExitCode> {
        let (before, after) = (Outcome::read(&self.before)?, Outcome::read(&self.after)?);
        let document = compare::document(&before, &after);
        crate::text::print(&freshet_report::text::render(&document))?;
        if let Some(path) = self.html {
            std::fs::write(&path, freshet_report::html::page(&document))
                .with_context(|| format!("{} could not be written", path.display()))?;
            say!("report     {}", path.display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl OriginArguments {
    fn run(self) -> Result<ExitCode> {
        let settings = origin::Settings {
            listen: self.listen,
            any_channel: true,
            ..origin::Settings::default()
        };
        let origin = Origin::start(self.segments.of(settings))?;
        tell!("listening  http://{}\n", origin.address());
        tell!("try        curl -so /dev/null http://{}/download/1MB/a\n", origin.address());
        let stop = stop_at_signals()?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let totals = origin.stop();
        say!("served     {} requests, {} bytes of bodies", totals.requests, totals.body_bytes)?;
        if totals.news > 0 {
            let (news, again) = (totals.news, totals.news_again);
            say!("news       {news} requests for what is new, {again} of them again")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a scenario with progress, writes what it found, and tells the end of the story.
fn perform(
    common: &Common,
    duration: Duration,
    scenario: impl FnOnce(Setup, &mut dyn FnMut(&Moment)) -> Result<Outcome, freshet_load::LabError>,
) -> Result<ExitCode> {
    let output = Output::new(&common.out, common.form.is_json())?;
    carry_out(common.setup(duration)?, &output, scenario)
}

fn carry_out(
    mut setup: Setup,
    output: &Output,
    scenario: impl FnOnce(Setup, &mut dyn FnMut(&Moment)) -> Result<Outcome, freshet_load::LabError>,
) -> Result<ExitCode> {
    setup.stop = stop_at_signals()?;
    let mut line = Line::new();
    let outcome = scenario(setup, &mut |moment| line.show(moment));
    line.end();
    let outcome = outcome?;
    output.write(&outcome)?;
    Ok(if outcome.is_met() { ExitCode::SUCCESS } else { ExitCode::from(NOT_MET) })
}

/// A flag that the first signal to end sets; the second ends the program.
fn stop_at_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _within = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if told.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    })?;
    Ok(stop)
}
