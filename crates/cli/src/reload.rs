//! Having the configuration of a running node read again: `freshet reload`, and what the node does.
//!
//! The admin interface answers with the outcome. A node that has none is sent HUP, and leaves the
//! outcome in a file of its directory, so that the command fails where the reload did, or did not reach every site.

use crate::acme;
use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::nodes::Node;
use crate::self_signed;
use crate::settings::{Below, SettingsArguments};
use anyhow::{Context, Result, bail};
use clap::Args;
use freshet_node::node;
use freshet_node::snapshot::Stayed;
use rustix::process::{Pid, Signal, kill_process};
use sd_notify::NotifyState;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Reads the configuration again, from the arguments the node was started with; what is wrong leaves
/// the old one in force; what the fleet sent lies below it. The service manager is told that it begins and how it ends.
/// Returned are the keys that have changed and wait for an upgrade or a restart.
///
/// # Errors
/// All that is wrong.
pub(crate) fn reload(
    node: &node::Node,
    acme: &acme::Shared,
    arguments: &SettingsArguments,
    directory: &Path,
    below: &Below,
) -> Result<Vec<&'static str>> {
    let mut begins = vec![NotifyState::Reloading];
    begins.extend(NotifyState::monotonic_usec_now().ok());
    let _ = sd_notify::notify(&begins);
    let outcome = try_reload(node, acme, arguments, directory, below);
    let status = match &outcome {
        Ok(waiting) => {
            let snapshot = node.snapshot();
            let stayed: Vec<_> = snapshot.stayed.iter().map(Stayed::name).collect();
            serving(&stayed, waiting)
        }
        Err(error) => {
            let first = format!("{error:#}");
            let first = first.lines().next().unwrap_or_default();
            format!("Serving; the last reload changed nothing: {first}")
        }
    };
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
    outcome
}

fn try_reload(
    node: &node::Node,
    acme: &acme::Shared,
    arguments: &SettingsArguments,
    directory: &Path,
    below: &Below,
) -> Result<Vec<&'static str>> {
    let (mut settings, source) = arguments.load(below)?;
    self_signed::fill_in(&mut settings, directory)?;
    // All that can fail comes before the first change.
    acme::plan(&settings)?.map_or(Ok(()), |plan| plan.check())?;
    let waiting = node.reload(settings).map_err(|error| source.explain(error))?;
    if let Some(running) = acme {
        acme::follow(running, &node.snapshot().settings)?;
    }
    Ok(waiting)
}

/// What a service manager shows of a node that has nothing to say.
pub(crate) const SERVING: &str = "Serving.";

/// What a service manager shows after a reload: what could not be made anew, and keys that wait.
fn serving(stayed: &[Option<&str>], waiting: &[&str]) -> String {
    let mut notes = Vec::new();
    if stayed.contains(&None) {
        notes.push(CERTIFICATES_STAY.to_owned());
    }
    let sites: Vec<_> = stayed.iter().flatten().copied().collect();
    if !sites.is_empty() {
        let named = sites[..sites.len().min(SITES_SHOWN_MAX)].join(", ");
        let more = sites.len().saturating_sub(SITES_SHOWN_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("sites that stay as they were: {named}{more}"));
    }
    if !waiting.is_empty() {
        notes.push(wait_for(&waiting.join(", ")));
    }
    if notes.is_empty() {
        return SERVING.to_owned();
    }
    format!("Serving; {}", notes.join("; "))
}

/// What is said of certificates of the top level that cannot be used.
const CERTIFICATES_STAY: &str = "the certificates of the top level stay as they were";

/// Sites that the status of a service names.
const SITES_SHOWN_MAX: usize = 5;

/// What becomes of keys that a reload cannot bring into force.
fn wait_for(keys: &str) -> String {
    format!("changed, and waiting for an upgrade or a restart: {keys}")
}

/// As [`reload`], after HUP: logs the outcome and leaves it for [`run`].
pub(crate) fn reload_on_signal(
    node: &node::Node,
    acme: &acme::Shared,
    arguments: &SettingsArguments,
    directory: &Path,
) {
    let outcome = match reload(node, acme, arguments, directory, &Below::InForce) {
        Ok(waiting) => {
            tracing::info!("the configuration was read again");
            let snapshot = node.snapshot();
            let stayed = snapshot.stayed.iter();
            let stayed: Vec<_> =
                stayed.map(|one| json!({"site": one.name(), "error": one.why})).collect();
            json!({"waiting": waiting, "stayed": stayed})
        }
        Err(error) => {
            tracing::error!("nothing was changed: {error:#}");
            json!({"error": format!("{error:#}")})
        }
    };
    let _ = fs::write(directory.join(OUTCOME_FILE), format!("{outcome}\n"));
}

