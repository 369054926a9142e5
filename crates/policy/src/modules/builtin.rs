//! Functions the language has by itself.

use super::{Arguments, Function, NOTHING, function, function_in};
use crate::program::{Text, Value};
use crate::runtime::{Event, Result, Run};
use crate::types::{State, States};

pub(super) const FUNCTIONS: &[Function] = &[
    function("VOID ban(STRING)", ban),
    function_in(States::of(&[State::Hash]), "VOID hash_data(STRANDS)", hash_data),
    function("STRING regsub(STRING, REGEX, STRING)", regsub),
    function("STRING regsuball(STRING, REGEX, STRING)", regsuball),
    function_in(
        States::of(&[State::Synth, State::BackendError]),
        "VOID synthetic(STRANDS)",
        synthetic,
    ),
];

fn ban(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = arguments.text(0);
    let result = if matches!(text, Text::Unset) {
        Err("Null argument".to_owned())
    } else {
        let ban = run.string(text).into_owned();
        run.host.ban(&ban)
    };
    // A ban that cannot be is said, and nothing else comes of it.
    if let Err(why) = result {
        note_ban(run, &why);
    }
    NOTHING
}

/// Says what is wrong with a ban.
pub(super) fn note_ban(run: &mut Run<'_>, why: &str) {
    if run.traced {
        run.host.trace(Event::Error(&format!("ban(): {why}")));
    }
}

fn hash_data(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    for number in 0..arguments.len() {
        let text = arguments.text(number);
        // What is not set is another object than what is empty.
        if text == Text::Unset {
            run.task.hash_parts.push(0);
            continue;
        }
        run.spend(run.bytes(text).len())?;
        let mut parts = std::mem::take(&mut run.task.hash_parts);
        parts.extend_from_slice(run.bytes(text));
        run.task.hash_parts = parts;
        if run.traced {
            let copy = run.bytes(text).to_vec();
            run.host.trace(Event::Hash(&copy));
        }
    }
    run.task.hash_parts.push(0);
    NOTHING
}

fn regsub(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    substitute(run, arguments, false)
}

fn regsuball(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    substitute(run, arguments, true)
}

fn substitute(run: &mut Run<'_>, arguments: &[Value], all: bool) -> Result<Value> {
    // What is unset is empty here, also where nothing was found in it.
    let text = match arguments.text(0) {
        Text::Unset => run.store(b"")?,
        text => text,
    };
    let Value::Regex(regex) = arguments.at(1) else { return Ok(Value::Text(text)) };
    let program = run.program;
    let Some(regex) = program.regexes.get(regex as usize) else { return Ok(Value::Text(text)) };
    let left = run.task.budget.saturating_sub(run.task.work.len());
    let mut out = Vec::new();
    let (bytes, template) = (run.bytes(text), run.bytes(arguments.text(2)));
    let found = run.counted(bytes.len(), |effort| {
        regex.replace(bytes, template, all, left, effort, &mut out)
    })?;
    if !found {
        return Ok(Value::Text(text));
    }
    run.store(&out).map(Value::Text)
}

/// Adds to the body; there may be several.
fn synthetic(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let mut text = arguments.at(0);
    if text == Value::Text(Text::Unset) {
        // What a C program prints for it.
        text = Value::Text(run.store(b"(null)")?);
    }
    run.append_body(text)?;
    NOTHING
}
