//! `freshet fleet remove`: a node that belongs to the fleet no more.

use super::Which;
use anyhow::{Result, ensure};
use clap::Args;
use freshet_fleet::identity::node_name;
use freshet_fleet::nats::Link;
use std::process::ExitCode;

/// `freshet fleet remove`
#[derive(Args)]
#[command(
    after_help = "With --identity, no node of the fleet takes its certificates any more, and it gets no later ones."
)]
pub(super) struct Arguments {
    /// Its name.
    node: String,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
///
/// # Errors
/// The servers cannot be reached or refuse, or there is no such node.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let link = arguments.which.link().await?;
    link.permitted(remove(&link, arguments)).await
}

async fn remove(link: &Link, arguments: Arguments) -> Result<ExitCode> {
    let Arguments { node, which } = arguments;
    let fleet = which.fleet()?;
    if which.identity.is_some() {
        // One that has joined and never run is in no list.
        link.remove_identity(&node).await?;
        link.set_member(&node, false).await?;
        let name = node_name(&fleet, &node);
        say!(
            "{node} belongs to the fleet no more. Servers let it in until its certificate ends, unless they have\n  \
             {{ user: \"{name}\", permissions: {{ publish: {{ deny: \">\" }}, subscribe: {{ deny: \">\" }} }} }}\n\
             among the `users` of nodes in fleet.conf, and are told to read it again (`nats-server --signal reload`). Its store is to be\n\
             in a server's file for that, not in its command line (`-js`, `-sd`)"
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(link.nodes().await?.contains(&node), "the fleet `{fleet}` has no node `{node}`");
    link.set_member(&node, false).await?;
    Ok(ExitCode::SUCCESS)
}
