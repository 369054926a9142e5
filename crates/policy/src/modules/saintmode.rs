//! `saintmode`: backends left alone for objects they failed for.

use super::directors::{Director, Member, Rule, director, object_key};
use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::policy::{Object, Policy, lock};
use crate::program::{BackendRef, Value};
use crate::runtime::{Event, Result, Run};
use crate::types::{State, States};
use std::collections::{BTreeSet, HashMap};
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

/// Objects on all lists of a policy; those that would leave soonest go first.
const DENIED_MAX: usize = 100_000;

/// Entries that are over and leave in one call, so that no call is long.
const LEAVING_MAX: usize = 64;

/// The lists of all saints of a policy.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    /// Until when a saint is left alone for an object, in µs since 1970.
    until_us: HashMap<(u32, u128), u64>,
    /// The same in the order in which entries leave.
    leaving: BTreeSet<(u64, u32, u128)>,
    /// How many each saint has.
    counts: HashMap<u32, i64>,
}

impl Denied {
    fn insert(&mut self, saint: u32, key: u128, until: f64) {
        self.remove(saint, key);
        while self.until_us.len() >= DENIED_MAX
            && let Some((_, saint, key)) = self.leaving.first().copied()
        {
            self.remove(saint, key);
        }
        let until_us = micros(until);
        self.until_us.insert((saint, key), until_us);
        self.leaving.insert((until_us, saint, key));
        *self.counts.entry(saint).or_default() += 1;
    }

    fn remove(&mut self, saint: u32, key: u128) {
        if let Some(until_us) = self.until_us.remove(&(saint, key)) {
            self.leaving.remove(&(until_us, saint, key));
            *self.counts.entry(saint).or_default() -= 1;
        }
    }

    fn has(&self, saint: u32, key: u128, now: f64) -> bool {
        self.until_us.get(&(saint, key)).is_some_and(|until_us| micros(now) < *until_us)
    }

    /// How many a saint has; where very many are over at once, some of them still.
    fn count(&mut self, saint: u32, now: f64) -> i64 {
        let now_us = micros(now);
        for _ in 0..LEAVING_MAX {
            match self.leaving.first().copied() {
                Some((until_us, saint, key)) if until_us <= now_us => self.remove(saint, key),
                _ => break,
            }
        }
        self.counts.get(&saint).copied().unwrap_or(0)
    }
}

/// A moment in µs since 1970.
fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6) as u64
}

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
    let mut denied = lock(&policy.denied);
    denied.has(saint, key, now) || (threshold > 0 && denied.count(saint, now) >= threshold)
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
    let mut denied = lock(&policy.denied);
    for saint in saints {
        denied.insert(saint, key, now + span.max(0.0));
    }
    drop(denied);
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
    Ok(Value::Int(lock(&run.policy.denied).count(object, run.view.now)))
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
        let count = lock(&run.policy.denied).count(at, run.view.now);
        let members = director.members();
        let backend = members.first().map_or("", |one| run.program.backend_name(one.backend));
        lines.push(format!(
            "\t\t{{ \"name\": \"{}\", \"backend\": \"{backend}\", \"count\": \"{count}\", \"threshold\": \"{threshold}\" }}",
            slot.name
        ));
    }
    let text = format!("{{\n\t\"saintmode\": [\n{}\n\t]\n}}\n", lines.join(",\n"));
    run.store(text.as_bytes()).map(Value::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_not_counted_and_the_soonest_makes_room() {
        let mut denied = Denied::default();
        for key in 0..DENIED_MAX as u128 {
            denied.insert(u32::from(key % 2 == 1), key, 100.0 + key as f64);
        }
        assert_eq!((denied.count(0, 0.0), denied.count(1, 0.0)), (50_000, 50_000));
        denied.insert(1, 7, 50.0);
        assert_eq!(denied.count(1, 0.0), 50_000, "it was there before");
        denied.insert(2, 0, 1e9);
        assert!(!denied.has(1, 7, 0.0) && denied.has(2, 0, 0.0));
        // Ten and their likes of the other saint are over.
        let counts = (denied.count(0, 120.0), denied.count(1, 120.0));
        assert_eq!(counts, (50_000 - 11, 49_999 - 9));
        assert_eq!(denied.until_us.len(), denied.leaving.len());
    }
}
