//! `accept`: of what a client accepts, the one thing that is there (RFC 9110 §12.5).

use super::{Arguments, Function, Module, NOTHING, fault, function, function_in};
use crate::policy::Object;
use crate::program::{Text, Value};
use crate::runtime::{Result, Run};
use crate::types::{State, States};
use std::sync::Arc;

pub(super) const MODULE: Module =
    Module { name: "accept", classes: &["accept.rule"], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function_in(States::of(&[State::Init]), "VOID new rule(STRING string)", new),
    function("VOID rule.add(STRING string)", add),
    function("VOID rule.remove(STRING string)", remove),
    function("STRING rule.filter(STRING string)", filter),
];

/// Choices of one rule; they are compared one by one.
const CHOICES_MAX: usize = 1000;

/// What there is, and what is answered where none of it is accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    fallback: Option<Box<[u8]>>,
    choices: Vec<Box<[u8]>>,
}

fn new(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let fallback = match arguments.text(0) {
        Text::Unset => None,
        text => Some(run.bytes(text).into()),
    };
    let rule = Rule { fallback, choices: Vec::new() };
    run.policy.put(object, Object::Accept(Arc::new(rule)));
    NOTHING
}

/// Changes the choices by one text that is not empty.
fn change(
    run: &mut Run<'_>,
    object: u32,
    arguments: &[Value],
    change: fn(&mut Vec<Box<[u8]>>, &[u8]),
) -> Result<Value> {
    let Some(Object::Accept(rule)) = run.policy.object(object) else {
        return super::directors::not_made(run, object);
    };
    let text = run.bytes(arguments.text(0));
    if text.is_empty() {
        return NOTHING;
    }
    let mut rule = Rule::clone(&rule);
    change(&mut rule.choices, text);
    if rule.choices.len() > CHOICES_MAX {
        return fault("accept: a rule has 1,000 choices at most");
    }
    run.policy.put(object, Object::Accept(Arc::new(rule)));
    NOTHING
}

fn add(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    change(run, object, arguments, |choices, text| {
        if !choices.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            choices.push(text.into());
        }
    })
}

fn remove(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    change(run, object, arguments, |choices, text| {
        choices.retain(|known| !known.eq_ignore_ascii_case(text));
    })
}

fn filter(run: &mut Run<'_>, object: u32, arguments: &[Value]) -> Result<Value> {
    let Some(Object::Accept(rule)) = run.policy.object(object) else {
        return super::directors::not_made(run, object);
    };
    let text = arguments.text(0);
    let chosen = match text {
        Text::Unset => None,
        text => best(run.bytes(text), &rule.choices),
    };
    match chosen.or(rule.fallback.as_deref()) {
        Some(chosen) => run.store(chosen).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}

/// The choice with the highest weight, the first of equals; none where the list is no list.
fn best<'a>(list: &[u8], choices: &'a [Box<[u8]>]) -> Option<&'a [u8]> {
    let mut found = None;
    let mut highest = 0.0;
    for member in list.split(|byte| *byte == b',') {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().filter(|name| !name.is_empty());
        let Some(name) = name else {
            // An empty end is no mistake.
            let is_end = member.as_ptr_range().end == list.as_ptr_range().end;
            return if is_end { found } else { None };
        };
        let mut weight = 1.0;
        let mut is_first = true;
        for parameter in parts {
            let at = parameter.iter().position(|byte| *byte == b'=')?;
            let (name, value) = (&parameter[..at], &parameter[at + 1..]);
            let is_apart = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
            if is_apart(name.last()) || is_apart(value.first()) {
                return None;
            }
            // A weight comes first; what follows it are extensions.
            if is_first && name == b"q" {
                weight = std::str::from_utf8(value).ok()?.parse().ok()?;
                if !matches!(value[0], b'0' | b'1') || !(0.0..=1.0).contains(&weight) {
                    return None;
                }
            }
            is_first = false;
        }
        let known = choices.iter().find(|known| known.eq_ignore_ascii_case(name));
        if let Some(known) = known.filter(|_| weight > highest) {
            highest = weight;
            found = Some(&**known);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_of_what_there_is_wins() {
        let choices: Vec<Box<[u8]>> =
            [&b"text/html"[..], b"application/json"].map(Into::into).into();
        let chosen = |list: &str| {
            best(list.as_bytes(), &choices).map(|one| String::from_utf8_lossy(one).into_owned())
        };
        assert_eq!(chosen("text/plain, TEXT/HTML").as_deref(), Some("text/html"));
        let list = "text/html;q=0.5, application/json;q=0.8,";
        assert_eq!(chosen(list).as_deref(), Some("application/json"));
        assert_eq!(chosen("text/html;q=0"), None);
        assert_eq!(chosen("image/*"), None);
        for broken in [
            "text/html;q=2",
            "text/html;q=x",
            ",text/html",
            "text/html;q",
            "text/html;=1",
            "text/html;q =1",
            "text/html;q= 1",
        ] {
            assert_eq!(chosen(broken), None, "{broken}");
        }
    }
}
