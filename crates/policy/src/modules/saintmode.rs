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
    function("VOID blacklist(DURATION expires)", blacklist),
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

/// The lists of all saints of a policy. An object can be on a list several times, each with its time.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    /// Until when a saint is left alone for an object, in µs since 1970.
    until_us: HashMap<(u32, u128), u64>,
    /// What is on the lists, in the order in which it leaves; numbers keep those of one moment apart.
    leaving: BTreeSet<(u64, u32, u128, u64)>,
    listed: u64,
    /// How many each saint has.
    counts: HashMap<u32, i64>,
    /// What the policy calls a list.
    list: &'static str,
}

impl Denied {
    fn insert(&mut self, saint: u32, key: u128, until: f64) {
        while self.leaving.len() >= DENIED_MAX
            && let Some(first) = self.leaving.first().copied()
        {
            self.leave(first);
        }
        let until_us = micros(until);
        self.listed += 1;
        self.leaving.insert((until_us, saint, key, self.listed));
        let last = self.until_us.entry((saint, key)).or_default();
        *last = until_us.max(*last);
        *self.counts.entry(saint).or_default() += 1;
    }

    fn leave(&mut self, entry @ (until_us, saint, key, _): (u64, u32, u128, u64)) {
        self.leaving.remove(&entry);
        if self.until_us.get(&(saint, key)) == Some(&until_us) {
            self.until_us.remove(&(saint, key));
        }
        *self.counts.entry(saint).or_default() -= 1;
    }

    fn has(&self, saint: u32, key: u128, now: f64) -> bool {
        self.until_us.get(&(saint, key)).is_some_and(|until_us| micros(now) < *until_us)
    }

    /// How many a saint has; where very many are over at once, some of them still.
    fn count(&mut self, saint: u32, now: f64) -> i64 {
        let now_us = micros(now);
        for _ in 0..LEAVING_MAX {
            match self.leaving.first().copied() {
                Some(first) if first.0 <= now_us => self.leave(first),
                _ => break,
            }
        }
        self.counts.get(&saint).copied().unwrap_or(0)
    }

