//! What the scenarios have in common: flags, and where results go.

use crate::form::FormArguments;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use freshet_base::units::{parse_bytes, parse_duration};
use freshet_lab::scenario::{Outcome, Setup, report};
use freshet_load::observe::PowerSource;
use freshet_load::target::Target;
use freshet_load::{Protocol, TlsOptions, Version};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags of every scenario.
#[derive(Args)]
pub(super) struct Common {
    /// The server, as http://127.0.0.1:8000; it must be yours.
    #[arg(value_name = "URL")]
    url: String,
    /// What reports call the server.
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    name: Option<String>,
    /// Load a server that is neither on this machine nor in a private network.
    #[arg(long, help_heading = "Server")]
    i_own_this_target: bool,
    /// Processes of the server, to measure what it uses.
    #[arg(long, value_name = "PID,PID...", value_delimiter = ',', help_heading = "Server")]
    pid: Vec<u32>,
    /// Metrics of the server (Prometheus), in place of processes.
    #[arg(long, value_name = "URL", conflicts_with = "pid", help_heading = "Server")]
    metrics: Option<String>,
    /// Serve here as the cache's origin, and count what it fetches.
    #[arg(long, value_name = "ADDR", help_heading = "Server")]
    with_origin: Option<SocketAddr>,
    /// Do not ask for everything once beforehand.
    #[arg(long, help_heading = "Server")]
    no_fill: bool,
    /// Speak HTTP/2.
    #[arg(long, help_heading = "Connections")]
    http2: bool,
    /// Speak HTTP/3, each connection from a UDP port of its own.
    #[arg(long, conflicts_with = "http2", help_heading = "Connections")]
    http3: bool,
    /// Requests at a time on a connection of HTTP/2 or HTTP/3.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Connections")]
    streams: usize,
    /// Version of TLS.
    #[arg(long, value_enum, default_value_t, help_heading = "Connections")]
    tls: TlsVersion,
    /// Authority of the server's certificate; without it any is taken.
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    ca: Option<PathBuf>,
    /// Resume sessions of TLS, as returning clients do.
    #[arg(long, help_heading = "Connections")]
    resume: bool,
    /// Threads of the generator.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    threads: usize,
    /// Processors to pin them to.
    #[arg(long, value_name = "N,N...", value_delimiter = ',', help_heading = "Load")]
    cpus: Vec<usize>,
    /// Length of each load; the study's if not said.
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Load")]
    pub(super) duration: Option<Duration>,
    /// Time before each that is not measured.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span,
          help_heading = "Load")]
    warmup: Duration,
    /// How often figures are taken.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span,
          help_heading = "Load")]
    interval: Duration,
    /// Longest time for a response.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = span,
          help_heading = "Load")]
    timeout: Duration,
    /// One response in N has its content checked; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Load")]
    check: u32,
    /// What random choices follow from.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    seed: u64,
    /// A file with the watts of the moment.
    #[arg(long, value_name = "FILE", help_heading = "Power")]
    meter: Option<PathBuf>,
    /// A command that prints the watts of the moment.
    #[arg(long, value_name = "COMMAND", conflicts_with = "meter", help_heading = "Power")]
    meter_command: Option<String>,
    /// Folder for the result and the report.
    #[arg(long, value_name = "FOLDER", default_value = ".", help_heading = "Output")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) form: FormArguments,
}

/// Versions of TLS as flags have them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum TlsVersion {
    /// Whichever the server prefers.
    #[default]
    Any,
    /// 1.2, as in the study of 500 Gbps nodes.
    #[value(name = "1.2")]
    Tls12,
    /// 1.3.
    #[value(name = "1.3")]
    Tls13,
}

