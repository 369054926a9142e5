//! The shard director: consistent hashing over a ring, with warm-up of the next in line and a slow
//! start for members that came back.

use super::{Choice, Director, Rule, copied, hash32};
use crate::modules::{Arguments, NOTHING, fault};
use crate::policy::{Object, lock};
use crate::program::{BackendRef, Program, Value};
use crate::runtime::{Event, Result, Run};
use crate::types::State;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

mod ring;

pub(crate) use ring::Gathered;
use ring::{Change, Host, Ring, Walk};

/// The bit of `.debug()` for where a key is found.
const TELLS_KEY: i64 = 1;
/// The bit for the points of a ring, when it is made.
const TELLS_RING: i64 = 2;
/// The bit for whose health changed when.
const TELLS_TIMES: i64 = 4;

/// What a shard director keeps besides its members.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    ring: Mutex<Arc<Ring>>,
    /// Held while a ring is made.
    turn: Mutex<()>,
    pub(super) warmup: Mutex<f64>,
    pub(super) rampup: Mutex<f64>,
    associated: Mutex<Option<u32>>,
    /// What `.debug()` asked to be told, as bits.
    told: AtomicI64,
}

/// A member's name on the ring, and in how many seconds it takes its full load again.
pub(super) struct Ramp {
    pub(super) ident: Option<Box<str>>,
    pub(super) seconds: f64,
}

impl Shard {
    /// Of each member, in their order.
    pub(super) fn ramps(&self) -> Vec<Ramp> {
        let usual = *lock(&self.rampup);
        let ring = Arc::clone(&lock(&self.ring));
        let ramp =
            |host: &Host| Ramp { ident: host.ident.clone(), seconds: host.rampup.unwrap_or(usual) };
        ring.hosts.iter().map(ramp).collect()
    }
}

/// Arguments of `.backend()`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ShardParameters {
    by: Option<&'static str>,
    key: Option<u32>,
    alt: Option<i64>,
    warmup: Option<f64>,
    rampup: Option<bool>,
    healthy: Option<&'static str>,
}

impl ShardParameters {
    /// These, with what they leave open taken from `other`.
    fn or(&self, other: &Self) -> Self {
        Self {
            by: self.by.or(other.by),
            key: self.key.or(other.key),
            alt: self.alt.or(other.alt),
            warmup: self.warmup.or(other.warmup),
            rampup: self.rampup.or(other.rampup),
            healthy: self.healthy.or(other.healthy),
        }
    }

    /// What a `function` was given.
    fn read(run: &mut Run<'_>, object: u32, arguments: &[Value], function: &str) -> Result<Self> {
        let wrong = |run: &Run<'_>, what: &str| wrong(run, object, &format!("{function} {what}"));
        let word = |at: usize| arguments.is_given(at).then(|| arguments.word(at));
        let by = word(0);
        let (has_key, has_blob) = (arguments.is_given(1), arguments.is_given(2));
        let mut key = None;
        match by {
            Some("KEY") if !has_key => {
                return wrong(run, "missing key argument with by=KEY");
            }
            Some("BLOB") if !has_blob => {
                return wrong(run, "missing key_blob argument with by=BLOB");
            }
            Some("KEY") => {
                let number = arguments.int(1);
                if !(0..=i64::from(u32::MAX)).contains(&number) {
                    let what = format!("invalid key argument {number} with by=KEY");
                    return wrong(run, &what);
                }
                key = Some(u32::try_from(number).unwrap_or(0));
            }
            Some("BLOB") => {
                if run.bytes(arguments.text(2)).is_empty() {
                    let name = object_name(run, object);
                    run.complain(&format!(
                        "vmod_directors: shard {name}: {function} by=BLOB but no or empty key_blob - using key 0"
                    ));
                }
                let bytes = run.bytes(arguments.text(2));
                key = Some(bytes.iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte)));
            }
            _ if has_key || has_blob => {
                let by = by.unwrap_or("HASH");
                let what = format!("key and key_blob arguments are invalid with by={by}");
                return wrong(run, &what);
            }
            _ => {}
        }
        let alt = arguments.is_given(3).then(|| arguments.int(3));
        if let Some(alt) = alt.filter(|alt| *alt < 0) {
            return wrong(run, &format!("invalid alt argument {alt}"));
        }
        let warmup = arguments.is_given(4).then(|| arguments.real(4));
        if let Some(warmup) = warmup
            && (warmup > 1.0 || (warmup < 0.0 && warmup != -1.0))
        {
            return wrong(run, &format!("invalid warmup argument {warmup:.6}"));
        }
        Ok(Self {
            by,
            key,
            alt,
            warmup,
            rampup: arguments.is_given(5).then(|| arguments.truth(5)),
            healthy: word(6),
        })
    }
}

