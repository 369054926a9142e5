//! `freshet fleet config`: what the nodes of a group run, sent, watched and taken back.

use super::configure::secret;
use super::diff;
use super::rollout::{remove_bundles, see_to};
use super::stages::stages;
use super::{Believes, Which, tell_disbelieved};
use crate::settings::{Source, parse_below};
use crate::text::print;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_base::units;
use freshet_config::document::Document;
use freshet_config::keys::Kind;
use freshet_fleet::config::{
    Author, Band, Bundle, CONFIGURATION_FILE, ConfigState, End, Plan, Release, Secret, Trial,
    Version,
};
use freshet_fleet::nats::{FleetError, Link, Reports};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long nodes may take to say how they are.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);
/// What a node may take besides the time it holds a version: to fetch it, resolve names, and report.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send a configuration to the nodes of a group, stage by stage, and see how it fares.
    Push(Push),
    /// Show what a folder would change.
    Diff(Diff),
    /// List the versions that were sent: who, when, why, and what became of them.
    History(Group),
    /// Say which version each node runs, and what it refused.
    Status(Group),
    /// Take back what is on its way; else go back to the version before.
    Rollback(Rollback),
    /// Send a version again that nodes refused, once what they refused it for is mended.
    Retry(Retry),
    /// See to a roll-out whose command has ended.
    Resume(Group),
}

#[derive(Args)]
pub(super) struct Group {
    /// Group of nodes, as `fleet.group` in their files.
    #[arg(long = "group", value_name = "NAME", default_value = "all")]
    pub(super) name: String,
    /// Sign what the servers have of the group, although nobody has signed it who is believed.
    #[arg(long, requires = "key")]
    adopt: bool,
    #[command(flatten)]
    pub(super) which: Which,
}

#[derive(Args)]
struct Stages {
    /// Stages before that of all nodes: shares (5%), numbers, labels or names of nodes.
    #[arg(long, value_name = "STAGE,...", value_delimiter = ',', default_value = "1,5%")]
    stages: Vec<String>,
    /// The only stage before all: a label, a share or a node.
    #[arg(long, value_name = "STAGE", conflicts_with = "stages")]
    canary: Option<String>,
    #[command(flatten)]
    tolerance: Tolerance,
    /// Why, for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
}

/// When a change is no good.
#[derive(Args)]
pub(super) struct Tolerance {
    /// How long the clients of a node must fare no worse until it counts as well.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(super) hold: Duration,
    /// Points of percent that the share of errors (5xx) may rise by.
    #[arg(long, value_name = "N", default_value_t = Band::default().errors_points)]
    errors_points: u8,
    /// Points of percent that the share of hits may fall by.
    #[arg(long, value_name = "N", default_value_t = Band::default().hits_points)]
    hits_points: u8,
}

impl Tolerance {
    pub(super) fn band(&self) -> Band {
        let (errors_points, hits_points) = (self.errors_points, self.hits_points);
        Band { errors_points, hits_points, ..Band::default() }
    }
}

#[derive(Args)]
#[command(after_help = "Examples:\n  freshet fleet config push edge/ --why 'longer grace'\n  \
                        freshet fleet config push edge/ --canary berlin --hold 1m\n  \
                        freshet fleet config push edge/ --stages edge-1,10%,50%")]
struct Push {
    /// A folder with a freshet.toml and all that it names, or that file alone.
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// File with the fleet's secret.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    stages: Stages,
    #[command(flatten)]
    group: Group,
}

#[derive(Args)]
struct Diff {
    /// A folder with a freshet.toml and all that it names, or that file alone.
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// The version it is compared with, otherwise the one that the group runs.
    #[arg(long, value_name = "NUMBER")]
    with: Option<u64>,
    /// File with the fleet's secret.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    group: Group,
}

#[derive(Args)]
struct Rollback {
    /// The version to go back to.
    #[arg(long, value_name = "NUMBER")]
    to: Option<u64>,
    #[command(flatten)]
    stages: Stages,
    #[command(flatten)]
    group: Group,
}

