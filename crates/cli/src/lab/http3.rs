//! `freshet lab http3`: a load over HTTP/3.

use super::common::span;
use super::stop_at_signals;
use crate::form::FormArguments;
use anyhow::{Result, bail};
use clap::Args;
use freshet_base::units;
use freshet_load::http3::{self, Figures, Load, Moves};
use freshet_load::target::Target;
use freshet_load::{TlsOptions, Version};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Exit code where a request failed, or the load was cut short.
const FAILED: u8 = 2;

/// Clients that stayed for less would do nothing but move.
const STAY_MIN: Duration = Duration::from_millis(1);

/// `freshet lab http3`
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    freshet lab http3 https://127.0.0.1:8443 --path /1k --connections 64\n  \
    freshet lab http3 https://127.0.0.1:8443 --path /1k --requests 1 --resume\n  \
    freshet lab http3 https://127.0.0.1:8443 --path /1k --connections 1000 --idle\n  \
    freshet lab http3 https://127.0.0.1:8443 --path /1m --move-every 300ms --from 127.0.0.2,127.0.0.3")]
pub(super) struct Http3 {
    /// The server, as https://127.0.0.1:8443; it must be yours.
    #[arg(value_name = "URL")]
    url: String,
    /// Load a server that is neither on this machine nor in a private network.
    #[arg(long)]
    i_own_this_target: bool,
    /// Path of each request, in which n in braces counts the objects in turn.
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    /// How many objects there are.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    /// Connections at a time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Connections that are opened in a second, until there are as many; all at once if not said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    open_per_second: Option<u32>,
    /// Requests at a time on each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: usize,
    /// Requests until a connection is closed and another takes its place.
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Datagrams that are acknowledged together, at most; all that arrive together if not said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ack_every: Option<u32>,
    /// Open connections that ask once and then only stay.
    #[arg(long)]
    idle: bool,
    /// Have all clients go to another port every so often, while responses are under way; of several times each
    /// in turn.
    #[arg(long, value_name = "TIME,TIME...", value_delimiter = ',', value_parser = span)]
    move_every: Vec<Duration>,
    /// Addresses that they are at, in turn.
    #[arg(long, value_name = "IP,IP...", value_delimiter = ',', requires = "move_every")]
    from: Vec<IpAddr>,
    /// Have them not know of it, as behind a network that gives them another port.
    #[arg(long, requires = "move_every")]
    unnoticed: bool,
    /// Resume sessions of TLS, as returning clients do.
    #[arg(long)]
    resume: bool,
    /// Authority of the server's certificate; without it any is taken.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// How long.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Duration,
    #[command(flatten)]
    form: FormArguments,
}

impl Http3 {
    pub(super) fn run(self) -> Result<ExitCode> {
        if self.connections == 0 {
            bail!("--connections 0 is no load: it takes one or more");
        }
        if !self.path.starts_with('/') || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("--path {} is no path: one begins with / and has no spaces", self.path);
        }
        if let Some(stay) = self.move_every.iter().find(|stay| **stay < STAY_MIN) {
            bail!("--move-every {} is too often: at least 1ms", units::span(*stay));
        }
        let load = Load {
            target: Target::parse(&self.url, self.i_own_this_target)?,
            tls: TlsOptions { ca: self.ca, version: Version::Tls13, resume: self.resume },
            path: self.path,
            objects: self.objects,
            connections: self.connections,
            opened_per_second: self.open_per_second,
            streams: self.streams.max(1),
            requests_per_connection: self.requests,
            ack_every: self.ack_every.map(|every| every as usize),
            duration: self.duration,
            is_idle: self.idle,
            moves: (!self.move_every.is_empty()).then_some(Moves {
                stays: self.move_every,
                from: self.from,
                is_unnoticed: self.unnoticed,
            }),
        };
        let stop = stop_at_signals()?;
        let (connections, duration) = (load.connections, units::span(load.duration));
        tell!("{connections} connections for {duration}\n");
        let figures = http3::run(&load, &stop, &AtomicU64::new(0))?;
        let is_whole = !stop.load(Ordering::Relaxed);
        let shown =
            if self.form.is_json() { json(&figures, is_whole) } else { text(&figures, is_whole) };
        crate::text::print(&shown)?;
        let is_well = is_whole && figures.failed == 0;
        Ok(if is_well { ExitCode::SUCCESS } else { FAILED.into() })
    }
}

fn json(figures: &Figures, is_whole: bool) -> String {
    let value = serde_json::json!({
        "complete": is_whole,
        "requests": figures.requests,
        "failed": figures.failed,
        "failures": figures.reasons().collect::<Vec<_>>(),
        "asked_again": figures.again,
        "body_bytes": figures.body_bytes,
        "handshakes": figures.handshakes,
        "moves": figures.moves,
        "datagrams_received": figures.datagrams.0,
        "datagrams_sent": figures.datagrams.1,
        "seconds": figures.elapsed.as_secs_f64(),
        "latency_us": {
            "p50": figures.latency.value_at_quantile(0.5),
            "p99": figures.latency.value_at_quantile(0.99),
        },
    });
    format!("{value:#}\n")
}

fn text(figures: &Figures, is_whole: bool) -> String {
    let seconds = figures.elapsed.as_secs_f64().max(1e-9);
    let at = |share| figures.latency.value_at_quantile(share) as f64 / 1000.0;
    let mut out = format!(
        "requests    {} ({:.0}/s), {} failed, {} asked again\n\
         bodies      {:.3} GB ({:.3} Gbit/s)\n\
         handshakes  {} ({:.0}/s)\n\
         datagrams   {} received, {} sent\n\
         responses   {:.2} ms half of them, {:.2} ms 99 of 100\n",
        figures.requests,
        figures.requests as f64 / seconds,
        figures.failed,
        figures.again,
        figures.body_bytes as f64 / 1e9,
        figures.body_bytes as f64 * 8e-9 / seconds,
        figures.handshakes,
        figures.handshakes as f64 / seconds,
        figures.datagrams.0,
        figures.datagrams.1,
        at(0.5),
        at(0.99),
    );
    if figures.moves > 0 {
        out.push_str(&format!("moves       {}\n", figures.moves));
    }
    figures.reasons().for_each(|why| out.push_str(&format!("failed      {why}\n")));
    if !is_whole {
        out.push_str("not complete: it was interrupted\n");
    }
    out
}
