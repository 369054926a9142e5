//! `freshet fleet`: nodes that follow one log of purges, and get their configuration.

mod act;
mod config;
mod configure;
mod diff;
mod drain;
mod handover;
mod issuer;
mod join;
mod key;
mod load;
mod member;
mod remove;
mod renew;
mod rollout;
mod stages;
mod upgrade;

use crate::form::FormArguments;
use act::Acting;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
pub(crate) use configure::Configured;
use freshet_fleet::config::Secret;
use freshet_fleet::identity::{Disbelief, Identity};
use freshet_fleet::nats::{
    Belongs, Configures, Does, Follower, Link, LinkSettings, NodeSettings, Reports, Retention,
    Waited, publish, wait,
};
use freshet_fleet::signature::{Signer, Signers, SigningKey};
use freshet_fleet::{Change, Outcome, Scope};
use handover::HandsOver;
use member::Member;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Where servers are that nobody names.
const SERVER: &str = "nats://127.0.0.1:4222";
/// How long nodes may take to say how they are.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);

/// `freshet fleet`
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the log of a fleet on servers of NATS with JetStream.
    Init(Init),
    /// Have an issuing key of the fleet's own, and answer for it.
    Issuer(issuer::Arguments),
    /// Print a token that lets one machine join, once.
    Token(issuer::Token),
    /// Have this machine join a fleet with a token.
    Join(join::Arguments),
    /// List the nodes, how far each is, and which do not answer.
    List(Which),
    /// Purge at all nodes; returns when the log has it on disk.
    Purge(Purge),
    /// Have routers send a node no new clients, or new ones again.
    Drain(drain::Arguments),
    /// Have a node that is gone for good belong to the fleet no more.
    Remove(remove::Arguments),
    /// Get a later certificate, where no node does by itself.
    Renew(renew::Arguments),
    /// Send configurations to nodes, and take them back.
    Config(config::Arguments),
    /// Have nodes hand over to the program that is installed on their machines, a few at a time.
    Upgrade(upgrade::Arguments),
    /// Print a new secret, which configurations are sealed with.
    Secret,
    /// Make an operator's key, and print the public one, which nodes know the operator by.
    Key(key::Arguments),
}

/// Which fleet.
#[derive(Args)]
struct Which {
    /// Server of NATS; repeatable. Otherwise those that --identity knows, or nats://127.0.0.1:4222.
    #[arg(long = "server", value_name = "URL")]
    servers: Vec<String>,
    /// Name of the fleet. Otherwise the one that --identity is of, or `fleet`.
    #[arg(long, value_name = "NAME")]
    fleet: Option<String>,
    /// Folder with a certificate of the fleet's issuer, as `freshet fleet issuer init` makes one for operators.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["credentials", "ca"])]
    identity: Option<PathBuf>,
    /// File with credentials, as `nsc` makes it.
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// PEM file of the authorities to trust.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Sign what is sent with this operator's key, as `freshet fleet key` makes it.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Public key of another operator whose configurations are believed; repeatable.
    #[arg(long = "signer", value_name = "KEY")]
    signers: Vec<Signer>,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
struct Init {
    /// Servers that keep the log: 1, 3 or 5.
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
    /// Entries it keeps.
    #[arg(long, value_name = "N", default_value_t = Retention::default().entries_max)]
    entries_max: u32,
    #[command(flatten)]
    which: Which,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  freshet fleet purge --wait http://www.example/news.html\n  \
                        freshet fleet purge --tag news --soft\n  freshet fleet purge --all --site www")]
struct Purge {
    /// URLs as clients ask for them, host included.
    #[arg(value_name = "URL", required_unless_present_any = ["tag", "all", "ban"])]
    urls: Vec<String>,
    /// Everything the origin sent with this Surrogate-Key or Cache-Tag; repeatable.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Everything.
    #[arg(long, conflicts_with_all = ["urls", "tag", "ban"])]
    all: bool,
    /// What this ban of VCL is true for; repeatable.
    #[arg(long, value_name = "BAN")]
    ban: Vec<String>,
    /// With --tag or --all: of this site only.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Keep it as stale, to be served while it is refreshed.
    #[arg(long)]
    soft: bool,
    /// Wait until all nodes have carried it out, or have noticed that they are cut off.
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    deadline_ms: u64,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
///
/// # Errors
/// The servers cannot be reached or refuse.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.command {
            Command::Init(arguments) => init(arguments).await,
            Command::List(which) => list(which).await,
            Command::Purge(arguments) => purge(arguments).await,
            Command::Drain(arguments) => drain::run(arguments).await,
            Command::Config(arguments) => config::run(arguments).await,
            Command::Upgrade(arguments) => upgrade::run(arguments).await,
            Command::Key(arguments) => key::run(&arguments),
            Command::Secret => {
                say!("{}", Secret::random()?.text())?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Renew(arguments) => renew::run(arguments).await,
            Command::Remove(arguments) => remove::run(arguments).await,
            Command::Issuer(arguments) => issuer::run(arguments).await,
            Command::Token(arguments) => issuer::token(arguments),
            Command::Join(arguments) => join::run(arguments).await,
        }
    })
}

