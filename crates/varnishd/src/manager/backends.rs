//! Commands about backends.

use super::State;
use crate::cli::{Reply, Status, table};
use crate::glob;
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_origin::Origin;
use freshet_origin::health::{Health, Override};
use serde_json::{Map, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// Backends by `policy.name` that a pattern means: `policy.name` with wildcards, `name` of the
/// policy in use, or all of the policy in use.
fn matching(state: &State, pattern: Option<&str>) -> Vec<(String, Arc<Origin>)> {
    let (policy, name) = match pattern {
        None | Some("") => (None, "*"),
        Some(pattern) => match pattern.split_once('.') {
            Some((policy, name)) => (Some(policy), name),
            None => (None, pattern),
        },
    };
    let active = state.policies.active_name();
    let mut found = Vec::new();
    for (known, program) in state.policies.warm(state.cooldown()) {
        let fits = match policy {
            Some(policy) => glob::matches(policy, known),
            None => active == Some(known),
        };
        if !fits {
            continue;
        }
        for (origin_name, origin) in program.origins() {
            if glob::matches(name, origin_name) {
                found.push((format!("{known}.{origin_name}"), Arc::clone(origin)));
            }
        }
    }
    found
}

pub(super) fn list(state: &mut State, words: &[String]) -> Reply {
    let (mut is_json, mut with_probes, mut pattern) = (false, false, None);
    for word in words.iter().skip(1) {
        match word.as_str() {
            "-j" => is_json = true,
            "-p" => with_probes = true,
            word if word.starts_with('-') => {
                return Reply::error(Status::Parameter, "Invalid flags");
            }
            word if pattern.is_none() => pattern = Some(word),
            _ => return Reply::error(Status::Parameter, "Too many arguments"),
        }
    }
    if is_json && with_probes && pattern == Some("") {
        return Reply::error(Status::Parameter, "Invalid flags");
    }
    let found = matching(state, pattern);
    let now = UnixMillis::now();
    let mut rows = "Backend name\tAdmin\tProbe\tHealth\tLast change\n".to_owned();
    let mut all = Map::new();
    for (name, origin) in &found {
        let admin = admin(origin);
        let health = if origin.health.health(now) == Health::Down { "sick" } else { "healthy" };
        let changed = match origin.health.changed() {
            UnixMillis(0) => state.started_at(),
            changed => changed,
        };
        let _ = writeln!(rows, "{name}\t{admin}\t0/0\t{health}\t{}", shown(changed));
        #[allow(clippy::cast_precision_loss, reason = "a time of this millennium")]
        let seconds = changed.0 as f64 / 1000.0;
        all.insert(
            name.clone(),
            json!({
                "type": "backend",
                "admin_health": admin,
                "probe_message": [0, 0, health],
                "last_change": seconds,
            }),
        );
    }
    if is_json { Reply::json(3, words, &[all.into()]) } else { Reply::text(table(&rows)) }
}

/// A time as HTTP writes it.
fn shown(at: UnixMillis) -> String {
    let mut out = Vec::new();
    date::write(at, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// What an operator said of an origin; without probes, left to them means healthy.
fn admin(origin: &Origin) -> &'static str {
    match origin.health.spoken() {
        Override::Auto => "healthy",
        Override::Up => "healthy",
        Override::Down => "sick",
    }
}

pub(super) fn set_health(state: &mut State, words: &[String]) -> Reply {
    let [_, pattern, word, ..] = words else { return super::too_few() };
    let wanted = match word.as_str() {
        "auto" => Override::Auto,
        "healthy" => Override::Up,
        "sick" => Override::Down,
        _ => return Reply::error(Status::Parameter, format!("Invalid state {word}")),
    };
    let found = matching(state, Some(pattern));
    if found.is_empty() {
        return Reply::error(Status::Parameter, "No Backends matches");
    }
    for (_, origin) in found {
        origin.health.set_override(wanted, UnixMillis::now());
    }
    Reply::ok()
}
