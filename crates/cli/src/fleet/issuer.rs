//! `freshet fleet issuer` and `token`: who lets machines into the fleet.

use super::shown;
use crate::stop::told_to_end;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_base::units::parse_duration;
use freshet_fleet::identity::{Answer, Issuer, Member};
use freshet_fleet::limits::{NODE_LIFE_MAX, TOKEN_LIFE_MAX};
use freshet_fleet::nats::{Issued, Link, issue};
use std::fs::File;
use std::path::{PathBuf, absolute};
use std::process::ExitCode;
use std::time::Duration;

/// `freshet fleet issuer`
#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the issuing key, and what operators and the servers of NATS show; or what is missing of it.
    Init(Init),
    /// Answer nodes that join, and those whose certificates end.
    Run(Run),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  freshet fleet issuer init issuer/ --fleet tv --server tls://nats-1.example:4222\n\n\
                        Each server gets its folder `servers/HOST` as --servers-folder, and `include` of the file \
                        `fleet.conf` in it. Given again it makes anew what ends within eight months, and the folders \
                        of further servers."
)]
struct Init {
    /// Folder of the issuing key, which nobody else is to read.
    folder: PathBuf,
    /// Name of the fleet.
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    fleet: String,
    /// Server of NATS as nodes reach it, tls://HOST:PORT; repeatable.
    #[arg(long = "server", value_name = "URL", required = true)]
    servers: Vec<String>,
    /// Where the servers will have their folder.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/nats/fleet")]
    servers_folder: PathBuf,
}

#[derive(Args)]
struct Run {
    /// Folder of the issuing key.
    folder: PathBuf,
    /// How long a node's certificate holds. It asks for the next when a third of that is left.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = node_life)]
    life: Duration,
}

/// `freshet fleet token`
#[derive(Args)]
#[command(
    after_help = "Example:\n  freshet fleet token issuer/ edge-7 --label berlin > edge-7.token"
)]
pub(super) struct Token {
    /// Folder of the issuing key.
    folder: PathBuf,
    /// The name that the node is to have.
    node: String,
    /// Group whose configuration it is to get.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// What roll-outs may choose it by, as its region; repeatable.
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// How long the token holds.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = token_life)]
    life: Duration,
}

fn node_life(text: &str) -> Result<Duration, String> {
    bounded(text, NODE_LIFE_MAX)
}

fn token_life(text: &str) -> Result<Duration, String> {
    bounded(text, TOKEN_LIFE_MAX)
}

fn bounded(text: &str, most: Duration) -> Result<Duration, String> {
    let life = parse_duration(text).map_err(|error| error.to_string())?;
    match (Duration::from_secs(1)..=most).contains(&life) {
        true => Ok(life),
        false => Err(format!("1s to {}d", most.as_secs() / 86_400)),
    }
}

/// Runs the command.
///
/// # Errors
/// The folder, servers that cannot be reached, another process that answers already.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Init(Init { folder, fleet, servers, servers_folder }) => {
            let now = UnixMillis::now();
            let servers_folder = absolute(servers_folder)?;
            let issuer = Issuer::init(&folder, &fleet, &servers, &servers_folder, now)?;
            say!("the issuer of the fleet `{}` is in {}", issuer.fleet(), folder.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(Run { folder, life }) => {
            crate::serve::log();
            let issuer = Issuer::open(&folder)?;
            let path = issuer.lock_path();
            let lock = File::create(&path).with_context(|| path.display().to_string())?;
            if lock.try_lock().is_err() {
                bail!("another process answers for the issuing key in {}", folder.display());
            }
            let link = Link::connect(&shown(&issuer.operator())?, true).await?;
            tokio::select! {
                () = issue(&link, &issuer, life, log) => {}
                () = told_to_end() => {}
            }
            drop(lock);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn log(issued: Issued) {
    match issued {
        Issued::Heard => tracing::info!("answers for the issuing key"),
        Issued::Answered(answer) => match *answer {
            Answer::Given(given) => {
                tracing::info!(node = given.member.node, "was given a certificate");
            }
            Answer::Refused { why } => tracing::warn!(why, "a request was refused"),
        },
        Issued::Unanswered(error) => tracing::error!(%error, "a request is not answered"),
    }
}

/// Prints a token.
///
/// # Errors
/// The folder, names.
pub(super) fn token(arguments: Token) -> Result<ExitCode> {
    let Token { folder, node, group, labels, life } = arguments;
    let issuer = Issuer::open(&folder)?;
    let token = issuer.token(Member { node, group, labels }, life, UnixMillis::now())?;
    say!("{}", token.text())?;
    Ok(ExitCode::SUCCESS)
}
