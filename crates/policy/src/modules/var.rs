//! `var`: variables of a task, and texts that outlive it.

use super::{Arguments, Function, Module, NOTHING, fault, function};
use crate::policy::{GLOBALS_MAX, Kept, lock};
use crate::program::{BackendRef, Text, Value};
use crate::runtime::{Result, Run};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) const MODULE: Module =
    Module { name: "var", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("VOID set(STRING key, STRING value)", set_string),
    function("STRING get(STRING key)", get_string),
    function("VOID set_string(STRING key, STRING value)", set_string),
    function("STRING get_string(STRING key)", get_string),
    function("VOID set_int(STRING key, INT value)", set),
    function("INT get_int(STRING key)", get_int),
    function("VOID set_real(STRING key, REAL value)", set),
    function("REAL get_real(STRING key)", get_real),
    function("VOID set_duration(STRING key, DURATION value)", set),
    function("DURATION get_duration(STRING key)", get_duration),
    function("VOID set_ip(STRING key, IP value)", set),
    function("IP get_ip(STRING key)", get_ip),
    function("VOID set_backend(STRING key, BACKEND value)", set),
    function("BACKEND get_backend(STRING key)", get_backend),
    function("VOID global_set(STRING key, STRING value)", global_set),
    function("STRING global_get(STRING key)", global_get),
    function("VOID clear()", clear),
];

/// Bytes of one global text.
const GLOBAL_BYTES_MAX: usize = 64 << 10;

/// Variables of one task.
pub(crate) type Variables = HashMap<Box<[u8]>, Variable>;

/// What a variable holds.
#[derive(Clone, Debug)]
pub(crate) enum Variable {
    Text(Arc<[u8]>),
    Int(i64),
    Real(f64),
    Duration(f64),
    Ip(Option<IpAddr>, u16),
    Backend(BackendRef),
}

impl Run<'_> {
    /// Keeps a value for the rest of the task.
    pub(super) fn keep(&mut self, key: Box<[u8]>, value: Variable) -> Result<()> {
        let bytes = match &value {
            Variable::Text(text) => text.len(),
            _ => size_of::<Variable>(),
        };
        self.spend(key.len() + bytes)?;
        self.task.variables.get_or_insert_default().insert(key, value);
        Ok(())
    }

    /// What was kept.
    pub(super) fn kept(&self, key: &[u8]) -> Option<Variable> {
        self.task.variables.as_ref()?.get(key).cloned()
    }
}

fn put(run: &mut Run<'_>, key: Text, value: Variable) -> Result<Value> {
    let key = run.bytes(key).into();
    run.keep(key, value)?;
    NOTHING
}

fn look(run: &Run<'_>, arguments: &[Value]) -> Option<Variable> {
    run.kept(run.bytes(arguments.text(0)))
}

fn set_string(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.bytes(arguments.text(1)).into();
    put(run, arguments.text(0), Variable::Text(text))
}

fn set(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let variable = match arguments.at(1) {
        Value::Int(number) => Variable::Int(number),
        Value::Real(number) => Variable::Real(number),
        Value::Duration(seconds) => Variable::Duration(seconds),
        Value::Ip(address, port) => Variable::Ip(address, port),
        Value::Backend(backend) => Variable::Backend(backend),
        _ => return NOTHING,
    };
    put(run, arguments.text(0), variable)
}

fn get_string(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    match look(run, arguments) {
        Some(Variable::Text(text)) => run.store(&text).map(Value::Text),
        _ => Ok(Value::Text(Text::Unset)),
    }
}

fn get_int(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Int(match look(run, arguments) {
        Some(Variable::Int(number)) => number,
        _ => 0,
    }))
}

fn get_real(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Real(match look(run, arguments) {
        Some(Variable::Real(number)) => number,
        _ => 0.0,
    }))
}

fn get_duration(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Duration(match look(run, arguments) {
        Some(Variable::Duration(seconds)) => seconds,
        _ => 0.0,
    }))
}

fn get_ip(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(match look(run, arguments) {
        Some(Variable::Ip(address, port)) => Value::Ip(address, port),
        _ => Value::Ip(None, 0),
    })
}

fn get_backend(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(Value::Backend(match look(run, arguments) {
        Some(Variable::Backend(backend)) => backend,
        _ => BackendRef::None,
    }))
}

fn global_set(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let key: Box<[u8]> = run.bytes(arguments.text(0)).into();
    let value = arguments.text(1);
    let text: Arc<[u8]> = run.bytes(value).into();
    let mut globals = lock(&run.policy.globals);
    if value == Text::Unset {
        globals.remove(&key);
        return NOTHING;
    }
    if text.len() + key.len() > GLOBAL_BYTES_MAX {
        return fault("var.global_set(): the text is larger than 64 KiB");
    }
    if globals.len() >= GLOBALS_MAX && !globals.contains_key(&key) {
        return fault("var.global_set(): there are 10,000 names already");
    }
    globals.insert(key, Kept::Text(text));
    NOTHING
}

fn global_get(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let key = run.bytes(arguments.text(0));
    let kept = lock(&run.policy.globals).get(key).cloned();
    match kept {
        Some(Kept::Text(text)) => run.store(&text).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn clear(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    run.task.variables = None;
    NOTHING
}
