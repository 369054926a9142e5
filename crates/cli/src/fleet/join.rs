//! `freshet fleet join`: a machine that becomes a node of a fleet.

use anyhow::{Context, Result, bail};
use clap::Args;
use freshet_base::clock::UnixMillis;
use freshet_base::file::read_text;
use freshet_fleet::identity::{Identity, IdentityError, Member, Token};
use freshet_fleet::limits::TOKEN_BYTES_MAX;
use freshet_fleet::nats::{FleetError, join};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

/// `freshet fleet join`
#[derive(Args)]
#[command(
    after_help = "Example:\n  freshet fleet join --token edge-7.token --write /etc/freshet/freshet.toml\n\n\
                        Where it was cut short, give the command again: the token knows this machine by its key."
)]
pub(super) struct Arguments {
    /// File with the token; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    token: PathBuf,
    /// Server of NATS in place of those that the token names; repeatable.
    #[arg(long = "server", value_name = "URL")]
    servers: Vec<String>,
    /// Folder for the certificate and the key, which nobody else is to read.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/freshet/fleet")]
    identity: PathBuf,
    /// Folder for the configuration that it gets, where its group has one.
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/freshet/config")]
    config: PathBuf,
    /// The node's configuration file, which gets a `[fleet]` where it has none; otherwise it is printed.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The token, its time, servers and an issuer that cannot be had, a refusal, files.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { token, servers, identity, config, write } = arguments;
    let shown = || token.display().to_string();
    let path = if token.as_os_str() == "-" { Path::new("/dev/stdin") } else { &token };
    let text = read_text(path, TOKEN_BYTES_MAX as u64).with_context(shown)?;
    let token = Token::parse(&text).with_context(shown)?;
    let identity = Identity::new(&absolute(identity)?);
    let servers = if servers.is_empty() { token.servers.clone() } else { servers };
    let fleet = token.fleet.clone();
    let joining = identity.join(token, UnixMillis::now())?;
    let joined = join(joining, &servers).await;
    if let Err(FleetError::Identity(refused @ IdentityError::Refused(_))) = &joined
        && identity.certificate().exists()
    {
        identity.joined()?;
        bail!(
            "{refused}\nthis machine has joined: its certificate is {}",
            identity.certificate().display()
        );
    }
    let (member, _) = joined?;
    let section = section(&fleet, &servers, &member, &identity, &absolute(config)?);
    match &write {
        Some(file) => append(file, &section).with_context(|| file.display().to_string())?,
        None => say!("{section}")?,
    }
    identity.joined()?;
    tell!("{} has joined the fleet `{fleet}`\n", member.node);
    Ok(ExitCode::SUCCESS)
}

/// What a node's configuration says of its fleet.
fn section(
    fleet: &str,
    servers: &[String],
    member: &Member,
    identity: &Identity,
    config: &Path,
) -> String {
    let text = |path: &Path| format!("{:?}", path.display().to_string());
    let mut out = format!(
        "[fleet]\nservers = {servers:?}\nname = {fleet:?}\nnode = {:?}\nidentity = {}\nsecret = {}\nlabels = {:?}\n",
        member.node,
        text(identity.folder()),
        text(&identity.secret()),
        member.labels
    );
    if let Some(group) = &member.group {
        out += &format!("group = {group:?}\nconfig = {}\n", text(config));
    }
    out
}

/// Writes the section at the end of a file, where that has none.
fn append(file: &Path, section: &str) -> Result<()> {
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    if before.lines().any(|line| line.trim() == "[fleet]") {
        tell!("{} has a [fleet] already: have it say\n\n{section}", file.display());
        return Ok(());
    }
    let gap = if before.is_empty() { "" } else { "\n" };
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{gap}{section}").as_bytes())?;
    Ok(file.sync_all()?)
}
