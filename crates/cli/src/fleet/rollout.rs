//! Seeing to a roll-out: one stage after the other, by what nodes say as they say it.

use super::config::{Group, millis};
use anyhow::{Result, bail};
use freshet_fleet::config::{ConfigState, End, Release, Rollout, Verdict, Version};
use freshet_fleet::limits::BUNDLE_KEPT_MIN;
use freshet_fleet::nats::{FleetError, Heard, Link, Read, Watch};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between two looks at the group's document. A change is told besides, and what was told may be
/// lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time until servers that do not answer are asked again.
const AGAIN_EVERY: Duration = Duration::from_millis(500);
/// How long servers may be away until a command gives up; whoever comes then finds it where it is.
const AWAY_MAX: Duration = Duration::from_secs(600);

/// Opens one stage after the other, or takes the version back, until it is not on its way any more. Any
/// number of commands may do so at once: the first to change the document has done it. Servers that are
/// away are waited for.
///
/// # Errors
/// The version was taken back, or the servers were away for too long.
pub(super) async fn see_to(link: &Link, group: &Group, version: &Version) -> Result<ExitCode> {
    let mut servers = Servers { away_since: None, is_silent: group.which.form.is_json() };
    let mut watch = loop {
        if let Some(watch) = servers.answered(link.watch(Some(&group.name)).await).await? {
            break watch;
        }
    };
    let mut nodes = BTreeMap::new();
    let mut stage: Option<(usize, Instant)> = None;
    let mut told = None;
    let release = loop {
        let read = link.release(&group.name).await;
        let Some(Read { mut release, revision }) = servers.answered(read).await? else {
            // What nodes did meanwhile nobody heard: they have their time once more.
            stage = None;
            continue;
        };
        let Some(rollout) = release.rollout.as_ref().filter(|one| one.version == *version) else {
            break release;
        };
        let begun = match stage {
            Some((reached, begun)) if reached == rollout.reached => begun,
            _ => stage.insert((rollout.reached, Instant::now())).1,
        };
        if told.replace(rollout.reached) != Some(rollout.reached) && !group.which.form.is_json() {
            say!("version {version}: stage {}", rollout.stage())?;
        }
        match decided(rollout, begun, &group.name, &mut watch, &mut nodes).await {
            None => continue,
            Some(Verdict::Wait(_)) => continue,
            Some(Verdict::Advance) => release.advance(),
            Some(Verdict::Finish) => release.finish(),
            Some(Verdict::Back(why)) => release.back(&why),
        }
        match link.set_release(&group.name, &Read { release, revision }).await {
            Err(FleetError::Contended) => {}
            set => {
                if servers.answered(set).await?.is_none() {
                    stage = None;
                }
            }
        }
    };
    outcome(group, &release, version, nodes.is_empty())
}

/// What is to be done, once nodes have said enough; nothing where the document is to be looked at first.
async fn decided(
    rollout: &Rollout,
    begun: Instant,
    group: &str,
    watch: &mut Watch,
    nodes: &mut BTreeMap<String, ConfigState>,
) -> Option<Verdict> {
    let looked = Instant::now();
    loop {
        let verdict = rollout.verdict(nodes, millis(begun.elapsed()));
        if !matches!(verdict, Verdict::Wait(_)) {
            return Some(verdict);
        }
        let left = LOOK_EVERY.checked_sub(looked.elapsed())?;
        for heard in watch.heard(left).await {
            match heard {
                Heard::Change => return None,
                Heard::Disbelieved { .. } => {}
                Heard::Report(report) => {
                    if let Some(state) = report.config.filter(|state| state.group == group) {
                        nodes.insert(report.node, state);
                    }
                }
            }
        }
    }
}

/// Servers that may be away for a while.
struct Servers {
    away_since: Option<Instant>,
    is_silent: bool,
}

impl Servers {
    /// What they answered; nothing, after a moment, where they did not.
    async fn answered<T>(&mut self, outcome: Result<T, FleetError>) -> Result<Option<T>> {
        let error = match outcome {
            Ok(answer) => {
                self.away_since = None;
                return Ok(Some(answer));
            }
            // Of what cannot be read no more is known later.
            Err(error @ (FleetError::Config(_) | FleetError::Signature { .. })) => {
                return Err(error.into());
            }
            Err(error) => error,
        };
        if self.away_since.is_none() && !self.is_silent {
            say!("waiting for the servers of the fleet: {error}")?;
        }
        if self.away_since.get_or_insert_with(Instant::now).elapsed() > AWAY_MAX {
            return Err(error.into());
        }
        tokio::time::sleep(AGAIN_EVERY).await;
        Ok(None)
    }
}

/// Says what became of a version.
fn outcome(
    group: &Group,
    release: &Release,
    version: &Version,
    is_empty: bool,
) -> Result<ExitCode> {
    let end = release.numbered(version.number).map(|past| past.end.clone());
    if group.which.form.is_json() {
        say!("{}", json!({"version": version, "end": end}))?;
    } else if end == Some(End::Kept) {
        match is_empty {
            true => say!("version {version}: no node of `{}` is there to take it yet", group.name)?,
            false => say!("version {version}: all nodes keep it")?,
        }
    }
    match end {
        Some(End::Kept) => Ok(ExitCode::SUCCESS),
        Some(End::Back(_)) if group.which.form.is_json() => Ok(ExitCode::FAILURE),
        Some(End::Back(why)) => bail!("version {version} was taken back: {why}"),
        None => bail!("version {version} is not known any more"),
    }
}

/// Removes the bundles that no version refers to any more. That they are there harms nobody, so nothing
/// fails where they stay.
pub(super) async fn remove_bundles(link: &Link, group: &Group) -> Result<()> {
    match link.remove_bundles(BUNDLE_KEPT_MIN).await {
        Err(error) if !group.which.form.is_json() => {
            say!("old bundles stay on the servers: {error}")
        }
        _ => Ok(()),
    }
}
