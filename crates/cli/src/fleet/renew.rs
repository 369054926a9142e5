//! `freshet fleet renew`: a later certificate for a machine on which no node sees to that.

use super::Which;
use anyhow::{Context, Result};
use clap::Args;
use freshet_base::clock::UnixMillis;
use freshet_fleet::identity::Identity;
use freshet_fleet::nats::renew;
use std::process::ExitCode;

/// `freshet fleet renew`
#[derive(Args)]
#[command(
    after_help = "Nodes do this by themselves. For a router, have a timer do it once a week:\n  \
                        freshet fleet renew --identity /etc/freshet/fleet"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
///
/// # Errors
/// No --identity, servers or an issuer that cannot be had, a refusal.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { which } = arguments;
    let folder = which.identity.as_deref().context("give --identity, the folder to renew")?;
    let facts = renew(&which.link().await?, &Identity::new(folder)).await?;
    let days = facts.until.since(UnixMillis::now()).as_secs() / 86_400;
    say!("the certificate in {} holds for {days} days", folder.display())?;
    Ok(ExitCode::SUCCESS)
}
