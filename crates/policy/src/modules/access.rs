//! `access`: whom a request was let in as, by a password, a service or a token. What was not let in has no policy.
//! `mec`: the same of requests that a platform for apps at the edge has let in, by the fields it says that in.

use super::{Arguments, Function, Module, function_in};
use crate::program::{BackendRef, Text, Value};
use crate::runtime::{AccessFacts, Result, Run};
use crate::types::States;

pub(super) const MODULE: Module =
    Module { name: "access", classes: &[], functions: FUNCTIONS, is_test: false };

pub(super) const MEC: Module =
    Module { name: "mec", classes: &[], functions: OF_PLATFORM, is_test: false };

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
    function_in(ANY, "STRING said(STRING field)", |run, _, arguments| {
        let field = run.string(arguments.text(0)).into_owned();
        said(run, &field)
    }),
    function_in(ANY, "BACKEND backend()", |run, _, _| {
        let has_place = run.view.session.access.as_ref().is_some_and(|facts| facts.has_place);
        Ok(if has_place { BackendRef::Told } else { BackendRef::None }.into())
    }),
];

const OF_PLATFORM: &[Function] = &[
    function_in(ANY, "STRING client()", |run, _, _| said(run, "Mec-Client")),
    function_in(ANY, "STRING app()", |run, _, _| said(run, "Mec-App")),
    function_in(ANY, "STRING group()", |run, _, _| said(run, "Mec-Group")),
    function_in(ANY, "STRING service()", |run, _, _| said(run, "Mec-Service")),
    function_in(ANY, "STRING scope()", |run, _, _| said(run, "Mec-Scope")),
];

/// What a service says in a field; unset where none has, whatever the client says there.
fn said(run: &mut Run<'_>, field: &str) -> Result<Value> {
    let said = known(run, |facts| facts.said(field));
    text(run, said)
}

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