/// The file with how the last reload by a signal ended: a line of JSON, as the admin interface answers, or with the
/// `error`; whole when its last byte is the line's end.
const OUTCOME_FILE: &str = "reload.outcome";
/// How long a reload may take: resolving the names of many origins takes seconds.
const DONE_WITHIN: Duration = Duration::from_secs(30);
/// How often its outcome is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// `freshet reload`
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Has the configuration read again.
///
/// # Errors
/// What is wrong with it; the old one stays in force, of all sites or of those that are named.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let here = arguments.node.here()?;
    if let Some(node) = here.as_ref().filter(|node| node.admin().is_none()) {
        let outcome = by_signal(node)?;
        let named = format!("node {} (process {})", node.name(), node.pid);
        return say_done(arguments, &named, Some(node), &outcome);
    }
    let named = arguments.node.named()?;
    let answer = arguments.node.post("/v1/reload", &json!({}))?.json()?;
    say_done(arguments, &named, here.as_ref(), &answer)
}

/// That it is done: by which node, with the origins in force, where they are known, and what is not in force of what
/// was read.
fn say_done(
    arguments: &Arguments,
    named: &str,
    node: Option<&Node>,
    outcome: &Value,
) -> Result<ExitCode> {
    let stayed = list(&outcome["stayed"]);
    if arguments.form.is_json() {
        let (name, process) = (node.map(Node::name), node.map(|node| node.pid));
        let [origins, waiting] = ["origins", "waiting"].map(|key| &outcome[key]);
        let stayed: Vec<_> = stayed.collect();
        let is_done = stayed.is_empty();
        say!(
            "{}",
            json!({"node": name, "process": process, "origins": origins, "waiting": waiting, "stayed": stayed})
        )?;
        return Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let texts = |key: &str| {
        let texts: Vec<_> = list(&outcome[key]).filter_map(Value::as_str).collect();
        texts.join(", ")
    };
    say!("{named}: the configuration was read again")?;
    if outcome["origins"].is_array() {
        say!("origins: {}", texts("origins"))?;
    }
    let waiting = texts("waiting");
    if !waiting.is_empty() {
        say!("{}", wait_for(&waiting))?;
    }
    let stayed: Vec<_> = stayed
        .map(|one| {
            let error = one["error"].as_str().unwrap_or_default();
            match one["site"].as_str() {
                Some(site) => format!("site `{site}` stays as it was: {error}"),
                None => format!("{CERTIFICATES_STAY}: {error}"),
            }
        })
        .collect();
    if !stayed.is_empty() {
        bail!("{}", stayed.join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends HUP to a node that has no admin interface, and waits for the outcome.
fn by_signal(node: &Node) -> Result<Value> {
    let outcome: PathBuf = node.directory.join(OUTCOME_FILE);
    let _ = fs::remove_file(&outcome);
    let process = i32::try_from(node.pid).ok().and_then(Pid::from_raw).context("its process")?;
    kill_process(process, Signal::HUP).with_context(|| node.describe())?;
    let asked = Instant::now();
    while asked.elapsed() < DONE_WITHIN {
        match fs::read_to_string(&outcome).ok().filter(|text| text.ends_with('\n')) {
            Some(text) => {
                let outcome: Value = serde_json::from_str(&text).context("how the reload went")?;
                match outcome["error"].as_str() {
                    Some(error) => bail!("{}\n  nothing was changed", error.trim_end()),
                    None => return Ok(outcome),
                }
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
    bail!(
        "{} has not said within {} s how it went; its log does",
        node.describe(),
        DONE_WITHIN.as_secs()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_shows_what_a_reload_left() {
        assert_eq!(serving(&[], &[]), "Serving.");
        let waits = "changed, and waiting for an upgrade or a restart: listen.http, workers";
        assert_eq!(serving(&[], &["listen.http", "workers"]), format!("Serving; {waits}"));
        assert_eq!(
            serving(&["a", "b", "c", "d", "e", "f", "g"].map(Some), &["listen.http", "workers"]),
            format!("Serving; sites that stay as they were: a, b, c, d, e and 2 more; {waits}")
        );
        assert_eq!(serving(&[None], &[]), format!("Serving; {CERTIFICATES_STAY}"));
    }
}
