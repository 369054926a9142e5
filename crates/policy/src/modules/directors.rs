//! `directors`: which backend a request goes to.
//!
//! A director's members can be directors. Choosing takes no lock for longer than to copy a
//! pointer, so that a director that is its own member is a long way and not a deadlock.

use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::policy::{Object, Policy, lock};
use crate::program::{BackendRef, Text, Value};
use crate::runtime::{Host, Result, Run};
use crate::types::{State, States};
use health::{DEPTH_MAX, fetched_key};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

mod health;
mod shard;
mod standing;

pub(crate) use health::health_of;
pub(crate) use shard::{Gathered, ShardParameters};
pub(crate) use standing::standing;
pub use standing::{DirectorStanding, MemberStanding, Rampup, Turn};

/// Members of one director.
const MEMBERS_MAX: usize = 1000;

pub(super) const MODULE: Module = Module {
    name: "directors",
    classes: &[
        "directors.fallback",
        "directors.hash",
        "directors.random",
        "directors.round_robin",
        "directors.shard",
        "directors.shard_param",
    ],
    functions: FUNCTIONS,
    is_test: false,
};

const INIT: States = States::of(&[State::Init]);

const FUNCTIONS: &[Function] = &[
    function_in(INIT, "VOID new round_robin()", new_round_robin),
    function("VOID round_robin.add_backend(BACKEND)", add_backend),
    function("VOID round_robin.remove_backend(BACKEND)", remove_backend),
    function("BACKEND round_robin.backend()", itself),
    function_in(INIT, "VOID new fallback(BOOL sticky=0)", new_fallback),
    function("VOID fallback.add_backend(BACKEND)", add_backend),
    function("VOID fallback.remove_backend(BACKEND)", remove_backend),
    function("BACKEND fallback.backend()", itself),
    function_in(INIT, "VOID new random()", new_random),
    function("VOID random.add_backend(BACKEND, REAL)", add_backend),
    function("VOID random.remove_backend(BACKEND)", remove_backend),
    function("BACKEND random.backend()", itself),
    function_in(INIT, "VOID new hash()", new_hash),
    function("VOID hash.add_backend(BACKEND, REAL weight=1.0)", add_backend),
    function("VOID hash.remove_backend(BACKEND)", remove_backend),
    function("BACKEND hash.backend(STRANDS)", hash_backend),
    function_in(INIT, "VOID new shard()", shard::new),
    function("VOID shard.set_warmup(REAL probability=0.0)", shard::set_warmup),
    function("VOID shard.set_rampup(DURATION duration=0)", shard::set_rampup),
    function("VOID shard.associate(BLOB param=0)", shard::associate),
    function(
        "BOOL shard.add_backend(BACKEND backend, [STRING ident], [DURATION rampup], [REAL weight])",
        shard::add_backend,
    ),
    function("BOOL shard.remove_backend([BACKEND backend], [STRING ident])", shard::remove_backend),
    function("BOOL shard.clear()", shard::clear),
    function("BOOL shard.reconfigure(INT replicas=67)", shard::reconfigure),
    function("INT shard.key(STRANDS)", shard::key),
    function(
        "BACKEND shard.backend([ENUM {HASH, URL, KEY, BLOB} by], [INT key], [BLOB key_blob], \
         [INT alt], [REAL warmup], [BOOL rampup], [ENUM {CHOSEN, IGNORE, ALL} healthy], [BLOB \
         param], [ENUM {NOW, LAZY} resolve])",
        shard::backend,
    ),
    function("VOID shard.debug(INT)", shard::debug),
    function_in(INIT, "VOID new shard_param()", shard::new_parameters),
    function("VOID shard_param.clear()", shard::clear_parameters),
    function(
        "VOID shard_param.set([ENUM {HASH, URL, KEY, BLOB} by], [INT key], [BLOB key_blob], [INT \
         alt], [REAL warmup], [BOOL rampup], [ENUM {CHOSEN, IGNORE, ALL} healthy])",
        shard::set_parameters,
    ),
    function("STRING shard_param.get_by()", shard::by_of),
    function("INT shard_param.get_key()", shard::key_of),
    function("INT shard_param.get_alt()", shard::alt_of),
    function("REAL shard_param.get_warmup()", shard::warmup_of),
    function("BOOL shard_param.get_rampup()", shard::rampup_of),
    function("STRING shard_param.get_healthy()", shard::healthy_of),
    function("BLOB shard_param.use()", shard::used),
    function("BACKEND lookup(STRING)", lookup),
];

/// How a director chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    RoundRobin,
    Fallback {
        sticky: bool,
    },
    Random,
    Hash,
    Shard,
    /// A saint: one backend, left alone by objects it failed for.
    Saint {
        threshold: u32,
    },
}

/// A member of a director.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) backend: BackendRef,
    pub(crate) weight: f64,
}

