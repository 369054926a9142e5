//! `freshet mec`: the platform for apps at the edge of a mobile network.

mod demo;

use crate::stop::told_to_end;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use freshet_apps::hosts::{self, HostConfig};
use freshet_mec::objective;
use freshet_mec::serve::{self, Config};
use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Serve apps at the edge of a mobile network (ETSI MEC).
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "docs/mec.md says how to set it up."
)]
pub(crate) struct Arguments {
    /// Configuration of the platform to run.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Show it: a simulated radio network, three apps, and as root a mobile network to break out of.
    Demo {
        /// Do what it says by itself, and end.
        #[arg(long)]
        once: bool,
    },
    /// Print the objectives of a configuration as rules of Prometheus: alarms, and what is left of budgets.
    Alerts {
        /// Configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Run apps on this machine for a platform elsewhere, over NATS.
    Host {
        /// Configuration of the host.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Check it, and touch nothing.
        #[arg(long)]
        check: bool,
    },
    /// Check a configuration, and touch nothing.
    Check {
        /// Configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// Runs the platform, or what else was asked for.
///
/// # Errors
/// What is wrong with the configuration, or what this machine refused.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match (arguments.what, arguments.config) {
        (Some(What::Alerts { config: path }), _) => {
            let objectives = read(&path)?.objectives;
            if objectives.is_empty() {
                bail!(
                    "{}: no `[service.NAME]` in it has an objective; docs/mec-gateway.md has one",
                    path.display()
                );
            }
            std::io::stdout().write_all(objective::rules(&objectives).as_bytes())?;
        }
        (Some(What::Check { config: path }), _) => {
            let config = read(&path)?;
            for doubt in config.doubts() {
                tell!("{}: {doubt}\n", path.display());
            }
            serve::check(config).map_err(|what| anyhow!("{}: {what}", path.display()))?;
            say!("{}: good", path.display())?;
        }
        (Some(What::Demo { once }), _) => demo::run(once)?,
        (Some(What::Host { config: path, check }), _) => {
            let text = crate::text::read(&path)?;
            let wrong = |what: String| anyhow!("{}: {what}", path.display());
            let config = HostConfig::read(&text).map_err(wrong)?;
            if check {
                say!("{}: good", path.display())?;
            } else {
                host(config)?;
            }
        }
        (None, path) => serve(read(&path.context("--config is missing")?)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Config> {
    let shown = path.display();
    let text = crate::text::read(path)?;
    serve::read(&text).map_err(|what| anyhow!("{shown}: {what}"))
}

/// Serves until it is told to end.
fn serve(config: Config) -> Result<()> {
    crate::serve::log();
    let bound = serve::bind(config).map_err(anyhow::Error::msg)?;
    // It serves also where nobody reads what it says.
    let _ = writeln!(std::io::stdout(), "the platform listens on {}", bound.address());
    sd_notify::notify(&[sd_notify::NotifyState::Ready]).ok();
    bound.run(told_to_end()).context("the platform did not start")
}

/// Runs apps for a platform elsewhere until it is told to end; apps run on then.
fn host(config: HostConfig) -> Result<()> {
    crate::serve::log();
    sd_notify::notify(&[sd_notify::NotifyState::Ready]).ok();
    // Signals are heard once there is a runtime.
    hosts::run(config, watched(), async { told_to_end().await }).map_err(anyhow::Error::msg)
}

/// Tells systemd that this process goes on, where that ends one that does not (`WatchdogSec`): some times within the
/// time it has.
fn watched() -> impl Fn() {
    let every = sd_notify::watchdog_enabled().map(|limit| limit / 4);
    let told = Cell::new(None::<Instant>);
    move || {
        if let Some(every) = every
            && told.get().is_none_or(|at| at.elapsed() >= every)
        {
            sd_notify::notify(&[sd_notify::NotifyState::Watchdog]).ok();
            told.set(Some(Instant::now()));
        }
    }
}
