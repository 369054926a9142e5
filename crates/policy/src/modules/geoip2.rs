//! `geoip2`: where addresses are, from MaxMind databases; as the module of this name for Varnish.

use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::policy::Object;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};
use crate::types::{State, States};

pub(super) const MODULE: Module =
    Module { name: "geoip2", classes: &["geoip2.geoip2"], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function_in(States::of(&[State::Init]), "VOID new geoip2(STRING filename)", new),
    function("STRING geoip2.lookup(STRING path, IP addr)", lookup),
];

fn new(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let path = String::from_utf8_lossy(run.bytes(arguments.text(0))).into_owned();
    match run.host.places(&path) {
        Ok(places) => run.policy.put(object, Object::Places(places)),
        Err(why) => return fault(why),
    }
    NOTHING
}

fn lookup(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let (Some(Object::Places(places)), Value::Ip(Some(address), _)) =
        (run.policy.object(object), arguments.at(1))
    else {
        return Ok(Value::Text(Text::Unset));
    };
    let path = String::from_utf8_lossy(run.bytes(arguments.text(0)));
    match places.look_up(address, &path) {
        Some(found) => run.store(found.as_bytes()).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}
