//! `purge` and `xkey`: objects made to leave, by key and by tag.

use super::{Arguments, Function, Module, fault, function};
use crate::program::Value;
use crate::runtime::{Purge, Result, Run};
use crate::types::{State, States};

pub(super) const MODULE: Module =
    Module { name: "purge", classes: &[], functions: FUNCTIONS, is_test: false };

/// Objects are tagged by their responses' `xkey` and `X-HashTwo` fields.
pub(super) const XKEY: Module =
    Module { name: "xkey", classes: &[], functions: XKEY_FUNCTIONS, is_test: false };

const FOUND: States = States::of(&[State::Hit, State::Miss]);

const FUNCTIONS: &[Function] = &[
    function("INT hard()", hard),
    function("INT soft(DURATION ttl=0, DURATION grace=-1, DURATION keep=-1)", soft),
];

const XKEY_FUNCTIONS: &[Function] = &[
    function("INT purge(STRING keys)", purge_tags),
    function("INT softpurge(STRING keys)", soft_tags),
];

fn count(objects: u64) -> Result<Value> {
    Ok(Value::Int(i64::try_from(objects).unwrap_or(i64::MAX)))
}

/// Whether the state has an object to purge. A subroutine may be shared by several states, so this
/// is known when it runs.
fn has_object(run: &Run<'_>) -> Result<()> {
    if FOUND.has(run.state) {
        return Ok(());
    }
    fault("purge can only happen in vcl_hit{} or vcl_miss{}")
}

fn hard(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    has_object(run)?;
    count(run.host.purge(Purge::Hard))
}

fn soft(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    has_object(run)?;
    let (ttl, grace, keep) = (arguments.real(0), arguments.real(1), arguments.real(2));
    let leaves_nothing = ttl <= 0.0 && grace == 0.0 && keep == 0.0;
    let how = if leaves_nothing { Purge::Hard } else { Purge::Soft { ttl, grace, keep } };
    count(run.host.purge(how))
}

fn by_tags(run: &mut Run<'_>, arguments: &[Value], soft: bool) -> Result<Value> {
    let keys = run.bytes(arguments.text(0)).to_vec();
    let tags = keys.split(|byte| byte.is_ascii_whitespace() || *byte == b',');
    let mut objects = 0_u64;
    for tag in tags.filter(|tag| !tag.is_empty()) {
        objects = objects.saturating_add(run.host.purge_tag(tag, soft));
    }
    count(objects)
}

fn purge_tags(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    by_tags(run, arguments, false)
}

fn soft_tags(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    by_tags(run, arguments, true)
}