fn wrong<T>(run: &Run<'_>, object: u32, what: &str) -> Result<T> {
    fault(format!("vmod_directors: shard {}: {what}", object_name(run, object)))
}

fn object_name<'a>(run: &Run<'a>, object: u32) -> &'a str {
    name_in(run.program, object)
}

fn name_in(program: &Program, object: u32) -> &str {
    program.objects.get(object as usize).map_or("", |object| &object.name)
}

/// What the task knows about the parameters of shard directors that choose later.
pub(super) struct Parameters {
    of_task: HashMap<u32, ShardParameters>,
    of_objects: Vec<(u32, ShardParameters)>,
}

impl Parameters {
    /// The parameters for a director: its task's, over those of the object it is associated with.
    pub(super) fn of(&self, index: u32, director: &Director) -> ShardParameters {
        let own = self.of_task.get(&index).cloned().unwrap_or_default();
        let Some(object) = *lock(&director.shard.associated) else { return own };
        let task = self.of_task.get(&object).cloned().unwrap_or_default();
        let set = self.of_objects.iter().find(|(at, _)| *at == object);
        own.or(&task).or(&set.map(|(_, set)| set.clone()).unwrap_or_default())
    }
}

pub(super) fn task_parameters(run: &Run<'_>) -> Parameters {
    let of_objects = (0..run.program.objects.len() as u32)
        .filter_map(|index| match run.policy.object(index) {
            Some(Object::Shard(parameters)) => Some((index, parameters)),
            _ => None,
        })
        .collect();
    Parameters { of_task: run.task.shard_params.clone().unwrap_or_default(), of_objects }
}

/// What `by=URL` hashes.
pub(super) fn url_of(run: &Run<'_>) -> Vec<u8> {
    let head = run.view.bereq.as_deref().or(run.view.req.as_deref());
    head.map(|head| head.target.as_bytes().to_vec()).unwrap_or_default()
}

pub(super) fn new(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    super::new(run, object, Rule::Shard)
}

pub(super) fn set_warmup(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let probability = arguments.real(0);
    if !(0.0..1.0).contains(&probability) {
        let name = object_name(run, object);
        let what = format!("vmod_directors: shard {name}: .set_warmup({probability:.6}) ignored");
        run.notice(&what);
        return NOTHING;
    }
    *lock(&super::director(run, object)?.shard.warmup) = probability;
    NOTHING
}

pub(super) fn set_rampup(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    *lock(&super::director(run, object)?.shard.rampup) = arguments.real(0).max(0.0);
    NOTHING
}

/// A parameter object travels as a blob: its number, four bytes.
fn object_of(run: &Run<'_>, value: Value) -> Option<u32> {
    let Value::Blob(text) = value else { return None };
    let number = run.bytes(text).first_chunk::<4>().copied().map(u32::from_be_bytes)?;
    matches!(run.policy.object(number), Some(Object::Shard(_))).then_some(number)
}

pub(super) fn associate(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let parameters = object_of(run, arguments.at(0));
    if parameters.is_none() && arguments.is_given(0) {
        return wrong(run, object, "shard .associate param invalid");
    }
    *lock(&super::director(run, object)?.shard.associated) = parameters;
    NOTHING
}

pub(super) fn add_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    super::director(run, object)?;
    let Value::Backend(backend) = arguments.at(0) else { return Ok(Value::Bool(false)) };
    if let Some(why) = super::no_member(run, backend) {
        return wrong(run, object, why);
    }
    let ident = ident(run, arguments);
    let mut weight = if arguments.is_given(3) { arguments.real(3) } else { 1.0 };
    if weight < 1.0 {
        let name = object_name(run, object);
        let what =
            format!("vmod_directors: shard {name}: .add_backend(weight={weight:.6}) ignored");
        run.notice(&what);
        weight = 1.0;
    }
    let name = run.program.backend_name(backend).into();
    let rampup = arguments.is_given(2).then(|| arguments.real(2));
    let host = Host { backend, name, ident, weight, rampup, replicas: 0 };
    ask(run, object, Change::Add(host))
}

