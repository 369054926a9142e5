//! `freshet lab forwarding`

use super::carry_out;
use super::common::{Output, span};
use crate::form::FormArguments;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use freshet_lab::forwarding::Middle;
use freshet_lab::scenario::{forwarding, imdb};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// A wire of veth pairs is made for it; it needs root.
#[derive(Args)]
pub(super) struct Forwarding {
    /// What is in the middle of the wire.
    #[arg(
        long,
        value_enum,
        value_name = "WHAT,WHAT...",
        value_delimiter = ',',
        default_value = "bare,pass,breakout,tap,kernel,bridge"
    )]
    mode: Vec<Mode>,
    /// Sizes of packets in bytes; imix is the study's mix of them.
    #[arg(long, value_name = "SIZE,SIZE...", value_delimiter = ',', default_value = "imix")]
    sizes: Vec<String>,
    /// Runs of each.
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// How long a rate must hold without loss.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    duration: Duration,
    /// Hold it for an hour, as the study does.
    #[arg(long, conflicts_with = "duration")]
    hour: bool,
    /// Length of a trial of the search.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    search: Duration,
    /// Millions of packets a second where the search begins.
    #[arg(long, value_name = "MPPS", default_value_t = 4.0)]
    most: f64,
    /// Rules of the router; the last of them matches.
    #[arg(long, value_name = "N", default_value_t = 256)]
    rules: u16,
    /// Packets that take turns, each with its own client, server, ports and protocol.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    packets: u32,
    /// From clients alone, in place of both ways at a time.
    #[arg(long)]
    one_way: bool,
    /// Processors of the load and of what is measured.
    #[arg(long, value_name = "LOAD,ROUTER", value_delimiter = ',', default_value = "0,1")]
    cpus: Vec<usize>,
    /// Another load on the machine at the same time, at the lowest priority.
    #[arg(long, value_enum, value_name = "WHAT")]
    beside: Option<BesideOption>,
    /// Databases of --beside imdb.
    #[arg(long, value_name = "N", default_value_t = 4)]
    servers: usize,
    /// Processors for them; where there are none, they go where they like.
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    server_cpus: Vec<usize>,
    /// Folder for the result and the report.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// The bridge alone.
    Bridge,
    /// The kernel's own forwarding.
    Kernel,
    /// A bare redirect.
    Bare,
    /// The router, which lets all pass.
    Pass,
    /// The router, which gives all to an app.
    Breakout,
    /// The router, which gives an app copies.
    Tap,
}

#[derive(Clone, Copy, ValueEnum)]
enum BesideOption {
    /// In-memory databases.
    Imdb,
}

impl Forwarding {
    pub(super) fn run(self) -> Result<ExitCode> {
        let profile = |text: &String| {
            if text.eq_ignore_ascii_case("imix") {
                return Ok(("IMIX".to_owned(), forwarding::MIX.to_vec()));
            }
            let size = text.parse().with_context(|| format!("--sizes: `{text}` is no size"))?;
            Ok::<_, anyhow::Error>((format!("{size} B"), vec![size]))
        };
        let &[load, router] = self.cpus.as_slice() else {
            bail!("--cpus: two processors, of the load and of the router, such as 0,1");
        };
        let options = forwarding::Options {
            middles: self.mode.iter().map(|mode| mode.middle()).collect(),
            profiles: self.sizes.iter().map(profile).collect::<Result<_>>()?,
            runs: self.runs,
            search: self.search,
            most: self.most * 1e6,
            rules: self.rules,
            clients: self.packets,
            is_duplex: !self.one_way,
            cpus: [load, router],
            beside: self.beside.map(|BesideOption::Imdb| imdb::Options {
                servers: self.servers,
                server_cpus: self.server_cpus,
                ..imdb::Options::default()
            }),
        };
        let mut setup = forwarding::setup();
        setup.duration = if self.hour { Duration::from_secs(3600) } else { self.duration };
        let output = Output::new(&self.out, self.form.is_json())?;
        carry_out(setup, &output, |setup, show| forwarding::run(setup, &options, show))
    }
}

impl Mode {
    fn middle(self) -> Middle {
        match self {
            Self::Bridge => Middle::Bridge,
            Self::Kernel => Middle::Kernel,
            Self::Bare => Middle::Bare,
            Self::Pass => Middle::Pass,
            Self::Breakout => Middle::Breakout,
            Self::Tap => Middle::Tap,
        }
    }
}
