//! What is to be done now, and what follows from what came of it.

use super::{Found, Kind, Life, Run, Step, Way};
use crate::api::instances as told;
use crate::limits::{
    ANSWER_MS_MAX, HEALTHY_MS, LIFE_RETRY_MS, PLACE_TRIES_MAX, RESTART_MS, RESTART_MS_MAX, STOP_MS,
    TRIES_MAX,
};
use crate::platform::Setup;
use freshet_apps::Spec;
use freshet_documents::tree::{Change, Tree};

/// Something to do for an instance.
#[derive(Clone, Debug)]
pub struct Work {
    /// The instance's name.
    pub instance: String,
    /// What.
    pub task: Task,
    /// How it is run.
    pub spec: Spec,
    /// Of a stop: whether the app is not asked any more.
    pub is_forced: bool,
    /// How long the step is under way, in milliseconds.
    pub since_ms: u64,
    /// Of a look: whether the app has its time to answer after a start.
    pub is_starting: bool,
}

/// What is done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Task {
    /// A step of an operation.
    Step(Step),
    /// Look how it is.
    Look,
    /// Start it again, as it ended by itself.
    Restart,
}

/// What there is to do now. Looking is due at all times; how often it is done is for whoever does it.
pub(crate) fn works(tree: &Tree, setup: &Setup, now_ms: u64) -> Vec<Work> {
    let Some(place) = &setup.place else { return Vec::new() };
    let of = |(instance, life): (String, Life)| {
        let (mut is_forced, mut since_ms) = (false, 0);
        let task = match &life.operation {
            Some(operation) => {
                let step = operation.step()?;
                let waits_ms = u64::from(operation.tries) * LIFE_RETRY_MS;
                if now_ms < operation.since_ms.saturating_add(waits_ms) {
                    return None;
                }
                let grace_ms = operation.grace_s.map_or(0, |grace_s| (grace_s * 1000).min(STOP_MS));
                since_ms = now_ms.saturating_sub(operation.since_ms);
                is_forced = operation.way == Way::Undo
                    || now_ms >= operation.since_ms.saturating_add(grace_ms);
                Task::Step(step)
            }
            None => match (life.run?, life.restart_ms) {
                (Run::Stopped, _) => return None,
                (Run::Started, None) => Task::Look,
                (Run::Started, Some(at_ms)) if at_ms <= now_ms => Task::Restart,
                (Run::Started, Some(_)) => return None,
            },
        };
        let spec = told::spec(tree, setup, place, &instance, &life)?;
        let is_starting = now_ms < life.started_ms.saturating_add(ANSWER_MS_MAX)
            && !told::is_ready(tree, &instance);
        Some(Work { instance, task, spec, is_forced, since_ms, is_starting })
    };
    Life::all(tree).filter_map(of).collect()
}

/// What follows from something that was done: nothing, where it is not what there is to do any more.
pub(crate) fn worked(
    tree: &Tree,
    setup: &Setup,
    work: &Work,
    found: &Result<Found, String>,
    now_ms: u64,
) -> Vec<Change> {
    let Some(mut life) = Life::of(tree, &work.instance) else { return Vec::new() };
    let instance = work.instance.as_str();
    match work.task {
        Task::Step(step) => {
            let is_it = life.operation.as_ref().and_then(super::Operation::step) == Some(step);
            if !is_it {
                return Vec::new();
            }
            advance(tree, setup, instance, life, step, found, now_ms)
        }
        _ if life.operation.is_some() || life.run != Some(Run::Started) => Vec::new(),
        Task::Look => match found {
            Ok(Found::Done | Found::Ports(_)) => {
                let mut changes = told::ready(tree, instance);
                let is_healthy = now_ms >= life.started_ms.saturating_add(HEALTHY_MS);
                if life.restarts > 0 && is_healthy {
                    life.restarts = 0;
                    changes.push(life.put(instance));
                }
                changes
            }
            Ok(Found::NotYet) => Vec::new(),
            Ok(Found::Lost) => {
                tracing::warn!(instance, "an app's host is lost: it comes to another");
                told::moves(tree, setup, instance, life, now_ms)
            }
            // It is not there any more: its rules are out of force until it is again.
            Err(why) => {
                let pause_ms = (RESTART_MS << life.restarts.min(10)).min(RESTART_MS_MAX);
                tracing::warn!(instance, why, pause_ms, "an app has ended by itself");
                life.restart_ms = Some(now_ms + pause_ms);
                life.restarts = life.restarts.saturating_add(1);
                let mut changes = told::down(tree, instance);
                changes.push(life.put(instance));
                changes
            }
        },
        Task::Restart => {
            match found {
                Ok(Found::NotYet) => return Vec::new(),
                Ok(_) => (life.restart_ms, life.started_ms) = (None, now_ms),
                Err(why) => {
                    tracing::warn!(instance, why, "an app cannot be started again");
                    let pause_ms = (RESTART_MS << life.restarts.min(10)).min(RESTART_MS_MAX);
                    life.restart_ms = Some(now_ms + pause_ms);
                    life.restarts = life.restarts.saturating_add(1);
                }
            }
            vec![life.put(instance)]
        }
    }
}