/// A name on a ring, unless it is empty.
fn ident(run: &Run<'_>, arguments: &[Value]) -> Option<Box<str>> {
    let ident = arguments.is_given(1).then(|| run.string(arguments.text(1)))?;
    (!ident.is_empty()).then(|| ident.into())
}

/// Has the task remember a change of a director.
fn ask(run: &mut Run<'_>, object: u32, change: Change) -> Result<Value> {
    let director = super::director(run, object)?;
    let text = match &change {
        Change::Add(Host { name, ident, .. }) => {
            name.len() + ident.as_ref().map_or(0, |ident| ident.len())
        }
        Change::Remove { ident: Some(ident), .. } => ident.len(),
        _ => 0,
    };
    run.spend(size_of::<Change>() + text)?;
    let all = run.task.shard_changes.get_or_insert_default();
    all.entry(object).or_insert_with(|| Gathered::new(director)).changes.push(change);
    Ok(Value::Bool(true))
}

pub(super) fn remove_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    super::director(run, object)?;
    let backend = match arguments.at(0) {
        Value::Backend(backend) => backend,
        _ => BackendRef::None,
    };
    let ident = ident(run, arguments);
    if backend == BackendRef::None && !arguments.is_given(1) {
        return wrong(run, object, ".remove_backend(): either backend or ident are required");
    }
    ask(run, object, Change::Remove { backend, ident })
}

pub(super) fn clear(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    ask(run, object, Change::Clear)
}

pub(super) fn reconfigure(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = super::director(run, object)?;
    let replicas = arguments.int(0);
    let name = object_name(run, object);
    if replicas <= 0 {
        run.complain(&format!(
            "vmod_directors: shard {name}: .reconfigure() invalid replicas argument {replicas}"
        ));
        return Ok(Value::Bool(false));
    }
    let gathered = run.task.shard_changes.as_mut().and_then(|all| all.get_mut(&object));
    let changes = gathered.map(|gathered| std::mem::take(&mut gathered.changes));
    let Some(changes) = changes.filter(|changes| !changes.is_empty()) else {
        return Ok(Value::Bool(true));
    };
    let mut skipped = |host: &str| {
        let what =
            format!("vmod_directors: shard {name}: backend {host} already exists - skipping");
        run.notice(&what);
    };
    let ring = ring::reconfigure(&director, changes, replicas, &mut skipped);
    if ring.hosts.is_empty() {
        run.complain(&format!("vmod_directors: shard {name}: .reconfigure() no backends"));
        return Ok(Value::Bool(false));
    }
    if run.traced && director.shard.told.load(Relaxed) & TELLS_RING != 0 {
        for (at, (point, host)) in ring.points.iter().enumerate() {
            let what = format!("hashcircle[{at:5}] = {{point = {point:8x}, host = {host:2}}}");
            run.host.trace(Event::Aside(&format!("vmod_directors: shard: {what}\n")));
        }
    }
    Ok(Value::Bool(true))
}

pub(super) fn key(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = copied(run, arguments.text(0));
    Ok(Value::Int(hash32(&text).into()))
}