/// A director.
#[derive(Debug)]
pub(crate) struct Director {
    pub(crate) rule: Rule,
    members: Mutex<Arc<Vec<Member>>>,
    next: AtomicU64,
    pub(crate) shard: shard::Shard,
    /// What an operator says of it.
    said: Mutex<Option<Said>>,
}

/// That a director is healthy or not, whatever its members are, and since when that is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// Whether it is.
    pub is_healthy: bool,
    /// In seconds since 1970.
    pub since: f64,
}

impl Director {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            members: Mutex::default(),
            next: AtomicU64::new(0),
            shard: shard::Shard::default(),
            said: Mutex::default(),
        }
    }

    fn said(&self) -> Option<Said> {
        *lock(&self.said)
    }

    /// Says how it is; `None` leaves that to its members. What was said before stays as it is.
    pub(crate) fn say(&self, is_healthy: Option<bool>, now: f64) {
        let mut said = lock(&self.said);
        if said.map(|said| said.is_healthy) != is_healthy {
            *said = is_healthy.map(|is_healthy| Said { is_healthy, since: now });
        }
    }

    pub(crate) fn members(&self) -> Arc<Vec<Member>> {
        Arc::clone(&lock(&self.members))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Member>)) {
        let mut members = lock(&self.members);
        let mut copy = (**members).clone();
        change(&mut copy);
        *members = Arc::new(copy);
    }
}

/// What choosing depends on besides the director.
struct Choice<'a> {
    policy: &'a Policy,
    host: &'a mut dyn Host,
    now: f64,
    /// The hash of the request's object.
    key: u128,
    /// The same where the object is fetched.
    fetched: Option<u128>,
}

impl<'a> Choice<'a> {
    fn of(run: &'a mut Run<'_>) -> Self {
        let (key, fetched) = (object_key(run), fetched_key(run));
        Self { policy: run.policy, host: &mut *run.host, now: run.view.now, key, fetched }
    }
}

/// The declared backend or nothing that a backend or director stands for now.
pub(crate) fn resolve(run: &mut Run<'_>, backend: BackendRef) -> BackendRef {
    let parameters = shard::task_parameters(run);
    let url = shard::url_of(run);
    Choice::of(run).resolve(backend, 0, &parameters, &url)
}

/// The hash of the object a request is for, cut short.
pub(super) fn object_key(run: &Run<'_>) -> u128 {
    let hash = match (&run.view.fetch, &run.view.client) {
        (Some(fetch), _) => fetch.hash,
        (None, Some(client)) => client.hash,
        (None, None) => return 0,
    };
    let (first, _) = hash.split_at(16);
    first.try_into().map_or(0, u128::from_be_bytes)
}

impl Choice<'_> {
    fn is_healthy(&mut self, backend: BackendRef) -> bool {
        self.health(backend).0
    }

    fn health(&mut self, backend: BackendRef) -> (bool, f64) {
        health::told(self.policy, self.host, self.now, self.fetched, backend)
    }

    fn resolve(
        &mut self,
        backend: BackendRef,
        depth: u32,
        parameters: &shard::Parameters,
        url: &[u8],
    ) -> BackendRef {
        let BackendRef::Director(index) = backend else { return backend };
        let Some(Object::Director(director)) = self.policy.object(index) else {
            return BackendRef::None;
        };
        if depth >= DEPTH_MAX {
            return BackendRef::None;
        }
        let members = director.members();
        let chosen = match director.rule {
            Rule::RoundRobin => self.in_turn(&director, &members),
            Rule::Fallback { sticky } => self.first(&director, &members, sticky),
            Rule::Random => {
                let draw = f64::from(self.host.random_short()) / f64::from(1_u32 << 31);
                self.weighted(&members, draw)
            }
            Rule::Hash => self.weighted(&members, 0.5),
            Rule::Saint { .. } => {
                self.is_healthy(backend).then(|| members.first()).flatten().map(|m| m.backend)
            }
            Rule::Shard => {
                let parameters = parameters.of(index, &director);
                shard::choose(self, index, &director, &parameters, url)
            }
        };
        match chosen {
            Some(chosen) => self.resolve(chosen, depth + 1, parameters, url),
            None => BackendRef::None,
        }
    }

    fn in_turn(&mut self, director: &Director, members: &[Member]) -> Option<BackendRef> {
        let len = members.len();
        let start = usize::try_from(director.next.fetch_add(1, Relaxed) % (len.max(1) as u64));
        let start = start.unwrap_or(0);
        for step in 0..len {
            let at = (start + step) % len;
            let backend = members.get(at)?.backend;
            if self.is_healthy(backend) {
                // The next request begins behind the one that was taken.
                if step > 0 {
                    director.next.store((at + 1) as u64, Relaxed);
                }
                return Some(backend);
            }
        }
        None
    }

    fn first(
        &mut self,
        director: &Director,
        members: &[Member],
        sticky: bool,
    ) -> Option<BackendRef> {
        let len = members.len();
        let start = if sticky { director.next.load(Relaxed) as usize % len.max(1) } else { 0 };
        for step in 0..len {
            let at = (start + step) % len;
            let backend = members.get(at)?.backend;
            if self.is_healthy(backend) {
                director.next.store(at as u64, Relaxed);
                return Some(backend);
            }
        }
        None
    }

    /// The member at a share of the healthy ones' weights; none where all of these are 0.
    fn weighted(&mut self, members: &[Member], share: f64) -> Option<BackendRef> {
        let healthy: Vec<_> =
            members.iter().filter(|member| self.is_healthy(member.backend)).collect();
        let total: f64 = healthy.iter().map(|member| member.weight).sum();
        let wanted = share * total;
        let mut sum = 0.0;
        for member in &healthy {
            sum += member.weight;
            if wanted < sum {
                return Some(member.backend);
            }
        }
        None
    }
}