fn advance(
    tree: &Tree,
    setup: &Setup,
    instance: &str,
    mut life: Life,
    step: Step,
    found: &Result<Found, String>,
    now_ms: u64,
) -> Vec<Change> {
    // Where it comes to is decided with what else is decided now.
    let placed = (step == Step::Place).then(|| told::placed(tree, setup, instance, &life));
    let Some(operation) = &mut life.operation else { return Vec::new() };
    let (kind, way) = (operation.kind, operation.way);
    let is_cancelled = way == Way::Forward && told::is_cancelled(tree, &operation.id);
    let mut changes = Vec::new();
    match found {
        _ if is_cancelled && !kind.undo().is_empty() => {
            turn_back(operation, instance, "it was cancelled", now_ms);
        }
        Ok(Found::Done) if let Some(Err(problem)) = &placed => {
            operation.since_ms = now_ms;
            operation.tries = (operation.tries + 1).min(PLACE_TRIES_MAX);
            operation.why = Some(problem.detail.clone());
        }
        Ok(Found::NotYet)
            if step == Step::Answer && now_ms >= operation.since_ms + ANSWER_MS_MAX =>
        {
            let why = format!("the app did not answer within {} s", ANSWER_MS_MAX / 1000);
            match kind {
                Kind::Move => {
                    life.is_lost = true;
                    begin_again(operation, &mut life.restarts, why, now_ms);
                }
                _ => turn_back(operation, instance, &why, now_ms),
            }
        }
        Ok(Found::NotYet | Found::Lost) => return Vec::new(),
        Ok(Found::Done | Found::Ports(_)) => {
            (operation.done, operation.since_ms, operation.tries) = (operation.done + 1, now_ms, 0);
            if step == Step::Leave {
                changes.extend(told::leaving(tree, instance, kind, operation.grace_s, now_ms));
            }
            match step {
                Step::Start => life.started_ms = now_ms,
                Step::Link => life.is_lost = false,
                _ => {}
            }
            if let Ok(Found::Ports(ports)) = found {
                life.ports.clone_from(ports);
            }
            if let Some(Ok((granted, placing))) = placed {
                life.granted = Some(granted);
                changes.extend(placing);
            }
        }
        // Another host may do.
        Err(why)
            if kind == Kind::Move && !matches!(step, Step::Stop | Step::Unlink | Step::Clear) =>
        {
            life.is_lost = true;
            begin_again(operation, &mut life.restarts, why.clone(), now_ms);
        }
        Err(why) if way == Way::Forward && !kind.undo().is_empty() => {
            turn_back(operation, instance, why, now_ms);
        }
        Err(why) => {
            (operation.since_ms, operation.tries) = (now_ms, operation.tries + 1);
            operation.why = Some(why.clone());
            tracing::warn!(instance, ?step, why, "a step of an app's life failed");
            // What is taken back is tried until it is gone.
            if way == Way::Forward && operation.tries >= TRIES_MAX {
                operation.way = Way::Failed;
            }
        }
    }
    let operation = operation.clone();
    let state = match (operation.way, operation.step()) {
        (Way::Failed, _) | (Way::Undo, None) => "FAILED_TEMP",
        (_, Some(_)) => "PROCESSING",
        (Way::Forward, None) => "COMPLETED",
    };
    match state {
        "COMPLETED" => {
            life.operation = None;
            finish(tree, instance, kind, &mut life, &mut changes);
        }
        "FAILED_TEMP" => {
            if let Some(operation) = &mut life.operation {
                operation.way = Way::Failed;
            }
            if operation.way == Way::Undo {
                changes.extend(told::taken_back(tree, instance, kind));
            }
        }
        _ => {}
    }
    let why = operation.why.as_deref().filter(|_| state != "COMPLETED");
    changes.extend(told::updated(tree, &operation.id, state, why, now_ms));
    changes.push(life.put(instance));
    if state == "COMPLETED" {
        changes.extend(told::instance(tree, setup, instance, &life));
    }
    changes
}

fn turn_back(operation: &mut super::Operation, instance: &str, why: &str, now_ms: u64) {
    tracing::warn!(instance, step = ?operation.step(), why, "what was done for an app is taken back");
    (operation.way, operation.done, operation.tries) = (Way::Undo, 0, 0);
    (operation.since_ms, operation.why) = (now_ms, Some(why.to_owned()));
}

/// What came to a host goes from it and comes to another, unless that was in vain too often.
fn begin_again(operation: &mut super::Operation, restarts: &mut u32, why: String, now_ms: u64) {
    (operation.done, operation.tries) = (0, 1);
    (operation.since_ms, operation.why) = (now_ms, Some(why));
    *restarts += 1;
    if *restarts >= TRIES_MAX {
        operation.way = Way::Failed;
    }
}

/// What an operation has made of an instance.
fn finish(tree: &Tree, instance: &str, kind: Kind, life: &mut Life, changes: &mut Vec<Change>) {
    match kind {
        Kind::Instantiate | Kind::Start | Kind::Move => {
            (life.run, life.restarts, life.restart_ms) = (Some(Run::Started), 0, None);
            changes.extend(told::ready(tree, instance));
        }
        Kind::Stop => life.run = Some(Run::Stopped),
        Kind::Terminate => {
            changes.extend(told::released(tree, instance, life));
        }
    }
}
