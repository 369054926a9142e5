//! `freshet stop`: has a node end, and waits until it has.

use crate::form::FormArguments;
use crate::nodes::{self, Which};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// `freshet stop`
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  freshet stop\n  freshet stop --name edge-2\n  \
                        freshet stop --admin 127.0.0.1:6080")]
pub(crate) struct Arguments {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    which: Which,
}

/// How long one look at the process takes; there is no limit to how many.
const LOOK: Duration = Duration::from_secs(60);

/// Tells a node to end, which it does when open requests have or `drain` is over, and waits for it.
///
/// # Errors
/// When several run and none is named, or it may not be told.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(node) = arguments.which.node()? else {
        let shown = match arguments.form.is_json() {
            true => json!({"node": null, "process": null}).to_string(),
            false => "no node runs here as this user".to_owned(),
        };
        say!("{shown}")?;
        return Ok(ExitCode::SUCCESS);
    };
    let process = i32::try_from(node.pid).ok().and_then(Pid::from_raw).context("its process")?;
    let named = format!("node {}: process {}", node.name(), node.pid);
    kill_process(process, Signal::TERM).with_context(|| named.clone())?;
    while !nodes::ends_within(node.pid, LOOK) {}
    match arguments.form.is_json() {
        true => say!("{}", json!({"node": node.name(), "process": node.pid}))?,
        false => say!("{named} has ended")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Until somebody ends this process.
pub(crate) async fn told_to_end() {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)] = kinds.map(signal) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}
