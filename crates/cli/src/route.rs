//! `freshet route`: a router that sends clients to nodes.

mod fleet;

use crate::form::FormArguments;
use crate::text;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_config::Mistake;
use freshet_config::mistake::render;
use freshet_route::config::{self, Config};
use freshet_route::live::Routing;
use freshet_route::measure::{made_up, measure, measure_dns};
use freshet_route::redirect::{self, Request};
use freshet_route::serve::{Reloaded, Router};
use serde_json::json;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Send clients to the nodes that are best for them.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "HUP has the configuration read again. docs/routing.md says how to set it up."
)]
pub(crate) struct Arguments {
    /// Configuration of the router to run.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Check a configuration and the files it names, and touch nothing.
    Check {
        /// Configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        form: FormArguments,
    },
    /// Say where a client would be sent, and why; with all nodes taken to be up.
    Explain {
        /// The client's address.
        client: IpAddr,
        /// What it asks for, as `http://www.example/a.html`.
        url: String,
        /// Configuration.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        form: FormArguments,
    },
    /// Measure how many decisions one core makes, and how much memory the networks take.
    Bench {
        /// Configuration; without one, 256 nodes in 16 regions.
        #[arg(long, value_name = "FILE", conflicts_with = "prefixes")]
        config: Option<PathBuf>,
        /// Networks of the table that is made up.
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        prefixes: usize,
        /// Decisions to make.
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        decisions: u64,
        #[command(flatten)]
        form: FormArguments,
    },
}

/// Runs a router, or what else was asked for.
///
/// # Errors
/// What is wrong with the configuration, or what this machine refused.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match (arguments.what, arguments.config) {
        (Some(What::Check { config, form }), _) => {
            let (read, warnings) = read_with_warnings(&config)?;
            tell!("{warnings}");
            let routing = Routing::new(read, None).map_err(anyhow::Error::msg)?;
            let table = &routing.table;
            let [regions, nodes] = [table.regions().len(), table.nodes().len()];
            let [zones, networks] = [table.zones().len(), table.prefixes().len()];
            if form.is_json() {
                let good = json!({ "regions": regions, "nodes": nodes, "zones": zones, "networks": networks });
                say!("{good}")?;
            } else {
                let file = config.display();
                say!(
                    "{file}: good: regions {regions}, nodes {nodes}, zones {zones}, networks {networks}"
                )?;
            }
        }
        (Some(What::Explain { client, url, config, form }), _) => {
            let routing = Routing::new(read(&config)?, None).map_err(anyhow::Error::msg)?;
            let request = Request::of_url(&url, client)
                .ok_or_else(|| anyhow!("`{url}` is no URL: write http://www.example/a.html"))?;
            let (steps, reply) = redirect::explain(&routing, &request, UnixMillis::now());
            if form.is_json() {
                let node = reply.node.and_then(|id| routing.table.node(id)).map(|node| &node.name);
                let (status, location) = (reply.status, reply.location);
                say!(
                    "{}",
                    json!({ "status": status, "location": location, "node": node, "steps": steps })
                )?;
            } else {
                say!("{}", steps.join("\n"))?;
            }
        }
        (Some(What::Bench { config, prefixes, decisions, form }), _) => {
            let routing = config
                .map(|config| Routing::new(read(&config)?, None).map_err(anyhow::Error::msg))
                .transpose()?;
            let figures = match &routing {
                Some(routing) => measure(&routing.table, decisions),
                None => measure(&made_up(prefixes), decisions),
            };
            let dns = routing.and_then(|routing| measure_dns(&routing, decisions));
            let dns_us =
                dns.map(|(answers, took)| took.as_secs_f64() * 1e6 / (answers as f64).max(1.0));
            let each_us = 1e6 / figures.per_second();
            if form.is_json() {
                say!(
                    "{}",
                    json!({
                        "networks": figures.prefixes, "network_bytes": figures.prefix_bytes,
                        "decision_us": each_us, "dns_answer_us": dns_us,
                    })
                )?;
                return Ok(ExitCode::SUCCESS);
            }
            say!(
                "{} networks take {:.1} MB\n{:.0} decisions a second on one core, {each_us:.2} µs each",
                figures.prefixes,
                figures.prefix_bytes as f64 / 1e6,
                figures.per_second(),
            )?;
            if let Some(dns_us) = dns_us {
                let per_second = 1e6 / dns_us;
                say!(
                    "{per_second:.0} DNS answers a second on one core, {dns_us:.2} µs each, without sockets"
                )?;
            }
        }
        (None, path) => serve(&path.context("--config is missing")?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Config> {
    Ok(read_with_warnings(path)?.0)
}

/// A configuration, and what of it may not be what was meant, in words.
fn read_with_warnings(path: &Path) -> Result<(Config, String)> {
    let text = text::read(path)?;
    let shown = |mistakes: &[Mistake]| render(&path.display().to_string(), &text, mistakes);
    let config = config::read(&text).map_err(|wrong| anyhow!("{}", shown(&wrong).trim_end()))?;
    let warnings = shown(&config.warnings);
    Ok((config, warnings))
}

/// Serves until it is told to end.
fn serve(path: &Path) -> Result<()> {
    crate::serve::log();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // First of all: unhandled, HUP would end a process that is about to start.
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)] = kinds.map(signal) else {
            bail!("signals cannot be listened for");
        };
        let config = read(path)?;
        let of_fleet = config.fleet.clone();
        let router = Router::start(config).map_err(anyhow::Error::msg)?;
        for address in router.addresses() {
            tracing::info!("redirects at {address}");
        }
        for address in router.dns_addresses() {
            tracing::info!("answers DNS at {address}");
        }
        if let Some(address) = router.admin() {
            tracing::info!("the admin interface is at {address}");
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let following = async {
            match of_fleet {
                Some(of_fleet) => fleet::follow(&router, of_fleet).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = reload_on(&mut hang_up, &router, path) => {}
            ended = following => ended.context("the fleet")?,
        }
        Ok(())
    })
}

/// Has the configuration read again with each signal; what is wrong leaves the old one in force.
async fn reload_on(signals: &mut Signal, router: &Router, path: &Path) {
    while signals.recv().await.is_some() {
        let reloaded =
            read(path).and_then(|config| router.reload(config).map_err(anyhow::Error::msg));
        match reloaded {
            Ok(Reloaded::Whole) => tracing::info!("the configuration was read again"),
            Ok(Reloaded::ButAddresses) => tracing::warn!(
                "the configuration was read again; workers, addresses to listen on and the fleet need a restart"
            ),
            Err(error) => tracing::error!("nothing was changed: {error:#}"),
        }
    }
}
