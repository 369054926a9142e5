//! Commands about backends.

use super::State;
use crate::cli::{Reply, Status, table};
use crate::glob;
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_origin::Origin;
use freshet_origin::health::{Health, Override, Window};
use freshet_origin::probe_history::{History, Step};
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

/// A row of the list: a backend or a director.
struct Row {
    name: String,
    admin: &'static str,
    /// Good probes and probes looked at; of a director, healthy backends and all.
    probes: (u32, u32),
    is_healthy: bool,
    changed: UnixMillis,
    window: Option<(Window, History)>,
}

impl Row {
    fn of_backend(name: &str, origin: &Origin, started: UnixMillis, now: UnixMillis) -> Self {
        let window = origin.health.probes();
        let changed = match origin.health.changed() {
            UnixMillis(0) => started,
            changed => changed,
        };
        Self {
            name: name.to_owned(),
            admin: match origin.health.spoken() {
                Override::Auto if window.is_some() => "probe",
                Override::Auto | Override::Up => "healthy",
                Override::Down => "sick",
            },
            probes: window.as_ref().map_or((0, 0), |(window, _)| (window.good(), window.size())),
            is_healthy: origin.health.health(now) != Health::Down,
            changed,
            window,
        }
    }

    fn health(&self) -> &'static str {
        if self.is_healthy { "healthy" } else { "sick" }
    }
}

/// Directors whose name fits.
fn directors(state: &State, pattern: Option<&str>, now: UnixMillis) -> Vec<Row> {
    let active = state.policies.active_name();
    let (policy, name) = match pattern {
        None | Some("") => (active, "*"),
        Some(pattern) => match pattern.split_once('.') {
            Some((policy, name)) => (Some(policy), name),
            None => (active, pattern),
        },
    };
    let mut rows = Vec::new();
    for (known, program) in state.policies.warm(state.cooldown()) {
        if !policy.is_some_and(|policy| glob::matches(policy, known)) {
            continue;
        }
        for (director, is_healthy) in program.policy().directors(now) {
            if glob::matches(name, director) {
                rows.push(Row {
                    name: format!("{known}.{director}"),
                    admin: "probe",
                    probes: (u32::from(is_healthy), 1),
                    is_healthy,
                    changed: state.started_at(),
                    window: None,
                });
            }
        }
    }
    rows
}

pub(super) fn list(state: &mut State, words: &[String]) -> Reply {
    let (mut is_json, mut with_probes, mut pattern) = (false, false, None);
    for word in words.iter().skip(1) {
        match word.as_str() {
            "-j" => is_json = true,
            "-p" => with_probes = true,
            "-pj" | "-jp" => (is_json, with_probes) = (true, true),
            word if word.starts_with('-') => {
                return Reply::error(Status::Parameter, "Invalid flags");
            }
            word if pattern.is_none() => pattern = Some(word),
            _ => return Reply::error(Status::Parameter, "Too many arguments"),
        }
    }
    let (now, started) = (UnixMillis::now(), state.started_at());
    let mut found: Vec<Row> = matching(state, pattern)
        .iter()
        .map(|(name, origin)| Row::of_backend(name, origin, started, now))
        .collect();
    found.extend(directors(state, pattern, now));
    let mut rows = "Backend name\tAdmin\tProbe\tHealth\tLast change\n".to_owned();
    let mut windows = String::new();
    let mut all = Map::new();
    for row in &found {
        let (good, size) = row.probes;
        let Row { name, admin, changed, .. } = row;
        let _ =
            writeln!(rows, "{name}\t{admin}\t{good}/{size}\t{}\t{}", row.health(), shown(*changed));
        if let Some((window, history)) = row.window.as_ref().filter(|_| with_probes) {
            show_window(name, window, history, &mut windows);
        }
        #[allow(clippy::cast_precision_loss, reason = "a time of this millennium")]
        let seconds = changed.0 as f64 / 1000.0;
        let mut object = json!({
            "type": "backend",
            "admin_health": admin,
            "probe_message": [good, size, row.health()],
            "last_change": seconds,
        });
        if let Some((window, _)) = row.window.as_ref().filter(|_| with_probes) {
            object["probe_details"] = json!({
                "bits_clear": window.size() - window.good(),
                "good": window.good(),
                "threshold": window.threshold(),
                "window": window.size(),
            });
        }
        all.insert(name.clone(), object);
    }
    if is_json {
        return Reply::json(3, words, &[all.into()]);
    }
    Reply::text(table(&rows) + &windows)
}

/// The last probes of a backend, oldest first: a line for each step that one of them reached.
fn show_window(name: &str, window: &Window, history: &History, out: &mut String) {
    let (good, threshold, size) = (window.good(), window.threshold(), window.size());
    let _ = writeln!(out, "{name}");
    let _ =
        writeln!(out, "  Current states  good: {good:2} threshold: {threshold:2} window: {size:2}");
    let average = history.average_seconds();
    let _ = writeln!(out, "  Average response time of good probes: {average:.6}");
    let _ = writeln!(out, "  Oldest {} Newest", "=".repeat(50));
    for (step, mark, name) in Step::ALL {
        let row = history.row(step);
        if row == 0 && step != Step::Good {
            continue;
        }
        let marks = (0..u64::BITS).rev().map(|bit| if row >> bit & 1 == 1 { mark } else { '-' });
        let _ = writeln!(out, "  {} {name}", String::from_iter(marks));
    }
}

/// A time as HTTP writes it.
fn shown(at: UnixMillis) -> String {
    let mut out = Vec::new();
    date::write(at, &mut out);
    String::from_utf8_lossy(&out).into_owned()
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
