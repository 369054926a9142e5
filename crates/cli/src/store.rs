//! `freshet store`: disks that keep what is cached.

mod erase;

use crate::client::NodeArguments;
use crate::form::FormArguments;
use crate::text::{COLUMNS, print, thousands};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_base::units::{format_bytes, parse_bytes};
use freshet_device::Device;
use freshet_device::file::FileDevice;
use freshet_disk::DiskError;
use freshet_disk::bench::{self, BenchOptions};
use freshet_disk::geometry::FormatOptions;
use freshet_disk::superblock::{Superblock, Uuid, contents};
use freshet_disk::{Common, limits, recovery};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// `freshet store`
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make files or devices empty stores of one set.
    Format(FormatArguments),
    /// List the stores of a running node: health, content, wear.
    List(ListArguments),
    /// Overwrite what a site has on the stores of a running node, or everything.
    Erase(erase::EraseArguments),
    /// Look at stores no node is using; nothing is changed.
    Check(CheckArguments),
    /// Measure a file or device through the store. What is on it is lost.
    Bench(BenchArguments),
}

#[derive(Args)]
#[command(after_help = "Examples:\n  freshet store format /var/cache/freshet:100GB\n  \
                        freshet store format /dev/nvme0n1 /dev/nvme1n1")]
struct FormatArguments {
    /// Files as PATH:SIZE, devices as PATH.
    #[arg(required = true, value_name = "PATH[:SIZE]")]
    stores: Vec<String>,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
    /// Mean length of what is stored: decides the memory for the index.
    #[arg(long, value_name = "SIZE")]
    object_size: Option<String>,
    /// A store whose set the new ones join.
    #[arg(long, value_name = "PATH")]
    join: Option<PathBuf>,
}

#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Args)]
struct CheckArguments {
    /// Files or devices.
    #[arg(required = true, value_name = "PATH")]
    stores: Vec<PathBuf>,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
struct BenchArguments {
    /// A file, which is made, as PATH:SIZE; or a device, with --force.
    #[arg(value_name = "PATH[:SIZE]")]
    store: String,
    /// Replace what is there.
    #[arg(long)]
    force: bool,
    /// Length of the objects, one record at most.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    object_size: String,
    /// How much to write first.
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    fill: String,
    /// Reads under way at once.
    #[arg(long, value_name = "N", default_value = "32")]
    depth: usize,
    /// How long to read.
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    seconds: u64,
    #[command(flatten)]
    form: FormArguments,
}

/// Carries a subcommand out.
///
/// # Errors
/// What is wrong with a store, by its path.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Format(arguments) => format(&arguments),
        Command::List(arguments) => list(&arguments),
        Command::Erase(arguments) => erase::run(&arguments),
        Command::Check(arguments) => check(&arguments),
        Command::Bench(arguments) => measure(&arguments),
    }
}

/// Path and length of `PATH[:SIZE]`.
fn place(text: &str) -> Result<(PathBuf, Option<u64>)> {
    match text.rsplit_once(':') {
        Some((path, size)) => Ok((path.into(), Some(parse_bytes(size)?))),
        None => Ok((text.into(), None)),
    }
}

/// Opens a device, or makes a file.
fn open(path: &Path, bytes: Option<u64>) -> Result<FileDevice> {
    let found = FileDevice::open(path);
    let device = match (found, bytes) {
        (Ok(device), _) if device.bytes() > 0 => Ok(device),
        (_, Some(bytes)) => {
            FileDevice::create(path, bytes).map_err(|error| DiskError::of_making(error, bytes))
        }
        (found, None) => found.map_err(DiskError::DeviceOpen),
    };
    device.with_context(|| path.display().to_string())
}

/// Refuses to go on where a device holds something, unless forced.
fn may_replace(device: &FileDevice, force: bool) -> Result<()> {
    let path = device.path().display();
    let held = contents(device).with_context(|| path.to_string())?;
    match held {
        Some(held) if !force => bail!("{path} holds {held}; --force replaces it"),
        _ => Ok(()),
    }
}

