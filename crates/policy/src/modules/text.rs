//! `str`: texts taken apart.

use super::standard::position;
use super::{Arguments, Function, Module, function};
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};

pub(super) const MODULE: Module =
    Module { name: "str", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("INT count(STRING s)", count),
    function("BOOL startswith(STRING s1, STRING s2)", startswith),
    function("BOOL endswith(STRING s1, STRING s2)", endswith),
    function("BOOL contains(STRING s1, STRING s2)", contains),
    function("STRING take(STRING s, INT n, INT offset=0)", take),
    function("STRING reverse(STRING s)", reverse),
    function("STRING split(STRING S, INT n, STRING sep=\" \t\")", split),
    function(
        "BOOL token_intersect(STRING str1, STRING str2, STRING separators=\" ,\t\")",
        token_intersect,
    ),
];

/// Whether a relation holds between two texts; where one is unset, none does.
fn holds(
    run: &Run<'_>,
    arguments: &[Value],
    relation: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<Value> {
    let (one, other) = (arguments.text(0), arguments.text(1));
    let are_set = one != Text::Unset && other != Text::Unset;
    Ok(Value::Bool(are_set && relation(run.bytes(one), run.bytes(other))))
}

fn count(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = arguments.text(0);
    if text == Text::Unset {
        return Ok(Value::Int(-1));
    }
    Ok(Value::Int(i64::try_from(run.bytes(text).len()).unwrap_or(i64::MAX)))
}

fn startswith(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    holds(run, arguments, |text, part| text.starts_with(part))
}

fn endswith(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    holds(run, arguments, |text, part| text.ends_with(part))
}

fn contains(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    holds(run, arguments, |text, part| position(text, part).is_some())
}

/// `n` bytes from `offset`. From the end count a negative offset, and a negative `n` without one; a
/// negative `n` takes what is before.
fn take(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = arguments.text(0);
    if text == Text::Unset {
        return Ok(Value::Text(text));
    }
    let bytes = run.bytes(text);
    let len = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let (count, offset) = (arguments.int(1), arguments.int(2));
    let from_end = offset < 0 || (offset == 0 && count < 0);
    let from = if from_end { len.saturating_add(offset) } else { offset };
    let to = from.saturating_add(count);
    let (from, to) = (from.min(to).clamp(0, len), from.max(to).clamp(0, len));
    let part = bytes.get(from as usize..to as usize).unwrap_or(&[]).to_vec();
    run.store(&part).map(Value::Text)
}

fn reverse(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if arguments.text(0) == Text::Unset {
        return Ok(Value::Text(Text::Unset));
    }
    let reversed: Vec<u8> = run.bytes(arguments.text(0)).iter().rev().copied().collect();
    run.store(&reversed).map(Value::Text)
}

/// The `i`-th token, from 1; negative ones from the end.
fn split(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let separators = run.bytes(arguments.text(2));
    let tokens: Vec<&[u8]> = run
        .bytes(arguments.text(0))
        .split(|byte| separators.contains(byte))
        .filter(|token| !token.is_empty())
        .collect();
    let index = arguments.int(1);
    let at = match index {
        1.. => usize::try_from(index - 1).ok(),
        0 => None,
        _ => usize::try_from(index.unsigned_abs()).ok().and_then(|n| tokens.len().checked_sub(n)),
    };
    match at.and_then(|at| tokens.get(at)).map(|token| token.to_vec()) {
        Some(token) => run.store(&token).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn token_intersect(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let separators = run.bytes(arguments.text(2));
    let tokens = |text: Text| -> Vec<&[u8]> {
        run.bytes(text)
            .split(|byte| separators.contains(byte))
            .filter(|token| !token.is_empty())
            .collect()
    };
    let (first, second) = (tokens(arguments.text(0)), tokens(arguments.text(1)));
    Ok(Value::Bool(second.into_iter().any(|token| first.contains(&token))))
}
