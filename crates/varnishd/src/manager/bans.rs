//! Commands about bans.

use super::State;
use crate::cli::{Reply, Status};
use crate::program::ban_settings;
use freshet_node::bans::Listed;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Adds a ban.
pub(super) fn add(state: &mut State, words: &[String]) -> Reply {
    let Some(child) = &state.child else { return Reply::ok() };
    let shared = &child.node.shared;
    let words = words.get(1..).unwrap_or_default();
    match shared.ban_words(words, &ban_settings(&state.parameters)) {
        Ok(durability) => {
            durability.wait();
            Reply::ok()
        }
        Err(why) => Reply::error(Status::Parameter, why),
    }
}

/// The words of a ban that came as one, as clients write it that quote all of it.
pub(super) fn taken_apart(words: &[String]) -> Option<Vec<String>> {
    let [name, all] = words else { return None };
    if name != "ban" || !all.contains(' ') {
        return None;
    }
    let parts = all.split(' ').filter(|part| !part.is_empty()).map(str::to_owned);
    // One that is not taken apart by this would be looked at again and again.
    let words: Vec<_> = std::iter::once(name.clone()).chain(parts).collect();
    (words.len() > 2).then_some(words)
}

/// Lists bans, newest first.
pub(super) fn list(state: &mut State, words: &[String]) -> Reply {
    let Some(child) = &state.child else { return Reply::ok() };
    let shared = &child.node.shared;
    let bans = shared.bans.list(&shared.cache);
    if words.get(1).is_some_and(|word| word == "-j") {
        let all: Vec<_> = bans.iter().map(as_json).collect();
        return Reply::json(2, words, &[Value::Array(all)]);
    }
    let mut text = String::from("Present bans:\n");
    for ban in &bans {
        let flag = if ban.is_done { 'C' } else { '-' };
        let _ = writeln!(text, "{:.6} {:5} {flag}  {}", seconds(ban), ban.objects, ban.text);
    }
    Reply::text(text)
}

fn seconds(ban: &Listed) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 are below 2^52")]
    let seconds = ban.time.0 as f64 / 1000.0;
    seconds
}

fn as_json(ban: &Listed) -> Value {
    // The first one bans nothing and has no conditions.
    let tests: Vec<_> = ban
        .text
        .split(" && ")
        .filter_map(|condition| {
            let mut words = condition.splitn(3, ' ');
            let (field, operator, argument) = (words.next()?, words.next()?, words.next()?);
            Some(json!({"arg1": field, "oper": operator, "arg2": argument}))
        })
        .collect();
    json!({
        "time": seconds(ban),
        "refs": ban.objects,
        "completed": ban.is_done,
        "req_tests": ban.needs_request,
        "tests": tests,
    })
}
