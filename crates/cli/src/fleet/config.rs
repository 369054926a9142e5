//! `freshet fleet config`: what the nodes of a group run, sent, watched and taken back.

use super::Which;
use super::configure::secret;
use super::diff;
use super::stages::stages;
use crate::settings::{Source, parse_below};
use crate::text::print;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_base::units;
use freshet_config::document::Document;
use freshet_config::keys::Kind;
use freshet_fleet::config::{
    Author, Band, Bundle, CONFIGURATION_FILE, ConfigState, End, Plan, Release, Secret, Trial,
    Verdict, Version,
};
use freshet_fleet::nats::{FleetError, Link, Read};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long nodes may take to say how they are.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);
/// Time between two looks at a roll-out.
const LOOK_EVERY: Duration = Duration::from_millis(250);
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
    /// See to a roll-out whose command has ended.
    Resume(Group),
}

#[derive(Args)]
struct Group {
    /// Group of nodes, as `fleet.group` in their files.
    #[arg(long, value_name = "NAME", default_value = "all")]
    group: String,
    #[command(flatten)]
    which: Which,
}

#[derive(Args)]
struct Stages {
    /// Stages before that of all nodes: shares (5%), numbers, labels or names of nodes.
    #[arg(long, value_name = "STAGE,...", value_delimiter = ',', default_value = "1,5%")]
    stages: Vec<String>,
    /// The only stage before all: a label, a share or a node.
    #[arg(long, value_name = "STAGE", conflicts_with = "stages")]
    canary: Option<String>,
    /// How long the clients of a node must fare no worse until it keeps a version.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    hold: Duration,
    /// Points of percent that the share of errors (5xx) may rise by.
    #[arg(long, value_name = "N", default_value_t = Band::default().errors_points)]
    errors_points: u8,
    /// Points of percent that the share of hits may fall by.
    #[arg(long, value_name = "N", default_value_t = Band::default().hits_points)]
    hits_points: u8,
    /// Why, for the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
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

fn time(text: &str) -> Result<Duration, String> {
    units::parse_duration(text).map_err(|error| error.to_string())
}

/// Runs the command.
///
/// # Errors
/// The servers refuse, or what is to be sent is wrong.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Push(arguments) => push(arguments).await,
        Command::Diff(arguments) => diff_with(arguments).await,
        Command::History(group) => history(&group).await,
        Command::Status(group) => status(&group).await,
        Command::Rollback(arguments) => rollback(arguments).await,
        Command::Resume(group) => {
            let link = group.which.link().await?;
            see_to(&link, &group, None).await
        }
    }
}

impl Group {
    /// What the nodes of the group say, by name.
    async fn nodes(&self, link: &Link) -> Result<Vec<(String, ConfigState)>> {
        let reports = link.reports(REPORTS_WITHIN).await?.into_iter();
        let of_group = reports.filter_map(|report| Some((report.node, report.config?)));
        Ok(of_group.filter(|(_, state)| state.group == self.group).collect())
    }
}