/// Chooses now where the state has a request, else when the backend is needed.
pub(super) fn backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = super::director(run, object)?;
    let is_fetch = run.state.is_backend() || run.state == State::Pipe;
    if arguments.word(8) == "LAZY" && !is_fetch && (0..8).any(|at| arguments.is_given(at)) {
        let why = ".backend(resolve=LAZY) with other parameters can only be used in \
                   backend/pipe context";
        return wrong(run, object, why);
    }
    let given = arguments.is_given(7).then(|| object_of(run, arguments.at(7)));
    if given == Some(None) {
        return wrong(run, object, ".backend(key_blob) param invalid");
    }
    let mut parameters = ShardParameters::read(run, object, arguments, "shard.backend()")?;
    if let Some(given) = given.flatten() {
        let of_task = run.task.shard_params.as_ref().and_then(|map| map.get(&given)).cloned();
        let set = match run.policy.object(given) {
            Some(Object::Shard(set)) => set,
            _ => ShardParameters::default(),
        };
        parameters = parameters.or(&of_task.unwrap_or_default()).or(&set);
    }
    let lazy = match arguments.word(8) {
        "LAZY" => true,
        "NOW" if !run.state.is_client() && !is_fetch => {
            let why = ".backend(resolve=NOW) can not be used in vcl_init{}/vcl_fini{}";
            return wrong(run, object, why);
        }
        "NOW" => false,
        _ => !run.state.is_client() && !run.state.is_backend(),
    };
    if lazy || !(run.state.is_client() || run.state.is_backend()) {
        if parameters != ShardParameters::default() {
            run.task.shard_params.get_or_insert_default().insert(object, parameters);
        }
        return Ok(BackendRef::Director(object).into());
    }
    let known = task_parameters(run);
    let mut parameters = parameters.or(&known.of(object, &director));
    // On the client's side there may be no hash yet.
    if run.state.is_client() && parameters.by.unwrap_or("HASH") == "HASH" {
        parameters.by = Some("URL");
    }
    let url = url_of(run);
    let chosen = choose(&mut Choice::of(run), object, &director, &parameters, &url);
    Ok(chosen.unwrap_or_default().into())
}

pub(super) fn debug(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    super::director(run, object)?.shard.told.store(arguments.int(0), Relaxed);
    NOTHING
}

/// The member for a request.
pub(super) fn choose(
    choice: &mut Choice<'_>,
    object: u32,
    director: &Director,
    parameters: &ShardParameters,
    url: &[u8],
) -> Option<BackendRef> {
    let ring = Arc::clone(&lock(&director.shard.ring));
    if ring.hosts.is_empty() {
        complain(choice, object, "no backends");
        return None;
    }
    let key = match parameters.by.unwrap_or("HASH") {
        "KEY" | "BLOB" => parameters.key.unwrap_or(0),
        "URL" => hash32(url),
        _ => u32::try_from(choice.key >> 96).unwrap_or(0),
    };
    let (asked, most) = (parameters.alt.unwrap_or(0), ring.hosts.len() - 1);
    let alt = usize::try_from(asked).unwrap_or(0).min(most);
    if alt as i64 != asked {
        complain(choice, object, &format!("parameter alt={asked} limited to {most}"));
    }
    let healthy = parameters.healthy.unwrap_or("CHOSEN");
    let mut walk = Walk::new(&ring, key);
    if let Some((_, host)) = ring.points.get(walk.at) {
        let what = || format!("lookup key {key:x} idx {} host {host}", walk.at);
        tell(choice, director, TELLS_KEY, what);
    }
    let mut health = |backend| choice.health(backend);
    let is_found = (alt == 0 || walk.next(alt - 1, healthy == "ALL", &mut health))
        && walk.next(0, healthy != "IGNORE", &mut health);
    let chosen = if is_found { walk.last } else { walk.previous }?.host;
    let warmup = parameters.warmup.filter(|warmup| *warmup >= 0.0);
    let warmup = warmup.unwrap_or_else(|| *lock(&director.shard.warmup));
    let ramps_up = parameters.rampup != Some(false);
    let is_plain = alt > 0 || healthy == "IGNORE" || (!ramps_up && warmup == 0.0);
    if is_found
        && !is_plain
        && walk.next(0, true, &mut health)
        && takes_next(choice, director, &walk, &ring, ramps_up, warmup)
    {
        return ring.backend(walk.last?.host);
    }
    ring.backend(chosen)
}

/// Logs what is wrong where a member is chosen.
fn complain(choice: &mut Choice<'_>, object: u32, what: &str) {
    if choice.host.is_traced() {
        let name = name_in(choice.policy.program(), object);
        let text = &format!("vmod_directors: shard {name}: {what}");
        choice.host.trace(Event::Said { is_error: true, text });
    }
}