#[derive(Args)]
struct Retry {
    /// The version to send again, otherwise the one that was taken back last, or that all run but those
    /// that refused it.
    #[arg(long, value_name = "NUMBER")]
    number: Option<u64>,
    #[command(flatten)]
    stages: Stages,
    #[command(flatten)]
    group: Group,
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// Runs the command.
///
/// # Errors
/// The servers refuse, or what is to be sent is wrong.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let outcome = match arguments.command {
        Command::Push(arguments) => push(arguments).await,
        Command::Diff(arguments) => diff_with(arguments).await,
        Command::History(group) => history(&group).await,
        Command::Status(group) => status(&group).await,
        Command::Rollback(arguments) => {
            let link = arguments.group.link().await?;
            link.permitted(rollback(&link, arguments)).await
        }
        Command::Retry(arguments) => {
            let link = arguments.group.link().await?;
            link.permitted(retry(&link, arguments)).await
        }
        Command::Resume(group) => {
            let link = group.link().await?;
            let rollout = link.release(&group.name).await?.release.rollout;
            let Some(rollout) = rollout else {
                bail!("nothing is on its way to `{}`", group.name);
            };
            link.permitted(see_to(&link, &group, &rollout.version)).await
        }
    };
    outcome.map_err(|error| match error.downcast_ref() {
        Some(FleetError::Signature { .. }) => anyhow!(
            "{error}\n--signer KEY says who else is believed; --adopt goes on from what the servers \
             have, as when the first signature comes to them"
        ),
        _ => error,
    })
}

impl Group {
    async fn link(&self) -> Result<Link> {
        let believes = if self.adopt { Believes::Anybody } else { Believes::Signers };
        self.which.link_that(believes).await
    }

    /// What the nodes of the group say, by name.
    async fn nodes(&self, link: &Link) -> Result<BTreeMap<String, ConfigState>> {
        Ok(self.of(&states(link).await?))
    }

    /// Those of the group.
    fn of(&self, states: &BTreeMap<String, ConfigState>) -> BTreeMap<String, ConfigState> {
        let of_group = states.iter().filter(|(_, state)| state.group == self.name);
        of_group.map(|(name, state)| (name.clone(), state.clone())).collect()
    }
}

