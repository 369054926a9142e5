//! Commands about backends.

use super::{State, directors};
use crate::cli::{Reply, Status, table};
use crate::glob;
use crate::program::Program;
use freshet_base::clock::UnixMillis;
use freshet_http::date;
use freshet_origin::Origin;
use freshet_origin::health::{Override, Window};
use freshet_origin::probe_history::{History, Step};
use freshet_vcl::{DirectorStanding, Turn};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// The policies and the name within them that a pattern means: `policy.name` with wildcards, `name`
/// of the policy in use, or all of the policy in use.
fn meant<'a>(
    state: &'a State,
    pattern: Option<&'a str>,
) -> (impl Iterator<Item = (&'a str, &'a Arc<Program>)>, &'a str) {
    let (policy, name) = match pattern {
        None | Some("") => (None, "*"),
        Some(pattern) => match pattern.split_once('.') {
            Some((policy, name)) => (Some(policy), name),
            None => (None, pattern),
        },
    };
    let active = state.policies.active_name();
    let policies = state.policies.warm(state.cooldown()).filter(move |(known, _)| match policy {
        Some(policy) => glob::matches(policy, known),
        None => active == Some(known),
    });
    (policies, name)
}

/// Backends by `policy.name` that a pattern means.
fn matching(state: &State, pattern: Option<&str>) -> Vec<(String, Arc<Origin>)> {
    let (policies, name) = meant(state, pattern);
    let mut found = Vec::new();
    for (known, program) in policies {
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
    kind: &'static str,
    /// Good probes and probes looked at; of a director, healthy members and all.
    probes: (u32, u32),
    is_healthy: bool,
    changed: UnixMillis,
    details: Details,
}

/// What is behind a row.
enum Details {
    /// Nothing is known of it.
    Unknown,
    Probes(Window, History),
    Director(DirectorStanding),
}

impl Row {
    fn of_backend(name: &str, origin: &Origin, started: UnixMillis) -> Self {
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
            kind: "backend",
            probes: window.as_ref().map_or((0, 0), |(window, _)| (window.good(), window.size())),
            // What its probes say, whatever was said of it here.
            is_healthy: window
                .as_ref()
                .is_none_or(|(window, _)| window.good() >= window.threshold()),
            changed,
            details: match window {
                Some((window, history)) => Details::Probes(window, history),
                None => Details::Unknown,
            },
        }
    }

    fn of_director(name: String, director: DirectorStanding, made: UnixMillis) -> Self {
        // Of one by hash it is not said how its members are.
        let is_hash = director.turn == Turn::Hash;
        Self {
            name,
            admin: match director.said.map(|said| said.is_healthy) {
                Some(true) => "healthy",
                Some(false) => "sick",
                None if is_hash => "healthy",
                None => "probe",
            },
            kind: directors::kind(&director),
            probes: directors::healthy(&director),
            is_healthy: director.is_healthy || is_hash,
            changed: director.said.map_or(made, |said| UnixMillis((said.since * 1000.0) as u64)),
            details: Details::Director(director),
        }
    }

    fn health(&self) -> &'static str {
        if self.is_healthy { "healthy" } else { "sick" }
    }

    /// As it is in a table, with what is behind it where that is wanted.
    fn show(&self, with_details: bool, out: &mut String) {
        let (good, size) = self.probes;
        let Self { name, admin, changed, .. } = self;
        let health = self.health();
        let _ = writeln!(out, "{name}\t{admin}\t{good}/{size}\t{health}\t{}", shown(*changed));
        match &self.details {
            Details::Probes(window, history) if with_details => show_window(window, history, out),
            Details::Director(director) if with_details => out.push_str(&directors::rows(director)),
            _ => {}
        }
    }

    /// The same as JSON.
    fn json(&self, with_details: bool) -> Json {
        #[allow(clippy::cast_precision_loss, reason = "a time of this millennium")]
        let seconds = self.changed.0 as f64 / 1000.0;
        let (good, size) = self.probes;
        let mut out = json!({
            "type": self.kind,
            "admin_health": self.admin,
            "probe_message": [good, size, self.health()],
            "last_change": seconds,
        });
        if with_details {
            let details = match &self.details {
                Details::Unknown => Some(json!({})),
                Details::Probes(window, history) => Some(window_json(window, history)),
                Details::Director(director) => directors::details(director),
            };
            if let Some(details) = details {
                out["probe_details"] = details;
            }
        }
        out
    }
}

/// Directors whose name fits.
fn matching_directors(state: &State, pattern: Option<&str>, now: UnixMillis) -> Vec<Row> {
    let (policies, name) = meant(state, pattern);
    let mut rows = Vec::new();
    for (known, program) in policies {
        for (called, director) in program.policy().directors(now) {
            if glob::matches(name, called) {
                let called = format!("{known}.{called}");
                rows.push(Row::of_director(called, director, state.started_at()));
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
        .map(|(name, origin)| Row::of_backend(name, origin, started))
        .collect();
    found.extend(matching_directors(state, pattern, now));
    let mut rows = "Backend name\tAdmin\tProbe\tHealth\tLast change\n".to_owned();
    let mut all = Map::new();
    for row in &found {
        row.show(with_probes, &mut rows);
        all.insert(row.name.clone(), row.json(with_probes));
    }
    if is_json {
        return Reply::json(3, words, &[all.into()]);
    }
    Reply::text(table(&rows))
}

/// The last probes of a backend, oldest first: a line for each step that one of them reached.
fn show_window(window: &Window, history: &History, out: &mut String) {
    let (good, threshold, size) = (window.good(), window.threshold(), window.size());
    let _ =
        writeln!(out, " Current states  good: {good:2} threshold: {threshold:2} window: {size:2}");
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
    out.push('\n');
}

/// The same as JSON: a number for each step, with a bit for each probe that reached it.
fn window_json(window: &Window, history: &History) -> Json {
    let mut out = json!({
        "good": window.good(),
        "threshold": window.threshold(),
        "window": window.size(),
    });
    for (step, mark, _) in Step::ALL {
        out[format!("bits_{mark}")] = history.row(step).into();
    }
    out
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
    let now = UnixMillis::now();
    let origins = matching(state, Some(pattern));
    for (_, origin) in &origins {
        origin.health.set_override(wanted, now);
    }
    let is_healthy = match wanted {
        Override::Auto => None,
        Override::Up => Some(true),
        Override::Down => Some(false),
    };
    let (policies, name) = meant(state, Some(pattern));
    let say = |program: &Arc<Program>| {
        program.policy().say_health(|called| glob::matches(name, called), is_healthy, now)
    };
    let directors: usize = policies.map(|(_, program)| say(program)).sum();
    if origins.is_empty() && directors == 0 {
        return Reply::error(Status::Parameter, "No Backends matches");
    }
    Reply::ok()
}