/// Has a node follow the log its configuration names, if it names one, and get its configuration.
///
/// # Errors
/// What cannot be used of it.
pub(crate) fn follow(configured: Configured) -> Result<Option<Follower>> {
    let node = Arc::clone(&configured.node);
    let snapshot = node.snapshot();
    let Some(fleet) = &snapshot.settings.fleet else { return Ok(None) };
    let name = match &fleet.node {
        Some(name) => name.clone(),
        None => machine_name().context("this machine's name is not known: give fleet.node")?,
    };
    let identity = fleet.identity.as_deref().map(Identity::new);
    let certificate =
        identity.as_ref().map(|identity| (identity.certificate(), identity.certificate()));
    let settings = NodeSettings {
        link: LinkSettings {
            servers: fleet.servers.clone(),
            fleet: fleet.name.clone(),
            credentials: fleet.credentials.clone(),
            ca: fleet.ca.clone().or_else(|| identity.as_ref().map(Identity::ca)),
            certificate: fleet.certificate.clone().or(certificate),
            signers: Signers::new(fleet.signers.iter().copied().map(Signer::from)),
            ..LinkSettings::default()
        },
        node: name,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let acting = Acting::new(Arc::clone(&node), &fleet.name, fleet.state.clone());
    let hands_over = HandsOver::new(&configured);
    let config = fleet.config.as_ref().map(configure::settings).transpose()?;
    let does = Does {
        acts: Arc::new(acting),
        config: config.map(|config| (config, Arc::new(configured) as Arc<dyn Configures>)),
        upgrades: Some(Arc::new(hands_over)),
        belongs: identity.map(|identity| {
            Arc::new(Member { node, fleet: fleet.name.clone(), identity }) as Arc<dyn Belongs>
        }),
    };
    Follower::start_with(settings, does).context("the fleet").map(Some)
}

fn machine_name() -> Option<String> {
    let name = freshet_base::machine::host_name()?;
    name.split('.').next().map(str::to_owned).filter(|name| !name.is_empty())
}

impl Which {
    async fn link(&self) -> Result<Link> {
        self.link_that(Believes::Signers).await
    }

    /// Who signs what is sent believes himself and the others he names, unless he adopts what is there.
    async fn link_that(&self, believes: Believes) -> Result<Link> {
        let key = self.key.as_deref().map(key::read).transpose()?;
        let own = key.iter().map(SigningKey::signer);
        let signers = match believes {
            Believes::Signers => Signers::new(own.chain(self.signers.iter().copied())),
            Believes::Anybody => Signers::default(),
        };
        let settings = match &self.identity {
            Some(folder) => shown(&Identity::new(folder))?,
            None => LinkSettings { servers: vec![SERVER.to_owned()], ..LinkSettings::default() },
        };
        let servers = if self.servers.is_empty() { settings.servers } else { self.servers.clone() };
        let settings = LinkSettings {
            servers,
            fleet: self.fleet()?,
            credentials: self.credentials.clone(),
            ca: self.ca.clone().or(settings.ca),
            key,
            signers,
            ..settings
        };
        Ok(Link::connect(&settings, false).await?)
    }

    /// The fleet's name.
    fn fleet(&self) -> Result<String> {
        match (&self.fleet, &self.identity) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(folder)) => Ok(Identity::new(folder).fleet()?.0),
            (None, None) => Ok("fleet".to_owned()),
        }
    }
}

/// How to reach the fleet that a folder is of, with what is in it.
fn shown(identity: &Identity) -> Result<LinkSettings> {
    let (fleet, servers) = identity.fleet()?;
    let certificate = identity.certificate();
    Ok(LinkSettings {
        servers,
        fleet,
        ca: Some(identity.ca()),
        issuer: Some(identity.ca()),
        certificate: Some((certificate.clone(), certificate)),
        ..LinkSettings::default()
    })
}

/// Whose documents a command goes on from.
#[derive(Clone, Copy)]
enum Believes {
    Signers,
    Anybody,
}