impl Stages {
    fn plan(&self, nodes: &BTreeMap<String, ConfigState>) -> Result<Plan> {
        let words = self.canary.as_ref().map_or(&self.stages[..], std::slice::from_ref);
        let labels = nodes.iter().map(|(name, state)| (name.clone(), state.labels.clone()));
        let hold_ms = millis(self.tolerance.hold);
        Ok(Plan {
            stages: stages(words, &labels.collect())?,
            trial: Trial { hold_ms, band: self.tolerance.band() },
            patience_ms: hold_ms + millis(PATIENCE),
        })
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

async fn push(arguments: Push) -> Result<ExitCode> {
    let Push { path, secret: file, stages, group } = arguments;
    let secret = file.as_deref().map(secret).transpose()?;
    let bundle = Bundle::read(&path)?;
    examine(&path, &bundle, secret.is_some())?;
    let link = group.link().await?;
    link.permitted(send(&link, &bundle.pack(secret.as_ref()), &stages, &group)).await
}

async fn send(
    link: &Link,
    (name, kept): &(String, Vec<u8>),
    stages: &Stages,
    group: &Group,
) -> Result<ExitCode> {
    let states = states(link).await?;
    let nodes = group.of(&states);
    if nodes.is_empty() {
        tell!("no node of group `{}` answers{}\n", group.name, others(&states));
    }
    // Before anything is sent: who is second hears so.
    let plan = stages.plan(&nodes)?;
    let mut read = link.release(&group.name).await?;
    let version = read.release.begin(name.clone(), plan, author(&stages.why))?;
    link.put_bundle(name, kept).await?;
    link.set_release(&group.name, &read).await?;
    let outcome = see_to(link, group, &version).await;
    remove_bundles(link, group).await?;
    outcome
}

/// How each node that gets its configuration from the fleet says that this is, by name.
async fn states(link: &Link) -> Result<BTreeMap<String, ConfigState>> {
    let Reports { reports, disbelieved } = link.reports(REPORTS_WITHIN).await?;
    tell_disbelieved(&disbelieved);
    let states = reports.into_iter().filter_map(|report| Some((report.node, report.config?)));
    Ok(states.collect())
}

/// The groups there are nodes of, for who has misspelt one.
fn others(states: &BTreeMap<String, ConfigState>) -> String {
    let groups: BTreeSet<_> = states.values().map(|state| state.group.as_str()).collect();
    let groups: Vec<_> = groups.into_iter().collect();
    match groups.as_slice() {
        [] => String::new(),
        groups => format!("; of these groups some do: {}", groups.join(", ")),
    }
}

/// What can be found out here of what is wrong with a bundle; the nodes find out the rest.
fn examine(path: &Path, bundle: &Bundle, is_sealed: bool) -> Result<()> {
    let file = if path.is_dir() { path.join(CONFIGURATION_FILE) } else { path.to_owned() };
    let text = bundle.file(CONFIGURATION_FILE).unwrap_or_default();
    let text = std::str::from_utf8(text).with_context(|| format!("{}", file.display()))?;
    let shown = file.display().to_string();
    let wrong = |mistakes| Source::of(&shown, text).wrong(mistakes);
    // What is relative is in the bundle; what is not is a file of each node.
    let document = parse_below(text, Path::new("")).map_err(wrong)?;
    for (key, name) in document.files().filter(|(_, name)| !Path::new(name).is_absolute()) {
        if bundle.file(name).is_none() {
            bail!("{shown}: `{}` names `{name}`, which is not there", key.path);
        }
    }
    if is_sealed {
        return Ok(());
    }
    if let Some(name) = secrets(&document, bundle).next() {
        bail!(
            "`{name}` is secret, and the servers of the fleet would have it in the clear: give \
             --secret, as `freshet fleet secret` makes it, and `fleet.secret` to the nodes; or leave \
             the file on each node, and name it with its whole path"
        );
    }
    Ok(())
}

/// Files of a bundle that nobody else is to read.
fn secrets<'a>(document: &'a Document, bundle: &'a Bundle) -> impl Iterator<Item = &'a str> {
    let is_secret = |kind: Kind| matches!(kind, Kind::SecretFile | Kind::SecretFiles);
    let named = document.files().filter(move |(key, _)| is_secret(key.kind)).map(|(_, name)| name);
    let marked = |bytes: &[u8]| {
        let mark = b"PRIVATE KEY-----";
        bytes.windows(mark.len()).any(|part| part == mark)
    };
    let keys = bundle.files().filter(move |(_, bytes)| marked(bytes)).map(|(name, _)| name);
    named.filter(|name| !Path::new(name).is_absolute()).chain(keys)
}

async fn rollback(link: &Link, arguments: Rollback) -> Result<ExitCode> {
    let Rollback { to, stages, group } = arguments;
    let mut read = link.release(&group.name).await?;
    if let Some(rollout) = &read.release.rollout {
        if to.is_some() {
            bail!("version {} is on its way: take it back first", rollout.version);
        }
        let (version, author) = (rollout.version.clone(), author(&stages.why));
        read.release.back(format!("by {}. {}", author.who, author.why).trim_end());
        link.set_release(&group.name, &read).await?;
        say!("version {version} is taken back")?;
        return Ok(ExitCode::SUCCESS);
    }
    let past = match to {
        Some(number) => read.release.numbered(number),
        None => read.release.before(),
    };
    let past = past.context("there is no such version to go back to: see `history`")?;
    let (bundle, number) = (past.version.bundle.clone(), past.version.number);
    let plan = stages.plan(&group.nodes(link).await?)?;
    let why = format!("back to {number}. {}", stages.why);
    let version = read.release.begin(bundle, plan, author(why.trim_end()))?;
    link.set_release(&group.name, &read).await?;
    see_to(link, &group, &version).await
}

/// Nodes do not try again what they refused. The same bundle under another number is something else.
async fn retry(link: &Link, arguments: Retry) -> Result<ExitCode> {
    let Retry { number, stages, group } = arguments;
    let mut read = link.release(&group.name).await?;
    let nodes = group.nodes(link).await?;
    let past = match number {
        Some(number) => read.release.numbered(number).with_context(|| {
            format!("there is no version {number} to send again: see `history`")
        })?,
        None => read.release.to_retry(&nodes).context(
            "no version was taken back last, and no node has refused the one that all run: give \
             --number, as `history` lists them",
        )?,
    };
    let (bundle, number) = (past.version.bundle.clone(), past.version.number);
    let why = format!("{number} again. {}", stages.why);
    let plan = stages.plan(&nodes)?;
    let version = read.release.begin(bundle, plan, author(why.trim_end()))?;
    link.set_release(&group.name, &read).await?;
    see_to(link, &group, &version).await
}

async fn diff_with(arguments: Diff) -> Result<ExitCode> {
    let Diff { path, with, secret: file, group } = arguments;
    let secret = file.as_deref().map(secret).transpose()?;
    let new = Bundle::read(&path)?;
    let link = group.link().await?;
    let release = link.release(&group.name).await?.release;
    let old = match with {
        Some(number) => {
            let past = release.numbered(number);
            Some(&past.with_context(|| format!("there is no version {number}"))?.version)
        }
        None => release.stable.as_ref(),
    };
    let old = match old {
        Some(version) => bundle(&link, version, secret.as_ref()).await?,
        None => Bundle::default(),
    };
    let text = new.file(CONFIGURATION_FILE).unwrap_or_default();
    let document = Document::parse(&String::from_utf8_lossy(text)).unwrap_or_default();
    let hidden: Vec<_> =
        secrets(&document, &new).chain(secrets(&document, &old)).map(str::to_owned).collect();
    print(&diff::shown(&old, &new, &hidden))?;
    Ok(ExitCode::SUCCESS)
}

async fn bundle(link: &Link, version: &Version, secret: Option<&Secret>) -> Result<Bundle> {
    let kept = link.bundle(&version.bundle).await?;
    let kept = kept.with_context(|| format!("the servers do not have version {version}"))?;
    Ok(Bundle::unpack(&version.bundle, kept, secret)?)
}

async fn history(group: &Group) -> Result<ExitCode> {
    let link = group.link().await?;
    let release = link.release(&group.name).await?.release;
    if group.which.form.is_json() {
        say!("{}", serde_json::to_string(&release)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let nodes = group.nodes(&link).await?;
    print(&told(&release, nodes.values().any(|state| state.kept == release.stable)))?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of a history, by whether a node has said that it runs the group's version.
fn told(release: &Release, is_run: bool) -> String {
    let mut out = String::new();
    let mut line = |version: &Version, by: &Author, end: &str| {
        let mut at = Vec::new();
        freshet_http::date::write(UnixMillis(by.at_ms), &mut at);
        let at = String::from_utf8_lossy(&at).into_owned();
        let _ = writeln!(out, "{version}  {at}  {}  {end}", by.who);
        if !by.why.is_empty() {
            let _ = writeln!(out, "    why: {}", by.why);
        }
    };
    if let Some(rollout) = &release.rollout {
        line(&rollout.version, &rollout.by, &format!("on its way, stage {}", rollout.stage()));
    }
    for past in &release.history {
        let is_stable = release.stable.as_ref() == Some(&past.version);
        match &past.end {
            End::Kept if is_stable && !is_run => {
                line(&past.version, &past.by, "no node says that it has it");
            }
            End::Kept if is_stable => line(&past.version, &past.by, "all nodes run it"),
            End::Kept => line(&past.version, &past.by, "was kept"),
            End::Back(why) => line(&past.version, &past.by, &format!("taken back: {why}")),
        }
    }
    out
}

async fn status(group: &Group) -> Result<ExitCode> {
    let link = group.link().await?;
    let release = link.release(&group.name).await?.release;
    let nodes = group.nodes(&link).await?;
    if group.which.form.is_json() {
        let nodes = nodes.iter().map(|(name, state)| json!({"node": name, "config": state}));
        let nodes: Vec<_> = nodes.collect();
        let (stable, rollout) = (&release.stable, &release.rollout);
        say!("{}", json!({"stable": stable, "rollout": rollout, "nodes": nodes}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = |version: &Option<Version>| {
        version.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    let mut out = format!("{}: {}\n", group.name, shown(&release.stable));
    if let Some(rollout) = &release.rollout {
        let _ = writeln!(out, "on its way: {}, stage {}", rollout.version, rollout.stage());
    }
    for (name, state) in &nodes {
        let _ = write!(out, "{name:<32} {}", shown(&state.kept));
        if let Some(trying) = &state.trying {
            let _ = write!(out, ", tries {trying}");
        }
        out.push('\n');
        if let Some(refusal) = &state.refused {
            let first = refusal.why.lines().next().unwrap_or_default();
            let _ = writeln!(out, "    refused {}: {first}", refusal.version);
        }
        if let Some(problem) = &state.problem {
            let _ = writeln!(out, "    {problem}");
        }
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

fn author(why: &str) -> Author {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let user = user.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string());
    let host = freshet_base::machine::host_name().unwrap_or_default();
    Author { who: format!("{user}@{host}"), at_ms: UnixMillis::now().0, why: why.to_owned() }
}
