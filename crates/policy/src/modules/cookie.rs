//! `cookie`: the cookies of a request, taken apart.

use super::{Arguments, Function, Module, NOTHING, fault, function};
use crate::calendar::write_http_date;
use crate::program::{Text, Value};
use crate::runtime::{Fault, Result, Run, unwritable};

pub(super) const MODULE: Module =
    Module { name: "cookie", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function("VOID clean()", clean),
    function("VOID delete(STRING cookiename)", delete),
    function("VOID filter(STRING filterstring)", filter),
    function("VOID filter_re(REGEX expression)", filter_re),
    function("VOID keep(STRING filterstring)", keep),
    function("VOID keep_re(REGEX expression)", keep_re),
    function("STRING format_date(TIME now, DURATION timedelta)", format_date),
    // Its name until Varnish 6.4.
    function("STRING format_rfc1123(TIME now, DURATION timedelta)", format_date),
    function("STRING get(STRING cookiename)", get),
    function("STRING get_re(REGEX expression)", get_re),
    function("STRING get_string()", get_string),
    function("BOOL isset(STRING cookiename)", isset),
    function("VOID parse(STRING cookieheader)", parse),
    function("VOID set(STRING cookiename, STRING value)", set),
];

/// Cookies of one task.
const COOKIES_MAX: usize = 512;

/// A name and a value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// Names and values, in order.
#[derive(Debug, Default)]
pub(crate) struct Cookies(Vec<Pair>);

fn cookies<'a>(run: &'a mut Run<'_>) -> &'a mut Vec<Pair> {
    &mut run.task.cookies.get_or_insert_default().0
}

fn clean(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    cookies(run).clear();
    NOTHING
}

fn parse(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let text = run.bytes(arguments.text(0)).to_vec();
    if text.is_empty() {
        // What was known stays.
        run.debug(b"cookie: nothing to parse");
        return NOTHING;
    }
    cookies(run).clear();
    run.spend(text.len())?;
    // As Varnish reads them: a name goes on to the next `=`, whatever stands before it.
    let mut rest = &text[..];
    while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
        let (name, behind) = (rest[..at].trim_ascii_start(), &rest[at + 1..]);
        let end = behind.iter().position(|byte| *byte == b';').unwrap_or(behind.len());
        let value = &behind[..end];
        if !name.is_empty() && !value.is_empty() {
            put(run, name, value)?;
        }
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    NOTHING
}

fn put(run: &mut Run<'_>, name: &[u8], value: &[u8]) -> Result<()> {
    let list = cookies(run);
    let full = list.len() >= COOKIES_MAX;
    match list.iter_mut().find(|(known, _)| **known == *name) {
        Some((_, known)) => *known = value.into(),
        None if full => return fault("too many cookies"),
        None => list.push((name.into(), value.into())),
    }
    Ok(())
}

fn set(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let name = run.bytes(arguments.text(0)).to_vec();
    let value = run.bytes(arguments.text(1)).to_vec();
    if name.is_empty() || value.is_empty() {
        return NOTHING;
    }
    run.spend(name.len() + value.len())?;
    put(run, &name, &value)?;
    NOTHING
}

fn found(run: &mut Run<'_>, matches: impl Fn(&[u8]) -> bool) -> Result<Value> {
    let value = cookies(run).iter().find(|(name, _)| matches(name)).map(|(_, value)| value.clone());
    match value {
        Some(value) => run.store(&value).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn get(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let wanted = run.bytes(arguments.text(0)).to_vec();
    found(run, |name| *name == *wanted)
}

fn isset(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let wanted = run.bytes(arguments.text(0)).to_vec();
    Ok(Value::Bool(cookies(run).iter().any(|(name, _)| **name == *wanted)))
}

/// Which cookies' names a pattern matches.
fn matched(run: &mut Run<'_>, pattern: Value) -> Result<Vec<bool>> {
    let Value::Regex(regex) = pattern else { return Ok(Vec::new()) };
    let program = run.program;
    let Some(regex) = program.regexes.get(regex as usize) else { return Ok(Vec::new()) };
    let names: Vec<_> = cookies(run).iter().map(|(name, _)| name.clone()).collect();
    names
        .iter()
        .map(|name| run.counted(name.len(), |effort| regex.is_match(name, effort)))
        .collect()
}

fn get_re(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let marks = matched(run, arguments.at(0))?;
    let at = marks.iter().position(|mark| *mark);
    let value = at.and_then(|at| cookies(run).get(at).map(|(_, value)| value.clone()));
    match value {
        Some(value) => run.store(&value).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

fn retain(run: &mut Run<'_>, marks: &[bool], wanted: bool) {
    let mut at = 0;
    cookies(run).retain(|_| {
        at += 1;
        marks.get(at - 1) == Some(&wanted)
    });
}

fn filter_re(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let marks = matched(run, arguments.at(0))?;
    retain(run, &marks, false);
    NOTHING
}

fn keep_re(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let marks = matched(run, arguments.at(0))?;
    retain(run, &marks, true);
    NOTHING
}

/// Which cookies a list of names, with commas between, names.
fn listed(run: &mut Run<'_>, list: Text) -> Vec<bool> {
    let list = run.bytes(list).to_vec();
    let names: Vec<_> = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    cookies(run).iter().map(|(name, _)| names.contains(&&**name)).collect()
}

fn filter(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let marks = listed(run, arguments.text(0));
    retain(run, &marks, false);
    NOTHING
}

fn keep(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let marks = listed(run, arguments.text(0));
    retain(run, &marks, true);
    NOTHING
}

fn delete(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let wanted = run.bytes(arguments.text(0)).to_vec();
    cookies(run).retain(|(name, _)| **name != *wanted);
    NOTHING
}

fn get_string(run: &mut Run<'_>, _: u32, _: &[Value]) -> Result<Value> {
    let pairs: Vec<Vec<u8>> =
        cookies(run).iter().map(|(name, value)| [&**name, b"=", &**value, b";"].concat()).collect();
    run.store(&pairs.join(&b' ')).map(Value::Text)
}

fn format_date(run: &mut Run<'_>, _: u32, arguments: &[Value]) -> Result<Value> {
    let at = arguments.real(0) + arguments.real(1);
    match unwritable(Value::Time(at)) {
        Some(why) => Err(Fault::new(why)),
        None => run.write(|out| write_http_date(at, out)).map(Value::Text),
    }
}
