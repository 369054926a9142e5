//! `freshet demo`: an origin with live channels and titles, a node in front of it, viewers, and live
//! figures, all in one process.

mod audience;
mod figures;
mod ports;
mod urls;
mod view;

use crate::admin::{self, Admin};
use crate::form::FormArguments;
use crate::nodes::Registration;
use crate::settings::SettingsArguments;
use crate::{runtime, self_signed};
use anyhow::{Context, Result, bail};
use clap::Args;
use figures::{Readings, Summary};
use freshet_config::Settings;
use freshet_lab::origin::{self, Origin};
use freshet_lab::viewers::{self, Target, Viewers};
use freshet_load::LabError;
use freshet_net::handover::Inherited;
use freshet_node::node::Node;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval_at, sleep};
use urls::Doors;
use view::View;

/// How often figures are taken and shown.
const REFRESH: Duration = Duration::from_secs(1);

/// Segments in the window of a channel, as in the study: 6 minutes of 6 s.
const WINDOW_SEGMENTS: u32 = 60;

/// Segments of a title: 10 minutes of 6 s.
const TITLE_SEGMENTS: u32 = 100;

/// Viewers that one thread drives with time to spare.
const VIEWERS_PER_THREAD: usize = 1000;

/// Longest `--seconds`: a year. Timers have an end, too.
const SECONDS_MAX: f64 = 31_536_000.0;

/// Flags of `freshet demo`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Address of the node for HTTP; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000")]
    listen: String,
    /// Address of the node for HTTPS, with a certificate made for the occasion; `off` for none.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8443")]
    listen_tls: String,
    /// Address of the node's metrics and control, which `freshet explain` and `freshet top` ask;
    /// `off` for none.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6080")]
    admin: String,
    /// Live channels that the origin offers, besides 12 titles on demand and downloads.
    #[arg(long, value_name = "N", default_value_t = 4)]
    channels: u32,
    /// Simulated viewers, nine in ten of them of live channels; 0 for none but you.
    #[arg(long, value_name = "N", default_value_t = 100)]
    viewers: usize,
    /// The quality they choose.
    #[arg(long, value_enum, default_value_t)]
    quality: audience::Quality,
    /// Memory of the node's cache.
    #[arg(long, value_name = "SIZE", default_value = "512MB")]
    memory: String,
    /// Length of a segment.
    #[arg(long, value_name = "SECONDS", default_value_t = 6.0)]
    segment: f64,
    /// Length of its parts, which divides it: channels have low latency with it.
    #[arg(long, value_name = "SECONDS")]
    part: Option<f64>,
    /// End after this time instead of at Ctrl-C.
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    #[command(flatten)]
    form: FormArguments,
}

/// Runs the demonstration until Ctrl-C or for as long as asked.
///
/// # Errors
/// Why it could not start, with the flag to change.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    // The view has the terminal to itself; who wants the log as well says so.
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("FRESHET_LOG") {
        crate::serve::log_as(filter);
    }
    let length = arguments.seconds.map(|seconds| span("--seconds", seconds)).transpose()?;
    let offer = offer(&arguments)?;
    let stage = Stage::set(&arguments, &offer)?;
    let mut out: Box<dyn Write> =
        if arguments.form.is_json() { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
    let is_terminal = if arguments.form.is_json() {
        io::stderr().is_terminal()
    } else {
        io::stdout().is_terminal()
    };
    let mut view = View::new(is_terminal, &offer);
    let mut readings = Readings::new(&offer);
    // Whoever reads may leave early, as `head` does; then there is nobody left to show this to.
    let shown = view
        .introduce(&mut *out, &stage.doors.introduction(&arguments, stage.origin.address()))
        .and_then(|()| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(watch(&stage, &mut view, &mut readings, &mut *out, length))
        });
    let summary = readings.summary(&stage.node, &stage.origin, stage.viewers.as_ref());
    stage.strike();
    match shown.and_then(|()| view.close(&mut *out, &summary)) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if arguments.form.is_json() {
        print_json(&summary)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows figures each second until the time is over or a signal comes.
async fn watch(
    stage: &Stage,
    view: &mut View,
    readings: &mut Readings,
    out: &mut dyn Write,
    length: Option<Duration>,
) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut refresh = interval_at(tokio::time::Instant::now() + REFRESH, REFRESH);
    refresh.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let over = async {
        match length {
            Some(length) => sleep(length).await,
            None => std::future::pending().await,
        }
    };
    let mut over = std::pin::pin!(over);
    loop {
        tokio::select! {
            // In this order, so that the line of the last second is shown as well.
            biased;
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => return Ok(()),
            _ = refresh.tick() => {
                let moment = readings.take(&stage.node, &stage.origin, stage.viewers.as_ref());
                let news = serde_json::to_string(&moment.news()).expect("figures are plain data");
                stage.origin.tell(&news);
                view.refresh(out, &moment)?;
            }
            () = &mut over => return Ok(()),
        }
    }
}