fn format(arguments: &FormatArguments) -> Result<ExitCode> {
    let object_bytes = arguments.object_size.as_deref().map(parse_bytes).transpose()?;
    let set = match &arguments.join {
        Some(path) => {
            let device = FileDevice::peek(path).with_context(|| path.display().to_string())?;
            let found = Superblock::read(&device).with_context(|| path.display().to_string())?;
            (found.set, found.secret)
        }
        None => (Uuid::random(), Uuid::random().0),
    };
    // All are looked at before the first is changed.
    let mut devices = Vec::new();
    for store in &arguments.stores {
        let (path, bytes) = place(store)?;
        let device = open(&path, bytes)?;
        may_replace(&device, arguments.force)?;
        devices.push(device);
    }
    for device in &devices {
        let options = FormatOptions { object_bytes, ..FormatOptions::default() };
        let path = device.path().display();
        let made = recovery::format(device, set, options, UnixMillis::now().0)
            .with_context(|| path.to_string())?;
        let geometry = made.geometry;
        print(&format!(
            "{path}\n  device {}  set {}\n  {} in {} segments of {}; index {} of memory\n",
            made.device,
            made.set,
            format_bytes(geometry.log_bytes()),
            thousands(geometry.segments.into()),
            format_bytes(geometry.segment_bytes),
            format_bytes(geometry.lines * 64),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let (mut all, mut wrong) = (Vec::new(), 0);
    for path in &arguments.stores {
        let common = Common::new(|| UnixMillis::now().0 * 1000);
        let found = FileDevice::open(path)
            .map_err(DiskError::DeviceOpen)
            .and_then(|device| recovery::inspect(&device, &common));
        match found {
            Ok((superblock, report)) if arguments.form.is_json() => all.push(json!({
                "path": path.display().to_string(),
                "good": true,
                "device": superblock.device.to_string(),
                "set": superblock.set.to_string(),
                "format": superblock.version,
                "records": report.entries,
                "stopped_in_order": report.was_clean,
                "records_after_checkpoint": report.replayed,
                "segments_to_read": report.scanned,
                "purges": report.purges,
                "purges_lost": report.lost_purges,
            })),
            Ok((superblock, report)) => print(&format!(
                "{}: {}\n  device {}  set {}  format {}\n  {} records, stopped {}; {} after the \
                 checkpoint,\n  {} segments to be read through, {} purges\n",
                path.display(),
                if report.lost_purges {
                    "good, but the journal of purges is not whole: none of it will be served"
                } else {
                    "good"
                },
                superblock.device,
                superblock.set,
                superblock.version,
                thousands(report.entries),
                if report.was_clean { "in order" } else { "without order" },
                thousands(report.replayed),
                report.scanned,
                report.purges,
            ))?,
            Err(error) => {
                wrong += 1;
                match arguments.form.is_json() {
                    true => all.push(json!({
                        "path": path.display().to_string(),
                        "good": false,
                        "why": error.to_string(),
                    })),
                    false => tell!("{}: {error}\n", path.display()),
                }
            }
        }
    }
    if arguments.form.is_json() {
        say!("{:#}", Value::from(all))?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(arguments: &ListArguments) -> Result<ExitCode> {
    let stores = arguments.node.get("/v1/stores")?.json()?;
    if arguments.form.is_json() {
        say!("{stores}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let none = Vec::new();
    let stores = stores.as_array().unwrap_or(&none);
    if stores.is_empty() {
        print("the node has no stores: start it with --store PATH:SIZE\n")?;
    }
    for store in stores {
        print(&describe(store))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(store: &Value) -> String {
    let number = |name: &str| store[name].as_u64().unwrap_or(0);
    let size = |name: &str| format_bytes(number(name));
    let mut out = String::new();
    let path = store["path"].as_str().unwrap_or("?");
    let health = store["health"].as_str().unwrap_or("?");
    let _ = writeln!(out, "{path}  {health}");
    if let Some(why) = store["why"].as_str() {
        let _ = writeln!(out, "  {why}");
    }
    if number("log_bytes") > 0 {
        let _ = writeln!(
            out,
            "  holds {} of {} in {} records; index {}",
            size("live_bytes"),
            size("log_bytes"),
            thousands(number("records")),
            size("index_bytes")
        );
        let _ = writeln!(
            out,
            "  written {}: new {}, kept {}, padding {}, own {}",
            size("written_bytes"),
            size("written_admitted_bytes"),
            size("written_kept_bytes"),
            size("written_padding_bytes"),
            size("written_metadata_bytes")
        );
        let life = match store["life_left_days"].as_f64() {
            Some(days) if days < 36_500.0 => format!("{:.1} years left", days / 365.0),
            _ => "no wear to speak of".to_owned(),
        };
        let pressure = store["pressure"].as_f64().unwrap_or(0.0);
        let _ = writeln!(out, "  write budget {:.0} % used, {life}", pressure * 100.0);
    }
    debug_assert!(out.lines().all(|line| line.len() <= COLUMNS || line.contains(path)));
    out
}

fn measure(arguments: &BenchArguments) -> Result<ExitCode> {
    let (path, bytes) = place(&arguments.store)?;
    let device = open(&path, bytes)?;
    may_replace(&device, arguments.force)?;
    let options = BenchOptions {
        object_bytes: usize::try_from(parse_bytes(&arguments.object_size)?)?,
        fill_bytes: parse_bytes(&arguments.fill)?,
        depth: arguments.depth.max(1),
        span: Duration::from_secs(arguments.seconds.max(1)),
    };
    if options.object_bytes > limits::RECORD_BYTES_MAX as usize {
        bail!("--object-size is one record at most: 1MiB");
    }
    let device: Arc<dyn Device> = Arc::new(device);
    let shows = std::io::stderr().is_terminal();
    let report = bench::run(&device, options, &mut |what, part| {
        if shows {
            tell!("\r{what} {:3.0} %", part * 100.0);
            let _ = std::io::stderr().flush();
        }
    })?;
    if shows {
        tell!("\r                    \r");
    }
    let at = |quantile: f64| {
        let last = report.read_us.len().saturating_sub(1);
        let index = (last as f64 * quantile) as usize;
        report.read_us.get(index).copied().unwrap_or(0) as f64 / 1000.0
    };
    if arguments.form.is_json() {
        let figures = json!({
            "objects": report.objects,
            "object_bytes": options.object_bytes,
            "write_bytes_per_second": report.write_bytes_per_second,
            "write_amplification": report.write_amplification,
            "reopen_ms": report.reopen.as_secs_f64() * 1000.0,
            "index_bytes_per_record": report.index_bytes_per_record,
            "read_bytes_per_second": report.read_bytes_per_second,
            "reads": report.reads,
            "depth": options.depth,
            "read_p50_ms": at(0.5),
            "read_p99_ms": at(0.99),
            "read_max_ms": at(1.0),
            "enters_per_read": report.enters_per_read,
            "memory_overhead": report.memory_overhead,
            "checkpoint_ms": report.checkpoint.as_secs_f64() * 1000.0,
            "write_max_beside_checkpoint_ms": report.wait_beside_checkpoint.as_secs_f64() * 1000.0,
            "write_max_ms": report.wait.as_secs_f64() * 1000.0,
        });
        say!("{figures:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    print(&format!(
        "objects          {} of {}\n\
         written          {:.0} MiB/s, {:.4} bytes for each\n\
         opened again     {:.0} ms after an end without order\n\
         index            {:.2} bytes for each record\n\
         read             {:.0} MiB/s, {} reads at depth {}\n\
         time of a read   p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms\n\
         io_uring_enter   {:.3} for each read\n\
         memory           {:.2} % beyond the bytes\n\
         checkpoint       {:.1} ms at once; longest write beside one {:.1} ms, else {:.1}\n",
        thousands(report.objects),
        arguments.object_size,
        mib(report.write_bytes_per_second),
        report.write_amplification,
        report.reopen.as_secs_f64() * 1000.0,
        report.index_bytes_per_record,
        mib(report.read_bytes_per_second),
        thousands(report.reads),
        options.depth,
        at(0.5),
        at(0.99),
        at(1.0),
        report.enters_per_read,
        report.memory_overhead * 100.0,
        report.checkpoint.as_secs_f64() * 1000.0,
        report.wait_beside_checkpoint.as_secs_f64() * 1000.0,
        report.wait.as_secs_f64() * 1000.0,
    ))?;
    Ok(ExitCode::SUCCESS)
}
