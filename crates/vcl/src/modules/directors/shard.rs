//! The shard director: consistent hashing over a ring, with warm-up of the next in line and a slow
//! start for members that came back.

use super::{Choice, Director, Member, Rule, copied, hash32};
use crate::modules::{Arguments, NOTHING, fault};
use crate::policy::{Object, lock};
use crate::program::{BackendRef, Value};
use crate::runtime::{Result, Run};
use crate::types::State;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Points on the ring for each member, at most.
const REPLICAS_MAX: i64 = 10_000;
/// The bit of `.debug()` for the points of a ring, when it is made.
const TELLS_RING: i64 = 2;
/// Points on one ring.
const POINTS_MAX: usize = 1_000_000;

/// What a shard director keeps besides its members.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    ring: Mutex<Arc<Ring>>,
    warmup: Mutex<f64>,
    rampup: Mutex<f64>,
    associated: Mutex<Option<u32>>,
    /// Whether members came or went since the ring was made.
    is_changed: AtomicBool,
    /// What `.debug()` asked to be told, as bits.
    told: AtomicI64,
}

/// Points in order, each with the member it belongs to.
#[derive(Debug, Default)]
struct Ring {
    points: Vec<(u32, u32)>,
    members: Arc<Vec<Member>>,
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
    run.program.objects.get(object as usize).map_or("", |object| &object.name)
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
    let director = super::director(run, object)?;
    let Value::Backend(backend) = arguments.at(0) else { return Ok(Value::Bool(false)) };
    if run.program.is_nobody(backend) {
        return wrong(run, object, "None backend cannot be added");
    }
    let ident = if arguments.is_given(1) {
        run.string(arguments.text(1)).into_owned()
    } else {
        run.program.backend_name(backend).to_owned()
    };
    let mut weight = if arguments.is_given(3) { arguments.real(3) } else { 1.0 };
    if weight < 1.0 {
        let name = object_name(run, object);
        let what =
            format!("vmod_directors: shard {name}: .add_backend(weight={weight:.6}) ignored");
        run.notice(&what);
        weight = 1.0;
    }
    let known = director.members();
    let exists = known.iter().any(|one| one.backend == backend && *one.ident == *ident);
    if exists {
        let (name, backend) = (object_name(run, object), run.program.backend_name(backend));
        let which = match arguments.is_given(1) {
            true => format!("{backend}/{ident}"),
            false => backend.to_owned(),
        };
        let what =
            format!("vmod_directors: shard {name}: backend {which} already exists - skipping");
        run.notice(&what);
        return Ok(Value::Bool(true));
    }
    if known.len() >= super::MEMBERS_MAX {
        return Ok(Value::Bool(false));
    }
    director.shard.is_changed.store(true, Relaxed);
    let rampup = arguments.is_given(2).then(|| arguments.real(2));
    let member = Member { backend, weight: weight.min(10.0), ident: ident.into(), rampup };
    director.change(|members| members.push(member));
    Ok(Value::Bool(true))
}

pub(super) fn remove_backend(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = super::director(run, object)?;
    let backend = match arguments.at(0) {
        Value::Backend(backend) => Some(backend),
        _ => None,
    };
    let ident = arguments.is_given(1).then(|| run.string(arguments.text(1)).into_owned());
    if backend.is_none() && ident.is_none() {
        return wrong(run, object, ".remove_backend(): either backend or ident are required");
    }
    director.shard.is_changed.store(true, Relaxed);
    director.change(|members| {
        members.retain(|member| {
            backend.is_some_and(|backend| member.backend != backend)
                || ident.as_deref().is_some_and(|ident| *member.ident != *ident)
        });
    });
    Ok(Value::Bool(true))
}

pub(super) fn clear(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    let director = super::director(run, object)?;
    director.shard.is_changed.store(true, Relaxed);
    director.change(Vec::clear);
    Ok(Value::Bool(true))
}