fn print_json(summary: &Summary) -> Result<()> {
    let text = serde_json::to_string_pretty(summary).expect("a summary is plain data");
    writeln!(io::stdout(), "{text}").context("the summary could not be written")
}

/// Everything that runs.
struct Stage {
    doors: Doors,
    viewers: Option<Viewers>,
    admin: Option<Admin>,
    node: Arc<Node>,
    origin: Origin,
    _registration: Registration,
    _scratch: Scratch,
}

impl Stage {
    /// Starts the origin, the node in front of it and the viewers, in this order.
    fn set(arguments: &Arguments, offer: &origin::Settings) -> Result<Self> {
        ports::check(&arguments.listen, "--listen")?;
        let tls = Some(&arguments.listen_tls).filter(|address| *address != "off");
        if let Some(address) = tls {
            ports::check(address, "--listen-tls")?;
        }
        if arguments.admin != "off" {
            ports::check(&arguments.admin, "--admin")?;
        }
        let origin = Origin::start(offer.clone()).map_err(with_flag)?;
        let mut settings = SettingsArguments {
            origin: vec![format!("http://{}", origin.address())],
            listen: vec![arguments.listen.clone()],
            listen_tls: tls.into_iter().cloned().collect(),
            memory: Some(arguments.memory.clone()),
            admin: Some(arguments.admin.clone()),
            ..SettingsArguments::default()
        }
        .settings()?;
        let scratch = Scratch::new(&settings)?;
        self_signed::fill_in(&mut settings, scratch.path())?;
        let node = Node::start(settings, &mut Inherited::default())?;
        let reload = Box::new(|| Err("a demonstration has no configuration to read".to_owned()));
        let admin = admin::start(&node, &None, scratch.path(), &mut Inherited::default(), reload)?;
        // So that `freshet explain` and the others find it.
        let at = admin.as_ref().map(|admin| (admin.handle.address(), admin.token_file.as_path()));
        let registration = Registration::write(scratch.path(), at, &node.addresses(), None)?;
        let admin_address = admin.as_ref().map(|admin| admin.handle.address().clone());
        let doors = Doors::new(&node.socket_addresses(), admin_address)
            .context("the node listens nowhere")?;
        let viewers = viewers(arguments, offer, &doors)?;
        Ok(Self {
            doors,
            viewers,
            admin,
            node,
            origin,
            _registration: registration,
            _scratch: scratch,
        })
    }

    /// Stops everything at once: the last second of a demonstration is worth no wait.
    fn strike(self) {
        drop(self.viewers);
        drop(self.admin);
        self.node.stop();
        self.node.join();
        self.origin.stop();
    }
}

/// What the origin is to offer.
fn offer(arguments: &Arguments) -> Result<origin::Settings> {
    let segment = span("--segment", arguments.segment)?;
    Ok(origin::Settings {
        channels: arguments.channels,
        segment,
        part: arguments.part.map(|seconds| span("--part", seconds)).transpose()?,
        window: segment * WINDOW_SEGMENTS,
        title: segment * TITLE_SEGMENTS,
        ..origin::Settings::default()
    })
}

fn viewers(
    arguments: &Arguments,
    offer: &origin::Settings,
    doors: &Doors,
) -> Result<Option<Viewers>> {
    if arguments.viewers == 0 {
        return Ok(None);
    }
    let audience = audience::of(offer);
    let mut settings =
        viewers::Settings::new(Target::clear(doors.clear), audience, arguments.viewers);
    settings.quality = arguments.quality.into();
    // As if they had come one by one: those of a channel are not all at the same point of a segment.
    settings.ramp = offer.segment;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    settings.threads = arguments.viewers.div_ceil(VIEWERS_PER_THREAD).min(cores);
    Viewers::start(settings).map(Some).map_err(with_flag)
}

/// An error of the laboratory, which names settings as its flags are called here.
fn with_flag(error: LabError) -> anyhow::Error {
    match &error {
        LabError::ConfigSetting {
            setting: flag @ ("segment" | "part" | "channels" | "viewers"),
            ..
        } => {
            anyhow::anyhow!("--{flag}: {error}")
        }
        _ => error.into(),
    }
}

fn span(flag: &str, seconds: f64) -> Result<Duration> {
    if !(0.001..=SECONDS_MAX).contains(&seconds) {
        bail!("{flag} takes a number of seconds, from 0.001 to a year, not {seconds}");
    }
    // Rounded to the millisecond, as segments are counted.
    Ok(Duration::from_millis((seconds * 1000.0).round() as u64))
}

/// A directory of this run, only for this user, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(settings: &Settings) -> Result<Self> {
        let name = format!("demo-{}", std::process::id());
        runtime::directory(Some(&name), settings).map(Self)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