/// Logs what `.debug()` asked for.
fn tell(choice: &mut Choice<'_>, director: &Director, bit: i64, what: impl FnOnce() -> String) {
    if director.shard.told.load(Relaxed) & bit != 0 && choice.host.is_traced() {
        choice.host.trace(Event::Aside(&format!("vmod_directors: shard: {}", what())));
    }
}

/// Whether the next in line takes a request in place of the one chosen: to be warm when it is
/// needed, or because the chosen one came back a moment ago.
fn takes_next(
    choice: &mut Choice<'_>,
    director: &Director,
    walk: &Walk<'_>,
    ring: &Ring,
    ramps_up: bool,
    warmup: f64,
) -> bool {
    let (Some(chosen), Some(next)) = (walk.previous, walk.last) else { return false };
    let now = choice.now;
    let times = |met: ring::Met| {
        let own = ring.hosts.get(met.host as usize).and_then(|host| host.rampup);
        (own.unwrap_or_else(|| *lock(&director.shard.rampup)), now - met.changed)
    };
    let ((rampup, age), (next_rampup, next_age)) = (times(chosen), times(next));
    for (word, met) in [("chosen", chosen), ("alt", next)] {
        let (rampup, age) = times(met);
        let what = || format!("{word} host {} rampup {rampup:.6} changed {age:.6}", met.host);
        tell(choice, director, TELLS_TIMES, what);
    }
    let mut draw = || (choice.host.random() >> 11) as f64 / (1_u64 << 53) as f64;
    if age < rampup {
        return ramps_up && next_age >= next_rampup && draw() * rampup >= age;
    }
    warmup > 0.0 && draw() <= warmup
}

pub(super) fn new_parameters(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    run.policy.put(object, Object::Shard(ShardParameters::default()));
    NOTHING
}

/// The parameters in force: the task's over the object's.
fn parameters_of(run: &Run<'_>, object: u32) -> Result<ShardParameters> {
    let Some(Object::Shard(set)) = run.policy.object(object) else {
        return super::not_made(run, object);
    };
    let task = run.task.shard_params.as_ref().and_then(|map| map.get(&object)).cloned();
    Ok(task.unwrap_or_default().or(&set))
}

fn put_parameters(run: &mut Run<'_>, object: u32, parameters: ShardParameters) {
    if run.state.is_client() || run.state.is_backend() {
        run.task.shard_params.get_or_insert_default().insert(object, parameters);
    } else {
        run.policy.put(object, Object::Shard(parameters));
    }
}

pub(super) fn clear_parameters(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    parameters_of(run, object)?;
    put_parameters(run, object, ShardParameters::default());
    NOTHING
}

pub(super) fn set_parameters(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    if run.state.is_client() && run.state != State::Pipe {
        let why = "shard_param.set() may only be used in vcl_init and in backend/pipe context";
        return wrong(run, object, why);
    }
    let set = ShardParameters::read(run, object, arguments, "shard_param.set()")?;
    let before = parameters_of(run, object)?;
    put_parameters(run, object, set.or(&before));
    NOTHING
}

pub(super) fn by_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let by = parameters_of(run, object)?.by.unwrap_or("HASH");
    run.store(by.as_bytes()).map(Value::Text)
}

pub(super) fn key_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let parameters = parameters_of(run, object)?;
    let key = match parameters.by.unwrap_or("HASH") {
        "URL" => hash32(&url_of(run)),
        // There may be no hash yet on the client's side.
        "HASH" if run.state.is_client() => hash32(&url_of(run)),
        "HASH" => u32::try_from(super::object_key(run) >> 96).unwrap_or(0),
        _ => parameters.key.unwrap_or(0),
    };
    Ok(Value::Int(key.into()))
}

pub(super) fn alt_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Int(parameters_of(run, object)?.alt.unwrap_or(0)))
}

pub(super) fn warmup_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Real(parameters_of(run, object)?.warmup.unwrap_or(-1.0)))
}

pub(super) fn rampup_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Bool(parameters_of(run, object)?.rampup.unwrap_or(true)))
}

pub(super) fn healthy_of(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let healthy = parameters_of(run, object)?.healthy.unwrap_or("CHOSEN");
    run.store(healthy.as_bytes()).map(Value::Text)
}

pub(super) fn used(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    parameters_of(run, object)?;
    run.store(&object.to_be_bytes()).map(Value::Blob)
}