pub(super) fn reconfigure(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let director = super::director(run, object)?;
    let replicas = arguments.int(0);
    if replicas <= 0 {
        let name = object_name(run, object);
        run.complain(&format!(
            "vmod_directors: shard {name}: .reconfigure() invalid replicas argument {replicas}"
        ));
        return Ok(Value::Bool(false));
    }
    if !director.shard.is_changed.swap(false, Relaxed) {
        return Ok(Value::Bool(true));
    }
    if director.members().is_empty() {
        let name = object_name(run, object);
        run.complain(&format!("vmod_directors: shard {name}: .reconfigure() no backends"));
        return Ok(Value::Bool(false));
    }
    let replicas = replicas.min(REPLICAS_MAX);
    let members = director.members();
    let mut points = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let count = (replicas as f64 * member.weight) as usize;
        if points.len() + count > POINTS_MAX {
            return fault("shard: the ring is too large");
        }
        let at = u32::try_from(index).unwrap_or(u32::MAX);
        points.extend(
            (0..count).map(|replica| (hash32(format!("{}{replica}", member.ident).as_bytes()), at)),
        );
    }
    points.sort_unstable();
    if director.shard.told.load(Relaxed) & TELLS_RING != 0 {
        for (at, (point, host)) in points.iter().enumerate() {
            let what = format!(
                "vmod_directors: shard: hashcircle[{at:5}] = {{point = {point:8x}, host = {host:2}}}"
            );
            run.debug(what.as_bytes());
        }
    }
    *lock(&director.shard.ring) = Arc::new(Ring { points, members });
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
    let (url, members) = (url_of(run), director.members());
    let key = super::object_key(run);
    let mut choice = Choice { policy: run.policy, host: run.host, now: run.view.now, key };
    let chosen = choose(&mut choice, &director, &members, &parameters, &url);
    Ok(chosen.unwrap_or_default().into())
}

pub(super) fn debug(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    super::director(run, object)?.shard.told.store(arguments.int(0), Relaxed);
    NOTHING
}

/// The member for a request.
pub(super) fn choose(
    choice: &mut Choice<'_>,
    director: &Director,
    _: &[Member],
    parameters: &ShardParameters,
    url: &[u8],
) -> Option<BackendRef> {
    let ring = Arc::clone(&lock(&director.shard.ring));
    let key = match parameters.by.unwrap_or("HASH") {
        "KEY" | "BLOB" => parameters.key.unwrap_or(0),
        "URL" => hash32(url),
        _ => u32::try_from(choice.key >> 96).unwrap_or(0),
    };
    let healthy = parameters.healthy.unwrap_or("CHOSEN");
    let alt = usize::try_from(parameters.alt.unwrap_or(0)).unwrap_or(0);
    let order = ring.order(key);
    let is_up = |choice: &Choice<'_>, at: u32| {
        ring.members.get(at as usize).is_some_and(|member| choice.is_healthy(member.backend))
    };
    let backend_of = |at: u32| ring.members.get(at as usize).map(|member| member.backend);
    if healthy == "IGNORE" {
        return order.get(alt).or_else(|| order.last()).copied().and_then(backend_of);
    }
    // ALL counts healthy members only; CHOSEN counts all, and looks for a healthy one from there.
    let up: Vec<u32> = order.iter().copied().filter(|at| is_up(choice, *at)).collect();
    let chosen = if healthy == "ALL" {
        up.get(alt).or_else(|| up.last()).copied()
    } else {
        let from = alt.min(order.len().saturating_sub(1));
        order.get(from..)?.iter().copied().find(|at| up.contains(at)).or_else(|| up.last().copied())
    }?;
    if alt > 0 {
        return backend_of(chosen);
    }
    let next = up.iter().copied().find(|at| *at != chosen);
    if let Some(next) = next
        && takes_next(choice, director, &ring, chosen, parameters)
    {
        return backend_of(next);
    }
    backend_of(chosen)
}

/// Whether the next in line takes a request in place of the one chosen: to be warm when it is
/// needed, or because the chosen one came back a moment ago.
fn takes_next(
    choice: &mut Choice<'_>,
    director: &Director,
    ring: &Ring,
    chosen: u32,
    parameters: &ShardParameters,
) -> bool {
    let mut draw = || (choice.host.random() >> 11) as f64 / (1_u64 << 53) as f64;
    let warmup = parameters.warmup.filter(|warmup| *warmup >= 0.0);
    let warmup = warmup.unwrap_or_else(|| *lock(&director.shard.warmup));
    if warmup > 0.0 && draw() < warmup {
        return true;
    }
    let Some(member) = ring.members.get(chosen as usize) else { return false };
    let rampup = member.rampup.unwrap_or_else(|| *lock(&director.shard.rampup));
    if rampup <= 0.0 || parameters.rampup == Some(false) {
        return false;
    }
    let share = draw();
    let (_, changed) =
        super::health(choice.policy, member.backend, &*choice.host, choice.now, choice.key);
    let age = choice.now - changed;
    age < rampup && share > age / rampup
}

impl Ring {
    /// The members in the order in which a key meets them.
    fn order(&self, key: u32) -> Vec<u32> {
        let len = self.points.len();
        // A key behind the last point belongs to the last point, as Varnish has it.
        let start = self.points.partition_point(|(point, _)| *point < key).min(len.max(1) - 1);
        let mut order: Vec<u32> = Vec::with_capacity(self.members.len());
        for step in 0..len {
            let Some((_, member)) = self.points.get((start + step) % len) else { break };
            if !order.contains(member) {
                order.push(*member);
            }
            if order.len() == self.members.len() {
                break;
            }
        }
        order
    }
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