impl Stages {
    fn plan(&self, nodes: &[(String, ConfigState)]) -> Result<Plan> {
        let words = self.canary.as_ref().map_or(&self.stages[..], std::slice::from_ref);
        let hold_ms = millis(self.hold);
        let band = Band {
            errors_points: self.errors_points,
            hits_points: self.hits_points,
            ..Band::default()
        };
        Ok(Plan {
            stages: stages(words, nodes)?,
            trial: Trial { hold_ms, band },
            patience_ms: hold_ms + millis(PATIENCE),
        })
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

async fn push(arguments: Push) -> Result<ExitCode> {
    let Push { path, secret: file, stages, group } = arguments;
    let secret = file.as_deref().map(secret).transpose()?;
    let bundle = Bundle::read(&path)?;
    examine(&path, &bundle, secret.is_some())?;
    let link = group.which.link().await?;
    // Before anything is sent: who is second hears so.
    let plan = stages.plan(&group.nodes(&link).await?)?;
    let mut read = link.release(&group.group).await?;
    let (name, kept) = bundle.pack(secret.as_ref());
    let version = read.release.begin(name.clone(), plan, author(&stages.why))?;
    link.put_bundle(&name, &kept).await?;
    link.set_release(&group.group, &read).await?;
    see_to(&link, &group, Some(version)).await
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

/// Opens one stage after the other, or takes the version back, until it is not on its way any more. Any
/// number of commands may do so at once: the first to change the document has done it.
async fn see_to(link: &Link, group: &Group, version: Option<Version>) -> Result<ExitCode> {
    let mut version = version;
    let mut stage: Option<(usize, Instant)> = None;
    loop {
        let nodes = group.nodes(link).await?;
        let Read { mut release, revision } = link.release(&group.group).await?;
        let Some(rollout) = &release.rollout else { break };
        let version = version.get_or_insert_with(|| rollout.version.clone());
        if rollout.version != *version {
            break;
        }
        let begun = match stage {
            Some((reached, begun)) if reached == rollout.reached => begun,
            _ => {
                if !group.which.json {
                    say!("version {version}: stage {}", rollout.stage())?;
                }
                stage.insert((rollout.reached, Instant::now())).1
            }
        };
        match rollout.verdict(&nodes, millis(begun.elapsed())) {
            Verdict::Wait(_) => {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            Verdict::Advance => release.advance(),
            Verdict::Finish => release.finish(),
            Verdict::Back(why) => release.back(&why),
        }
        match link.set_release(&group.group, &Read { release, revision }).await {
            Ok(_) | Err(FleetError::Contended) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Some(version) = version else { bail!("nothing is on its way to `{}`", group.group) };
    outcome(link, group, &version).await
}

/// Says what became of a version.
async fn outcome(link: &Link, group: &Group, version: &Version) -> Result<ExitCode> {
    let release = link.release(&group.group).await?.release;
    let end = release.numbered(version.number).map(|past| past.end.clone());
    if group.which.json {
        say!("{}", json!({"version": version, "end": end}))?;
    } else if end == Some(End::Kept) {
        match group.nodes(link).await?.is_empty() {
            true => {
                say!("version {version}: no node of `{}` is there to take it yet", group.group)?
            }
            false => say!("version {version}: all nodes keep it")?,
        }
    }
    match end {
        Some(End::Kept) => Ok(ExitCode::SUCCESS),
        Some(End::Back(_)) if group.which.json => Ok(ExitCode::FAILURE),
        Some(End::Back(why)) => bail!("version {version} was taken back: {why}"),
        None => bail!("version {version} is not known any more"),
    }
}

async fn rollback(arguments: Rollback) -> Result<ExitCode> {
    let Rollback { to, stages, group } = arguments;
    let link = group.which.link().await?;
    let mut read = link.release(&group.group).await?;
    if let Some(rollout) = &read.release.rollout {
        if to.is_some() {
            bail!("version {} is on its way: take it back first", rollout.version);
        }
        let (version, author) = (rollout.version.clone(), author(&stages.why));
        read.release.back(format!("by {}. {}", author.who, author.why).trim_end());
        link.set_release(&group.group, &read).await?;
        say!("version {version} is taken back")?;
        return Ok(ExitCode::SUCCESS);
    }
    let past = match to {
        Some(number) => read.release.numbered(number),
        None => read.release.before(),
    };
    let past = past.context("there is no such version to go back to: see `history`")?;
    let (bundle, number) = (past.version.bundle.clone(), past.version.number);
    let plan = stages.plan(&group.nodes(&link).await?)?;
    let why = format!("back to {number}. {}", stages.why);
    let version = read.release.begin(bundle, plan, author(why.trim_end()))?;
    link.set_release(&group.group, &read).await?;
    see_to(&link, &group, Some(version)).await
}

async fn diff_with(arguments: Diff) -> Result<ExitCode> {
    let Diff { path, with, secret: file, group } = arguments;
    let secret = file.as_deref().map(secret).transpose()?;
    let new = Bundle::read(&path)?;
    let link = group.which.link().await?;
    let release = link.release(&group.group).await?.release;
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
    let release = group.which.link().await?.release(&group.group).await?.release;
    if group.which.json {
        say!("{}", serde_json::to_string(&release)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&told(&release))?;
    Ok(ExitCode::SUCCESS)
}

fn told(release: &Release) -> String {
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
            End::Kept if is_stable => line(&past.version, &past.by, "all nodes run it"),
            End::Kept => line(&past.version, &past.by, "was kept"),
            End::Back(why) => line(&past.version, &past.by, &format!("taken back: {why}")),
        }
    }
    out
}

async fn status(group: &Group) -> Result<ExitCode> {
    let link = group.which.link().await?;
    let release = link.release(&group.group).await?.release;
    let nodes = group.nodes(&link).await?;
    if group.which.json {
        let nodes = nodes.iter().map(|(name, state)| json!({"node": name, "config": state}));
        let nodes: Vec<_> = nodes.collect();
        let (stable, rollout) = (&release.stable, &release.rollout);
        say!("{}", json!({"stable": stable, "rollout": rollout, "nodes": nodes}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = |version: &Option<Version>| {
        version.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string)
    };
    let mut out = format!("{}: {}\n", group.group, shown(&release.stable));
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
