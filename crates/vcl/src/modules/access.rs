//! `access`: whom a request was let in as, by a password or a token. What was not let in has no policy.

use super::{Arguments, Function, Module, function_in};
use crate::program::{Text, Value};
use crate::runtime::{AccessFacts, Result, Run};
use crate::types::States;

pub(super) const MODULE: Module =
    Module { name: "access", classes: &[], functions: FUNCTIONS, is_test: false };

const ANY: States = States::CLIENT.and(States::BACKEND);

const FUNCTIONS: &[Function] = &[
    function_in(ANY, "STRING user()", |run, _, _| {
        let user = known(run, |facts| Some(&facts.user));
        text(run, user)
    }),
    function_in(ANY, "BOOL has_token()", |run, _, _| {
        let facts = run.view.session.access.as_ref();
        Ok(Value::Bool(facts.is_some_and(|facts| facts.has_token)))
    }),
    function_in(ANY, "STRING token_id()", |run, _, _| {
        let id = known(run, |facts| Some(&facts.token_id));
        text(run, id)
    }),
    function_in(ANY, "STRING claim(STRING name)", |run, _, arguments| {
        let name = run.string(arguments.text(0)).into_owned();
        let claim = known(run, |facts| facts.claim(&name));
        text(run, claim)
    }),
];

/// A fact, where there is one.
fn known<'a>(
    run: &Run<'a>,
    part: impl FnOnce(&'a AccessFacts) -> Option<&'a str>,
) -> Option<&'a str> {
    part(run.view.session.access.as_deref()?)
}

fn text(run: &mut Run<'_>, text: Option<&str>) -> Result<Value> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => run.store(text.as_bytes()).map(Value::Text),
        None => Ok(Value::Text(Text::Unset)),
    }
}
