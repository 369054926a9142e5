//! `freshet fleet drain`: a node that routers send no new clients.

use super::Which;
use super::upgrade::new_id;
use anyhow::{Context, Result, bail};
use clap::Args;
use freshet_fleet::nats::{Heard, Link};
use freshet_fleet::upgrade::{Ask, Order};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the node may take to say that it has heard: it says how it is each second.
const HEARD_WITHIN: Duration = Duration::from_secs(10);
/// Time between two looks at what it says.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// `freshet fleet drain`
#[derive(Args)]
#[command(
    after_help = "Examples:\n  freshet fleet drain edge-7\n  freshet fleet drain edge-7 --undo"
)]
pub(super) struct Arguments {
    /// Its name.
    node: String,
    /// Have it get new clients again.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    which: Which,
}

/// Tells a node whether to want new clients, and waits until it says that it has heard.
///
/// # Errors
/// It says nothing, or cannot be told; or the servers of the fleet cannot be reached.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let link = arguments.which.link().await?;
    link.permitted(drain(&link, arguments)).await
}

async fn drain(link: &Link, arguments: Arguments) -> Result<ExitCode> {
    let Arguments { node, undo, which } = arguments;
    let drains = !undo;
    let mut watch = link.watch(None).await?;
    let (begun, mut disbelieved) = (Instant::now(), String::new());
    while begun.elapsed() < HEARD_WITHIN {
        for heard in watch.heard(LOOK_EVERY).await {
            let report = match heard {
                Heard::Report(report) if report.node == node => report,
                Heard::Disbelieved { node: name, why } if name == node => {
                    disbelieved = format!(", and what is said in its name is {why}");
                    continue;
                }
                _ => continue,
            };
            if report.drained == drains {
                match which.form.is_json() {
                    true => say!("{}", json!({"node": node, "drained": drains}))?,
                    false if drains => say!("{node} wants no new clients")?,
                    false => say!("{node} wants new clients")?,
                }
                return Ok(ExitCode::SUCCESS);
            }
            let process = report.process.with_context(|| {
                format!("{node} runs {}, which cannot be told over the fleet", report.version)
            })?;
            let order = Order::Drain { drains };
            let ask = Ask { id: new_id()?, process: process.began_ms, order };
            // Lost, it is given again with what the node says next.
            link.ask_to_upgrade(&node, &ask).await?;
        }
    }
    let seconds = HEARD_WITHIN.as_secs();
    bail!("{node} does not say within {seconds} s that it has heard it{disbelieved}")
}