    /// Why a saint is left alone, if it is.
    fn denial(
        &mut self,
        saint: u32,
        threshold: u32,
        key: Option<u128>,
        now: f64,
    ) -> Option<String> {
        let count = self.count(saint, now);
        if key.is_some_and(|key| self.has(saint, key, now)) {
            return Some(format!("object {}ed", self.list));
        }
        (i64::from(threshold) <= count).then(|| "hit threshold".to_owned())
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
    // As many bits as the module keeps: below 0 is more than there can be.
    let saint = Director::new(Rule::Saint { threshold: arguments.int(1) as u32 });
    saint.change(|members| {
        members.push(Member { backend, weight: 1.0 });
    });
    run.policy.put(object, Object::Director(Arc::new(saint)));
    NOTHING
}

/// What is logged where a saint's backend is left alone, for an object that is fetched or for any; nothing where it
/// is not. A threshold of 0 has it never left alone.
pub(super) fn denial(
    policy: &Policy,
    saint: u32,
    threshold: u32,
    key: Option<u128>,
    now: f64,
) -> Option<String> {
    let mut denied = lock(&policy.denied);
    if threshold == 0 || denied.count(saint, now) == 0 {
        return None;
    }
    let why = denied.denial(saint, threshold, key, now)?;
    drop(denied);
    Some(unhealthy(policy, saint, &why))
}

fn unhealthy(policy: &Policy, saint: u32, why: &str) -> String {
    let Some(Object::Director(director)) = policy.object(saint) else { return String::new() };
    let members = director.members();
    let name = members.first().map_or("", |one| policy.program().backend_name(one.backend));
    format!("saintmode: unhealthy: {why} for backend {name}")
}

fn blacklist(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    list(run, "blacklist", arguments.real(0))
}

fn denylist(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    list(run, "denylist", arguments.real(0))
}

/// Lists the object under the first saint that stands for the backend that answered. Where that cannot be, it is
/// said, and nothing else comes of it.
fn list(run: &mut Run<'_>, name: &'static str, span: f64) -> Result<Value> {
    let saints = (0..run.program.objects.len() as u32).filter_map(|index| {
        let Some(Object::Director(director)) = run.policy.object(index) else { return None };
        let is_saint = matches!(director.rule, Rule::Saint { .. });
        is_saint.then(|| (index, director.members().first().map(|one| one.backend)))
    });
    let saints: Vec<_> = saints.collect();
    if saints.is_empty() {
        note(run, &format!("saintmode.{name}(): Saintmode is not configured"));
        return NOTHING;
    }
    if run.state != State::BackendResponse {
        note(run, &format!("saintmode.{name}() called outside of vcl_backend_response"));
        return NOTHING;
    }
    let used = run.view.answer.as_deref().map_or_else(|| run.current_backend(), |a| a.backend);
    let Some((saint, _)) = saints.into_iter().find(|(_, backend)| *backend == Some(used)) else {
        let text = format!("Error: saintmode.{name}(): Saintmode not configured for this backend.");
        note(run, &text);
        return NOTHING;
    };
    let (key, now) = (object_key(run), run.view.now);
    let mut denied = lock(&run.policy.denied);
    denied.list = name;
    denied.insert(saint, key, now + span.max(0.0));
    drop(denied);
    if run.traced {
        let backend = run.program.backend_name(used);
        let text =
            format!("saintmode: object put on {name} for backend {backend} for {span:.2} seconds");
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

/// Whether it is not left alone. A client's side asks for its object, once that is known, and not how the backend is.
fn is_healthy(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let Rule::Saint { threshold } = director(run, object)?.rule else { return NOTHING };
    if run.view.client.is_none() {
        let (is_healthy, _) = super::directors::health_of(run, BackendRef::Director(object));
        return Ok(Value::Bool(is_healthy));
    }
    let is_known = !matches!(run.state, State::Recv | State::Hash);
    let key = is_known.then(|| object_key(run));
    let why = lock(&run.policy.denied).denial(object, threshold, key, run.view.now);
    if let Some(why) = why.as_ref().filter(|_| run.traced) {
        let text = unhealthy(run.policy, object, why);
        run.host.trace(Event::Log(text.as_bytes()));
    }
    Ok(Value::Bool(why.is_none()))
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
        denied.insert(1, 7, 200.0);
        assert!(!denied.has(0, 0, 0.0) && denied.has(1, 7, 150.0), "once more, and longer");
        assert_eq!((denied.count(0, 0.0), denied.count(1, 0.0)), (49_999, 50_001));
        denied.insert(2, 0, 1e9);
        assert!(!denied.has(1, 1, 0.0) && denied.has(2, 0, 0.0));
        // Those that are over, without the first of each, which made room.
        let counts = (denied.count(0, 120.0), denied.count(1, 120.0));
        assert_eq!(counts, (50_000 - 11, 50_001 - 1 - 9));
        assert!(denied.has(1, 7, 120.0), "of the same object another one is over");
    }

    #[test]
    fn what_is_listed_often_enough_has_all_left_alone() {
        let mut denied = Denied { list: "denylist", ..Denied::default() };
        let why = |denied: &mut Denied, key| denied.denial(0, 2, key, 10.0);
        assert_eq!(why(&mut denied, Some(1)), None);
        denied.insert(0, 1, 20.0);
        assert_eq!(why(&mut denied, Some(1)).as_deref(), Some("object denylisted"));
        assert_eq!(why(&mut denied, Some(2)), None);
        assert_eq!(why(&mut denied, None), None);
        denied.insert(0, 1, 30.0);
        assert_eq!(why(&mut denied, Some(2)).as_deref(), Some("hit threshold"));
        assert_eq!(why(&mut denied, None).as_deref(), Some("hit threshold"));
        assert_eq!(denied.denial(0, 2, Some(2), 25.0), None);
    }
}