async fn init(arguments: Init) -> Result<ExitCode> {
    let Init { replicas, entries_max, which } = arguments;
    which.link().await?.init(Retention { replicas, entries_max }).await?;
    say!("the fleet `{}` is there", which.fleet()?)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(which: Which) -> Result<ExitCode> {
    let link = which.link().await?;
    let (end, nodes) = (link.ask().await?.last.sequence, link.nodes().await?);
    let Reports { reports, disbelieved } = link.reports(REPORTS_WITHIN).await?;
    let silent: Vec<_> =
        nodes.iter().filter(|name| !reports.iter().any(|one| one.node == **name)).collect();
    if which.form.is_json() {
        let answer =
            json!({"log": end, "nodes": reports, "silent": silent, "disbelieved": disbelieved});
        say!("{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!("{:<32} {:>12}  state\n", "node", "applied");
    for report in &reports {
        let state = match report {
            report if report.hands_over() => "hands over",
            report if report.fenced => "fenced",
            report if report.drained => "drained",
            _ => "serves",
        };
        out += &format!("{:<32} {:>12}  {state}\n", report.node, report.sequence);
    }
    for name in silent {
        let state = match disbelieved.get(name) {
            Some(why) => format!("is not believed: {why}"),
            None => "does not answer".to_owned(),
        };
        out += &format!("{name:<32} {:>12}  {state}\n", "-");
    }
    say!("{out}the log is at {end}")?;
    Ok(ExitCode::SUCCESS)
}

async fn purge(arguments: Purge) -> Result<ExitCode> {
    let changes = changes(&arguments)?;
    let Purge { wait: waits, deadline_ms, which, site, .. } = arguments;
    let link = which.link().await?;
    let purged = link.permitted(async {
        if waits {
            return wait(&link, &changes, Duration::from_millis(deadline_ms)).await;
        }
        let place = publish(&link, &changes).await?;
        Ok(Waited { place, outcome: Outcome::Waiting(Vec::new()), disbelieved: BTreeMap::new() })
    });
    let Waited { place, outcome, disbelieved } = purged.await?;
    let (word, names, code) = match outcome {
        Outcome::Applied => ("applied", Vec::new(), ExitCode::SUCCESS),
        Outcome::NotMeant => ("no-site", Vec::new(), ExitCode::FAILURE),
        Outcome::Fenced(names) => ("fenced", names, ExitCode::SUCCESS),
        Outcome::Refused(names) => ("refused", names, ExitCode::FAILURE),
        Outcome::Nobody => ("nobody", Vec::new(), ExitCode::FAILURE),
        Outcome::Waiting(names) if names.is_empty() => ("accepted", names, ExitCode::SUCCESS),
        Outcome::Waiting(names) => ("waiting", names, ExitCode::FAILURE),
    };
    if which.form.is_json() {
        let answer = json!({
            "sequence": place.sequence, "outcome": word, "nodes": names, "disbelieved": disbelieved,
        });
        say!("{answer}")?;
        return Ok(code);
    }
    let names = names.join(", ");
    let says = match word {
        "applied" => "all nodes have carried it out".to_owned(),
        "fenced" => {
            format!("all nodes have carried it out but {names}, which serve nothing stored")
        }
        "refused" => format!(
            "not carried out by {names}, which believe their signers only: give --key, one of those"
        ),
        "no-site" => {
            let site = site.unwrap_or_default();
            format!("nothing was there to be purged: no node has a site `{site}`")
        }
        "nobody" => "the log has it, but no node is in the list that could carry it out".to_owned(),
        "accepted" => "the log has it".to_owned(),
        _ => format!("not carried out yet by {names}"),
    };
    say!("entry {}: {says}", place.sequence)?;
    tell_disbelieved(&disbelieved);
    Ok(code)
}

/// Says in whose names something was said that is not believed, and why.
fn tell_disbelieved(disbelieved: &BTreeMap<String, Disbelief>) {
    for (node, why) in disbelieved {
        tell!("{node} is not believed: what is said in its name is {why}\n");
    }
}

fn changes(arguments: &Purge) -> Result<Vec<Change>> {
    let soft = arguments.soft;
    let scope = || Scope { site: arguments.site.clone() };
    let mut changes = Vec::new();
    for url in &arguments.urls {
        if freshet_admin::request_of(url).is_none() {
            bail!(
                "`{url}` is not a URL: write it as clients ask for it, http://www.example/a.html"
            );
        }
        changes.push(Change::Purge { url: url.clone(), soft });
    }
    let tags = arguments.tag.iter();
    changes.extend(tags.map(|tag| Change::PurgeTag { tag: tag.clone(), soft, scope: scope() }));
    changes.extend(arguments.all.then(|| Change::PurgeAll { soft, scope: scope() }));
    for text in &arguments.ban {
        freshet_node::bans::check(text).map_err(|why| anyhow!("the ban `{text}`: {why}"))?;
        changes.push(Change::Ban { text: text.clone() });
    }
    Ok(changes)
}