impl Common {
    /// The setup of a scenario whose loads last for `duration` if nothing else was said.
    pub(super) fn setup(&self, duration: Duration) -> Result<Setup> {
        let target = Target::parse(&self.url, self.i_own_this_target)?;
        if self.ca.is_some() && !target.is_tls() {
            bail!("--ca is for https://, and {} has no certificate", target.url());
        }
        let mut setup = Setup::new(target);
        if let Some(name) = &self.name {
            setup.server_name.clone_from(name);
        }
        setup.protocol = match (self.http2, self.http3) {
            (_, true) => Protocol::Http3,
            (true, _) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        if self.streams > 1 && !setup.protocol.is_multiplexed() {
            bail!("--streams takes --http2 or --http3: HTTP/1.1 has one request at a time");
        }
        setup.streams = self.streams;
        setup.tls = TlsOptions {
            ca: self.ca.clone(),
            version: match self.tls {
                TlsVersion::Any => Version::Any,
                TlsVersion::Tls12 => Version::Tls12,
                TlsVersion::Tls13 => Version::Tls13,
            },
            resume: self.resume,
        };
        setup.threads = self.threads;
        setup.cpus.clone_from(&self.cpus);
        setup.duration = self.duration.unwrap_or(duration);
        setup.warmup = self.warmup;
        setup.interval = self.interval;
        setup.timeout = self.timeout;
        setup.check_one_in = self.check;
        setup.seed = self.seed;
        setup.pids.clone_from(&self.pid);
        setup.metrics.clone_from(&self.metrics);
        setup.with_origin = self.with_origin;
        setup.prefill = !self.no_fill;
        setup.power = match (&self.meter, &self.meter_command) {
            (Some(file), _) => PowerSource::File(file.clone()),
            (None, Some(command)) => PowerSource::Command(command.clone()),
            (None, None) => PowerSource::Local,
        };
        Ok(setup)
    }
}

/// A size for a flag.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    if bytes == 0 { Err("it must be more than nothing".to_owned()) } else { Ok(bytes) }
}

/// A time for a flag.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// Where results go.
pub(super) struct Output {
    folder: PathBuf,
    as_json: bool,
}

impl Output {
    /// Looks before the run whether there is a place for what comes of it.
    pub(super) fn new(folder: &Path, as_json: bool) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--out {} could not be made", folder.display()))?;
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)
            .with_context(|| format!("--out {} cannot be written to", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), as_json })
    }

    /// Writes result and report, and prints the latter.
    pub(super) fn write(&self, outcome: &Outcome) -> Result<()> {
        let name = format!("{}-{}", outcome.scenario, file_name(&outcome.server));
        let (json, html) = (format!("{name}.json"), format!("{name}.html"));
        let text = serde_json::to_string_pretty(outcome).context("a result is plain data")?;
        let put = |name: &str, text: &str| -> Result<PathBuf> {
            let path = self.folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("{} could not be written", path.display()))?;
            Ok(path)
        };
        let document = report::document(outcome);
        let page = freshet_report::html::page(&document);
        let written = put(&json, &text).and_then(|json| Ok((json, put(&html, &page)?)));
        // Hours of a run are not to be lost with a disk that has become full meanwhile.
        if self.as_json {
            say!("{text}")?;
            return written.map(drop);
        }
        crate::text::print(&freshet_report::text::render(&report::summary(outcome)))?;
        let (json, html) = written?;
        say!("\nresult     {}\nreport     {}", json.display(), html.display())
    }
}

/// A server's name as part of a file's name.
fn file_name(server: &str) -> String {
    let name = server.trim_start_matches("https://").trim_start_matches("http://");
    let fine = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.chars().map(fine).take(60).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_asked_for() {
        assert_eq!(bytes("1MB"), Ok(1_000_000));
        assert!(bytes("0").is_err());
        assert!(bytes("12 parsecs").is_err());
        assert_eq!(span("5m"), Ok(Duration::from_secs(300)));
        assert!(span("soon").is_err());
    }

    #[test]
    fn files_are_named_after_servers() {
        assert_eq!(file_name("http://127.0.0.1:8000"), "127.0.0.1-8000");
        assert_eq!(file_name("../a b"), "..-a-b");
        assert_eq!(file_name(""), "server");
    }
}
