//! `debug`: functions of every kind a module can have, by which Varnish's own tests see that
//! policies can use them: optional and named arguments, words, lists and patterns as values,
//! objects, and what is kept for one task. Imported only where the settings allow it.

use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::modules::var::Variable;
use crate::policy::Object;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};
use crate::types::{State, States};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    name: "debug",
    classes: &["debug.obj", "debug.obj_opt", "debug.concat", "debug.aclobj"],
    functions: FUNCTIONS,
    is_test: true,
};

const INIT: States = States::of(&[State::Init]);

const FUNCTIONS: &[Function] = &[
    function(
        "STRING author(ENUM {phk, des, kristian, mithrandir} person=phk, ENUM {phk, slink, geoff} \
         someone=phk)",
        author,
    ),
    function(
        "STRING argtest(STRING one, REAL two=2, STRING three=\"3\", STRING comma=\",\", INT four=4, \
         [STRING opt])",
        argtest,
    ),
    function("VOID fail()", fail),
    function("BOOL fail2()", fail),
    function("ACL null_acl()", null_acl),
    function("ACL acl(ACL acl)", same),
    function("BOOL match_acl(ACL acl, IP ip)", match_acl),
    function("VOID test_probe(PROBE probe, [PROBE same])", nothing),
    function("REGEX just_return_regex(REGEX)", same),
    function("STRANDS return_strands(STRANDS strand)", same),
    function("STRING concatenate(STRANDS)", same),
    function("STRING collect(STRANDS)", same),
    function("VOID sethdr(HEADER, STRANDS)", sethdr),
    function("BOOL validhdr(STRANDS)", validhdr),
    function("STRING re_quote(STRING)", re_quote),
    function("STRING client_ip()", client_ip),
    function("STRING client_port()", client_port),
    function("VOID store_ip(IP)", store_ip),
    function("IP get_ip()", get_ip),
    function("VOID test_priv_call()", nothing),
    function("VOID test_priv_vcl()", nothing),
    function("STRING test_priv_task(STRING s=\"\")", test_priv_task),
    function("STRING priv_task_with_option([STRING opt])", priv_task_with_option),
    function_in(
        INIT,
        "VOID new obj(STRING string=\"default\", ENUM {one, two, three} number=one)",
        new_obj,
    ),
    function("VOID obj.enum(ENUM {phk, des, kristian, mithrandir, martin})", nothing),
    function("VOID obj.obj()", nothing),
    function("STRING obj.string()", obj_string),
    function("STRING obj.number()", obj_number),
    function("STRING obj.foo(STRING why)", obj_foo),
    function("STRING obj.bar(STRING why)", obj_foo),
    function("TIME obj.date()", obj_date),
    function("VOID obj.test_priv_call()", nothing),
    function("VOID obj.test_priv_vcl()", nothing),
    function("STRING obj.test_priv_task(STRING s=\"\")", obj_test_priv_task),
    function_in(INIT, "VOID new obj_opt([STRING s], [BOOL b])", new_obj_opt),
    function("STRING obj_opt.meth_opt([STRING s], [BOOL b])", meth_opt),
    function_in(INIT, "VOID new concat(STRANDS)", new_concat),
    function("STRING concat.get()", obj_string),
    function_in(INIT, "VOID new aclobj(ACL)", new_aclobj),
    function("ACL aclobj.get()", aclobj_get),
];

/// What an object was made with.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// `obj` and `concat`.
    Text(Box<[u8]>, &'static str),
    /// `obj_opt`: what of its arguments was given.
    Options(Option<Box<[u8]>>, Option<bool>),
    /// `aclobj`
    Acl(u32),
}

/// What no list has as its number.
const NO_ACL: u32 = u32::MAX;

fn nothing(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    NOTHING
}

fn same(_: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    Ok(arguments.at(0))
}

fn author(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let name = match arguments.word(0) {
        "phk" => "Poul-Henning",
        "des" => "Dag-Erling",
        "kristian" => "Kristian",
        _ => "Tollef",
    };
    run.store(name.as_bytes()).map(Value::Text)
}

fn argtest(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let is_given = arguments.is_given(5);
    let opt = if is_given { run.string(arguments.text(5)) } else { "<undef>".into() };
    let text = format!(
        "{} {} {} {} {} {} {opt}",
        run.string(arguments.text(0)),
        arguments.real(1),
        run.string(arguments.text(2)),
        run.string(arguments.text(3)),
        arguments.int(4),
        u8::from(is_given),
    );
    run.store(text.as_bytes()).map(Value::Text)
}

fn fail(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    fault("Forced failure")
}

fn null_acl(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(Value::Acl(NO_ACL))
}

fn match_acl(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    run.is_in(arguments.at(1), arguments.at(0)).map(Value::Bool)
}

fn sethdr(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let Some((message, name)) = super::header::named(run, arguments.at(0)) else { return NOTHING };
    let value = run.bytes(arguments.text(1)).to_vec();
    run.set_named_field(message, &name, value)?;
    NOTHING
}

fn validhdr(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let is_fit = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    Ok(Value::Bool(run.bytes(arguments.text(0)).iter().all(is_fit)))
}

