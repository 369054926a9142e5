//! `saintmode`: backends left alone for objects they failed for.

use super::directors::{Director, Member, Rule, director, object_key};
use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::policy::{Object, Policy, lock};
use crate::program::{BackendRef, Value};
use crate::runtime::{Event, Result, Run};
use crate::types::{State, States};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    name: "saintmode",
    classes: &["saintmode.saintmode"],
    functions: FUNCTIONS,
    is_test: false,
};

const FUNCTIONS: &[Function] = &[
    function("VOID denylist(DURATION expires)", denylist),
    function("VOID blacklist(DURATION expires)", denylist),
    function("STRING status()", status),
    function_in(
        States::of(&[State::Init]),
        "VOID new saintmode(BACKEND backend, INT threshold)",
        new,
    ),
    function("BACKEND saintmode.backend()", backend),
    function("INT saintmode.denylist_count()", denylist_count),
    function("INT saintmode.blacklist_count()", denylist_count),
    function("BOOL saintmode.is_healthy()", is_healthy),
];

/// Objects on all lists of a policy; the oldest entries go first.
const DENIED_MAX: usize = 100_000;

fn new(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Backend(backend) = arguments.at(0) else { return NOTHING };
    if run.program.is_nobody(backend) {
        return fault("None backend cannot be added");
    }
    let saint = Director::new(Rule::Saint { threshold: arguments.int(1) });
    saint.change(|members| {
        members.push(Member { backend, weight: 1.0 });
    });
    run.policy.put(object, Object::Director(Arc::new(saint)));
    NOTHING
}

/// Whether a saint's backend is left alone for an object.
pub(super) fn is_denied(policy: &Policy, saint: u32, threshold: i64, key: u128, now: f64) -> bool {
    let sick = lock(&policy.sick);
    if sick.is_empty() {
        return false;
    }
    if sick.get(&(saint, key)).is_some_and(|until| now < *until) {
        return true;
    }
    threshold > 0 && count(&sick, saint, now) >= threshold
}

fn count(sick: &std::collections::HashMap<(u32, u128), f64>, saint: u32, now: f64) -> i64 {
    let listed = sick.iter().filter(|((of, _), until)| *of == saint && now < **until).count();
    i64::try_from(listed).unwrap_or(i64::MAX)
}

/// Lists the object under every saint that stands for the backend that answered. Where that cannot be, it is
/// said, and nothing else comes of it.
fn denylist(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if run.state != State::BackendResponse {
        note(run, "saintmode.blacklist() called outside of vcl_backend_response");
        return NOTHING;
    }
    let used = run.view.answer.as_deref().map_or_else(|| run.current_backend(), |a| a.backend);
    let asked = run.current_backend();
    let key = object_key(run);
    let (now, span) = (run.view.now, arguments.real(0));
    let policy = run.policy;
    let saints: Vec<u32> = (0..run.program.objects.len() as u32)
        .filter(|index| match policy.object(*index) {
            Some(Object::Director(director)) => {
                matches!(director.rule, Rule::Saint { .. })
                    && (asked == BackendRef::Director(*index)
                        || director.members().iter().any(|member| member.backend == used))
            }
            _ => false,
        })
        .collect();
    if saints.is_empty() {
        note(run, "Error: saintmode.blacklist(): Saintmode not configured for this backend.");
        return NOTHING;
    }
    let mut sick = lock(&policy.sick);
    if sick.len() >= DENIED_MAX {
        sick.retain(|_, until| now < *until);
        if sick.len() >= DENIED_MAX {
            sick.clear();
        }
    }
    for saint in saints {
        sick.insert((saint, key), now + span.max(0.0));
    }
    drop(sick);
    if run.traced {
        let name = run.program.backend_name(used);
        let text =
            format!("saintmode: object put on blacklist for backend {name} for {span:.2} seconds");
        run.host.trace(Event::Log(text.as_bytes()));
    }
    NOTHING
}

fn note(run: &mut Run<'_>, why: &str) {
    if run.traced {
        run.host.trace(Event::Error(why));
    }
}

fn backend(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    director(run, object)?;
    Ok(BackendRef::Director(object).into())
}

fn denylist_count(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Int(count(&lock(&run.policy.sick), object, run.view.now)))
}

fn is_healthy(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Bool(super::directors::health_of(run, BackendRef::Director(object), true).0))
}

/// All saints as JSON.
fn status(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let mut lines = Vec::new();
    for (index, slot) in run.program.objects.iter().enumerate() {
        let at = u32::try_from(index).unwrap_or(u32::MAX);
        let Some(Object::Director(director)) = run.policy.object(at) else { continue };
        let Rule::Saint { threshold } = director.rule else { continue };
        let count = count(&lock(&run.policy.sick), at, run.view.now);
        lines.push(format!(
            "\t\t{{ \"name\": \"{}\", \"count\": \"{count}\", \"threshold\": \"{threshold}\" }}",
            slot.name
        ));
    }
    let text = format!("{{\n\t\"saintmode\": [\n{}\n\t]\n}}\n", lines.join(",\n"));
    run.store(text.as_bytes()).map(Value::Text)
}
