//! Commands about parameters, storages, panics and the program itself.

use super::State;
use crate::cli::{Reply, Status, unix_seconds};
use crate::parameters::{ParameterError, Which};
use serde_json::json;
use std::fmt::Write as _;

/// Nothing is left to do.
pub(super) fn done(_: &mut State, _: &[String]) -> Reply {
    Reply::ok()
}

pub(super) fn banner(state: &mut State, _: &[String]) -> Reply {
    Reply::text(state.banner())
}

pub(super) fn ping(_: &mut State, words: &[String]) -> Reply {
    if words.get(1).is_some_and(|word| word == "-j") {
        return Reply::json(2, words, &[json!("PONG")]);
    }
    // The time is given in whole seconds, then the version of the protocol.
    Reply::text(format!("PONG {:.0} 1.0", unix_seconds()))
}

pub(super) fn panic_show(_: &mut State, _: &[String]) -> Reply {
    Reply::error(Status::Cannot, "Child has not panicked or panic has been cleared")
}

pub(super) fn panic_clear(_: &mut State, words: &[String]) -> Reply {
    match words.get(1).map(String::as_str) {
        None => Reply::error(Status::Cannot, "No panic to clear"),
        Some("-z") => Reply::ok(),
        Some(word) => Reply::error(Status::Parameter, format!("Unknown parameter \"{word}\".")),
    }
}

pub(super) fn param_show(state: &mut State, words: &[String]) -> Reply {
    let (mut is_json, mut is_long) = (false, false);
    let mut which = None;
    for word in words.iter().skip(1) {
        match word.as_str() {
            "-j" => is_json = true,
            "-l" => is_long = true,
            name if which.is_none() => which = Some(name),
            _ => return super::too_many(),
        }
    }
    if is_json && is_long {
        return Reply::error(Status::Parameter, "-l cannot be used with -j");
    }
    if is_long && which.is_some() {
        return Reply::error(Status::Parameter, "-l cannot be used with a parameter");
    }
    let which = match which {
        None if is_long => Which::AllAtLength,
        None => Which::All,
        Some("changed") => Which::Changed,
        Some(name) => Which::One(name),
    };
    if is_json {
        return match state.parameters.show_json(&which) {
            Ok(all) => Reply::json(2, words, &all),
            Err(error) => refused(&error),
        };
    }
    state.parameters.show(&which).map_or_else(|error| refused(&error), Reply::text)
}

pub(super) fn param_set(state: &mut State, words: &[String]) -> Reply {
    let is_json = words.get(1).is_some_and(|word| word == "-j");
    let arguments = words.get(if is_json { 2 } else { 1 }..).unwrap_or_default();
    let [name, value] = arguments else { return super::too_few() };
    if let Err(error) = state.parameters.set(name, value) {
        return refused(&error);
    }
    state.parameters_changed();
    if is_json {
        let shown = state.parameters.show_json(&Which::One(name)).unwrap_or_default();
        return Reply::json(2, words, &shown);
    }
    if state.parameters.waits_for_reload(name) {
        return Reply::text("\nChange will take effect when VCL script is reloaded");
    }
    Reply::ok()
}

pub(super) fn param_reset(state: &mut State, words: &[String]) -> Reply {
    match state.parameters.reset(words.get(1).map_or("", String::as_str)) {
        Ok(()) => {
            state.parameters_changed();
            Reply::ok()
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &ParameterError) -> Reply {
    let status = match error {
        ParameterError::Protected(_) => Status::Authentication,
        _ => Status::Parameter,
    };
    Reply::error(status, error.to_string())
}

pub(super) fn storage_list(state: &mut State, words: &[String]) -> Reply {
    if words.get(1).is_some_and(|word| word == "-j") {
        let all: Vec<_> = state
            .storages
            .iter()
            .map(|storage| json!({ "name": storage.name, "storage": storage.kind }))
            .collect();
        return Reply::json(2, words, &all);
    }
    let mut out = "Storage devices:\n".to_owned();
    for storage in &state.storages {
        let _ = writeln!(out, "\tstorage.{} = {}", storage.name, storage.kind);
    }
    Reply::text(out)
}