pub(super) fn director(run: &Run<'_>, object: u32) -> Result<Arc<Director>> {
    match run.policy.object(object) {
        Some(Object::Director(director)) => Ok(director),
        _ => not_made(run, object),
    }
}

pub(super) fn not_made<T>(run: &Run<'_>, object: u32) -> Result<T> {
    let name = run.program.objects.get(object as usize).map_or("", |slot| &slot.name);
    fault(format!("Object {name} not initialized"))
}

fn new(run: &mut Run<'_>, object: u32, rule: Rule) -> Result<Value> {
    run.policy.put(object, Object::Director(Arc::new(Director::new(rule))));
    NOTHING
}

fn new_round_robin(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    new(run, object, Rule::RoundRobin)
}

fn new_fallback(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    new(run, object, Rule::Fallback { sticky: arguments.truth(0) })
}

fn new_random(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    new(run, object, Rule::Random)
}

fn new_hash(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    new(run, object, Rule::Hash)
}

fn add_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = director(run, object)?;
    let Value::Backend(backend) = arguments.at(0) else { return NOTHING };
    if let Some(why) = no_member(run, backend) {
        return fault(why);
    }
    let weight = if arguments.is_given(1) { arguments.real(1) } else { 1.0 };
    if director.members().len() >= MEMBERS_MAX {
        return fault("a director has 1,000 members at most");
    }
    let member = Member { backend, weight: weight.max(0.0) };
    director.change(|members| members.push(member));
    NOTHING
}

/// Why a backend cannot be a director's, if it cannot.
pub(super) fn no_member(run: &Run<'_>, backend: BackendRef) -> Option<&'static str> {
    match backend {
        // Who made it forgets it when it is not used.
        BackendRef::Made(_) => Some("a backend of dynamic cannot be added"),
        _ => run.program.is_nobody(backend).then_some("None backend cannot be added"),
    }
}

fn remove_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = director(run, object)?;
    let Value::Backend(backend) = arguments.at(0) else { return NOTHING };
    director.change(|members| {
        if let Some(at) = members.iter().position(|member| member.backend == backend) {
            members.remove(at);
            // A fallback that stays where it is stays with the same member.
            let now = director.next.load(Relaxed);
            if matches!(director.rule, Rule::Fallback { .. }) && (at as u64) < now {
                director.next.store(now - 1, Relaxed);
            }
        }
    });
    NOTHING
}

/// The director itself: it chooses when the request is about to be sent.
fn itself(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    director(run, object)?;
    Ok(BackendRef::Director(object).into())
}

fn hash_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = director(run, object)?;
    let share = f64::from(hash32(run.bytes(arguments.text(0)))) / 2_f64.powi(32);
    let members = director.members();
    Ok(Choice::of(run).weighted(&members, share).unwrap_or_default().into())
}

/// The last 32 bits of a text's SHA-256, the lowest first, as Varnish's directors hash.
pub(super) fn hash32(text: &[u8]) -> u32 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text);
    let last = digest.as_ref().last_chunk::<4>().copied().unwrap_or_default();
    u32::from_le_bytes(last)
}

fn lookup(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if !States::HOUSEKEEPING.has(run.state) {
        return fault("lookup() may only be called from vcl_init / vcl_fini");
    }
    let name = run.string(arguments.text(0)).into_owned();
    let program = run.program;
    let backend = program.backends.iter().position(|backend| *backend.name == *name);
    let object = program.objects.iter().position(|object| *object.name == *name);
    let found = match (backend, object) {
        (Some(index), _) => u32::try_from(index).ok().map(BackendRef::Backend),
        (None, Some(index)) => u32::try_from(index).ok().map(BackendRef::Director),
        (None, None) => None,
    };
    Ok(found.unwrap_or_default().into())
}

/// The bytes of a text, copied.
fn copied(run: &Run<'_>, text: Text) -> Box<[u8]> {
    run.bytes(text).into()
}