/// A text as a pattern that finds it and nothing else.
fn re_quote(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.string(arguments.text(0)).into_owned();
    let mut parts: Vec<&str> = text.split("\\E").collect();
    let last = parts.pop().unwrap_or("");
    let mut quoted: String = parts.iter().map(|part| format!("\\Q{part}\\\\EE")).collect();
    if !last.is_empty() {
        quoted += &format!("\\Q{last}\\E");
    }
    run.store(quoted.as_bytes()).map(Value::Text)
}

fn client_ip(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let text =
        run.view.session.client.map_or_else(String::new, |at| at.ip().to_canonical().to_string());
    run.store(text.as_bytes()).map(Value::Text)
}

fn client_port(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let text = run.view.session.client.map_or_else(String::new, |at| at.port().to_string());
    run.store(text.as_bytes()).map(Value::Text)
}

/// Names of what is kept for a task, which no policy can write: `var` has names of its own.
const IP: &[u8] = b"\0debug.ip";
const TEXT: &[u8] = b"\0debug.text";
const OPTION: &[u8] = b"\0debug.option";

fn store_ip(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    if let Value::Ip(address, port) = arguments.at(0) {
        run.keep(IP.into(), Variable::Ip(address, port))?;
    }
    NOTHING
}

fn get_ip(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    Ok(match run.kept(IP) {
        Some(Variable::Ip(address, port)) => Value::Ip(address, port),
        _ => Value::Ip(None, 0),
    })
}

/// What is kept under a name, after `text` was added to it.
fn remembered(run: &mut Run<'_>, name: &[u8], text: Text, adds: bool) -> Result<Value> {
    let before = match run.kept(name) {
        Some(Variable::Text(before)) => Some(before),
        _ => None,
    };
    let more = run.bytes(text);
    let now: Vec<u8> = match before {
        Some(before) if more.is_empty() => before.to_vec(),
        Some(before) if adds => [&before[..], b" ", more].concat(),
        _ => more.to_vec(),
    };
    run.keep(name.into(), Variable::Text(now.as_slice().into()))?;
    run.store(&now).map(Value::Text)
}

fn test_priv_task(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    remembered(run, TEXT, arguments.text(0), true)
}

fn obj_test_priv_task(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let name = format!("\0debug.obj{object}");
    remembered(run, name.as_bytes(), arguments.text(0), false)
}

fn priv_task_with_option(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = if run.kept(OPTION).is_some() { Text::Unset } else { arguments.text(0) };
    if text == Text::Unset && run.kept(OPTION).is_none() {
        return Ok(Value::Text(Text::Unset));
    }
    remembered(run, OPTION, text, false)
}

fn make(run: &mut Run<'_>, object: u32, made: Made) -> Result<Value> {
    run.policy.put(object, Object::Debug(Arc::new(made)));
    NOTHING
}

fn made(run: &Run<'_>, object: u32) -> Option<Arc<Made>> {
    match run.policy.object(object) {
        Some(Object::Debug(made)) => Some(made),
        _ => None,
    }
}

fn new_obj(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.bytes(arguments.text(0)).into();
    make(run, object, Made::Text(text, arguments.word(1)))
}

fn obj_string(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    match made(run, object).as_deref() {
        Some(Made::Text(text, _)) => run.store(text).map(Value::Text),
        _ => super::directors::not_made(run, object),
    }
}

fn obj_number(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    match made(run, object).as_deref() {
        Some(Made::Text(_, word)) => run.store(word.as_bytes()).map(Value::Text),
        _ => super::directors::not_made(run, object),
    }
}

fn obj_foo(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    run.store(b"BOO").map(Value::Text)
}

fn obj_date(_: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    // The day Varnish's tests have for it.
    Ok(Value::Time(21.0))
}

fn new_obj_opt(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let text = arguments.is_given(0).then(|| run.bytes(arguments.text(0)).into());
    let truth = arguments.is_given(1).then(|| arguments.truth(1));
    make(run, object, Made::Options(text, truth))
}

fn meth_opt(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Some(Made::Options(text, truth)) = made(run, object).as_deref().cloned() else {
        return super::directors::not_made(run, object);
    };
    let shown = |text: Option<String>| text.unwrap_or_else(|| "*undef*".into());
    let name = run.program.objects.get(object as usize).map_or("", |slot| &slot.name);
    let own_text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
    let text = arguments.is_given(0).then(|| run.string(arguments.text(0)).into_owned());
    let is = |index| arguments.is_given(index).then(|| arguments.truth(index).to_string());
    let line = format!(
        "obj {name} obj_s {} obj_b {} met_s {} met_b {}",
        shown(own_text),
        shown(truth.map(|truth| truth.to_string())),
        shown(text),
        shown(is(1)),
    );
    run.store(line.as_bytes()).map(Value::Text)
}

fn new_concat(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.bytes(arguments.text(0)).into();
    make(run, object, Made::Text(text, ""))
}

fn new_aclobj(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Value::Acl(acl) = arguments.at(0) else { return NOTHING };
    make(run, object, Made::Acl(acl))
}

fn aclobj_get(run: &mut Run<'_>, object: u32, _: &[Value]) -> Result<Value> {
    match made(run, object).as_deref() {
        Some(Made::Acl(acl)) => Ok(Value::Acl(*acl)),
        _ => super::directors::not_made(run, object),
    }
}
