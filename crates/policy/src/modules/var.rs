//! `var`: variables of a task, and texts that outlive it.

use super::{Arguments, Function, Module, NOTHING, fault, function};
use crate::policy::lock;
use crate::program::{BackendRef, Text, Value};
use crate::runtime::{Result, Run};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) const MODULE: Module =
    Module { name: "var", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("VOID set(STRING key, STRING value)", set_string),
    function("STRING get(STRING)", get_string),
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
    function("VOID global_set(STRING, STRING)", global_set),
    function("STRING global_get(STRING)", global_get),
    function("VOID clear()", clear),
];

/// Bytes of one global text with its name.
const GLOBAL_BYTES_MAX: usize = 64 << 10;
/// Bytes of all of them, and how many there are: names may be what clients write.
const GLOBALS_BYTES_MAX: usize = 16 << 20;
const GLOBALS_MAX: usize = 10_000;

/// Texts that outlive requests, and the policy that sets them.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    texts: HashMap<Box<[u8]>, Arc<[u8]>>,
    /// Of all names and texts.
    bytes: usize,
}

impl Globals {
    fn set(&mut self, name: Box<[u8]>, text: Arc<[u8]>) -> std::result::Result<(), &'static str> {
        let bytes = name.len() + text.len();
        let old = self.texts.get(&name).map(|old| name.len() + old.len());
        let others = self.bytes - old.unwrap_or(0);
        if bytes > GLOBAL_BYTES_MAX {
            return Err("var.global_set(): the text is larger than 64 KiB");
        }
        if old.is_none() && self.texts.len() >= GLOBALS_MAX {
            return Err("var.global_set(): there are 10,000 names already");
        }
        if others + bytes > GLOBALS_BYTES_MAX {
            return Err("var.global_set(): all texts are larger than 16 MiB");
        }
        self.bytes = others + bytes;
        self.texts.insert(name, text);
        Ok(())
    }

    fn unset(&mut self, name: &[u8]) {
        if let Some(text) = self.texts.remove(name) {
            self.bytes -= name.len() + text.len();
        }
    }
}

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
    let mut globals = lock(&run.policy.lasting.globals);
    if value == Text::Unset {
        globals.unset(&key);
        return NOTHING;
    }
    match globals.set(key, text) {
        Ok(()) => NOTHING,
        Err(why) => fault(why),
    }
}

fn global_get(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let key = run.bytes(arguments.text(0));
    let text = lock(&run.policy.lasting.globals).texts.get(key).cloned();
    match text {
        Some(text) => run.store(&text).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn clear(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    run.task.variables = None;
    NOTHING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_texts_are_bounded_in_all_and_what_is_unset_makes_room() {
        let mut globals = Globals::default();
        let name = |number: usize| number.to_be_bytes().into();
        let text: Arc<[u8]> = vec![b'x'; GLOBAL_BYTES_MAX - size_of::<usize>()].into();
        let room = GLOBALS_BYTES_MAX / GLOBAL_BYTES_MAX;
        assert!((0..room).all(|number| globals.set(name(number), Arc::clone(&text)).is_ok()));
        assert!(globals.set(name(room), Arc::from(*b"")).is_err(), "there is no room");
        assert!(globals.set(name(0), Arc::clone(&text)).is_ok(), "it takes the place of the old");
        globals.unset(&0_usize.to_be_bytes());
        globals.unset(&0_usize.to_be_bytes());
        assert!(globals.set(name(room), Arc::clone(&text)).is_ok());
        let too_large = vec![b'x'; GLOBAL_BYTES_MAX].into();
        assert!(globals.set(name(1), too_large).is_err());
    }
}
