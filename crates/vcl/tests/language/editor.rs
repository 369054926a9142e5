//! What editors are told: everything there is, where it can be used, with what it means.

use freshet_vcl::editor::{completed, meaning};
use freshet_vcl::modules::{BUILTIN, Function, MODULES, Module};
use freshet_vcl::variables::VARIABLES;
use freshet_vcl::{BACKEND_FIELDS, Message, PROBE_FIELDS, Signature, State};
use std::collections::HashSet;

fn modules() -> impl Iterator<Item = &'static Module> {
    MODULES.iter().filter(|module| !module.is_test)
}

/// The class a function makes objects of.
fn constructs(function: &'static Function) -> Option<&'static str> {
    Signature::name_of(function.signature).strip_prefix("new ")
}

fn labels(text: &str) -> Vec<String> {
    completed(text, text.len()).into_iter().map(|item| item.label).collect()
}

/// What can be written behind these words in a state, in a policy that has all there is.
fn in_state(state: State, words: &str) -> Vec<String> {
    let mut text = String::new();
    for module in modules() {
        text += &format!("import {};\n", module.name);
    }
    text += "acl a { } backend b none; probe p { } sub own { }\nsub vcl_init {\n";
    for (module, function) in functions_of_modules() {
        if let Some(class) = constructs(function) {
            text += &format!("new {module}_{class} = {module}.{class}();\n");
        }
    }
    text += &format!("}}\nsub {} {{ {words}", state.subroutine());
    labels(&text)
}

fn functions_of_modules() -> impl Iterator<Item = (&'static str, &'static Function)> {
    modules().flat_map(|module| module.functions.iter().map(|one| (module.name, one)))
}

/// A name as it is called in [`in_state`].
fn called(module: &str, function: &'static Function) -> String {
    let name = Signature::name_of(function.signature);
    match (constructs(function), name.contains('.')) {
        (Some(class), _) => format!("{module}.{class}"),
        (None, true) => format!("{module}_{name}"),
        (None, false) => format!("{module}.{name}"),
    }
}

#[test]
fn every_variable_is_completed_where_it_can_be_used() {
    for state in State::ALL {
        let (read, set) = (in_state(state, "if ("), in_state(state, "set "));
        let unset = in_state(state, "unset ");
        for one in VARIABLES {
            let is_in = |list: &[String]| list.iter().any(|name| name == one.name);
            let name = (one.name, state);
            assert_eq!(is_in(&read), one.read.has(state), "{name:?} read");
            let written = one.write.and(one.write_40);
            assert_eq!(is_in(&set), written.has(state), "{name:?} set");
            assert_eq!(is_in(&unset), one.unset.has(state), "{name:?} unset");
        }
        for message in Message::ALL {
            let field = format!("{}.http.Host", message.name());
            assert_eq!(read.contains(&field), message.read().has(state), "{field} {state:?}");
            assert_eq!(set.contains(&field), message.write().has(state), "{field} {state:?}");
        }
    }
}

#[test]
fn every_function_is_completed_where_it_can_be_called() {
    for state in State::ALL {
        let (calls, values) = (in_state(state, ""), in_state(state, "if ("));
        let made = in_state(state, "new x = ");
        for function in BUILTIN.functions {
            let name = Signature::name_of(function.signature).to_owned();
            assert_eq!(calls.contains(&name), function.states.has(state), "{name} {state:?}");
        }
        for (module, function) in functions_of_modules() {
            let name = called(module, function);
            if constructs(function).is_some() {
                assert!(made.contains(&name), "{name}");
                assert!(!calls.contains(&name), "{name}");
                continue;
            }
            assert_eq!(calls.contains(&name), function.states.has(state), "{name} {state:?}");
            assert_eq!(values.contains(&name), function.states.has(state), "{name} {state:?}");
        }
    }
}

#[test]
fn every_action_is_completed_in_its_states() {
    for state in State::ALL {
        let mut actions: Vec<_> = state.actions().iter().map(|one| one.name()).collect();
        actions.sort_unstable();
        assert_eq!(in_state(state, "return ("), actions, "{state:?}");
    }
}

#[test]
fn declarations_have_their_words() {
    let dotted = |names: &[&str]| {
        let mut names: Vec<_> = names.iter().map(|name| format!(".{name}")).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(labels("backend b { .host = \"x\"; "), dotted(&BACKEND_FIELDS));
    assert_eq!(labels("backend b { .probe = { "), dotted(&PROBE_FIELDS));
    assert_eq!(labels("probe p { .u"), [".url"]);
    assert_eq!(labels("probe p { } backend b { .probe = "), ["p"]);
    assert_eq!(labels("acl a +l"), ["log"]);
    assert_eq!(labels("sub vcl_backend_r"), ["vcl_backend_response"]);
    assert_eq!(labels("import st"), ["std", "str"]);
    assert_eq!(labels("vcl 4.1;\nb"), ["backend"]);
    assert_eq!(labels("sub own { }\nsub vcl_recv { call "), ["own", "vcl_recv"]);
    assert!(labels("import std as s; sub vcl_recv { s.l").contains(&"s.log".to_owned()));
    let fields = labels("sub vcl_recv { set req.http.X-Own = 1; if (req.http.x");
    assert_eq!(fields, ["req.http.X-Forwarded-For", "req.http.X-Own", "req.http.x"]);
}

#[test]
fn nothing_is_completed_within_strings_and_comments() {
    for start in ["\"se", "{\"se", "# se", "// se", "/* se", "\"\"\" se"] {
        assert_eq!(labels(&format!("sub vcl_recv {{ {start}")), [""; 0], "{start}");
    }
    for ended in ["\"x\";", "{\" { \"};", "# {\n", "/* } */", "log(\"{\");"] {
        assert_eq!(labels(&format!("sub vcl_recv {{ {ended} se")), ["set"], "{ended}");
    }
}

#[test]
fn what_is_completed_is_explained() {
    let mut texts: Vec<String> =
        ["", "import ", "sub ", "acl a +", "backend b { ", "probe p { "].map(str::to_owned).into();
    let modules: String = modules().map(|one| format!("import {};\n", one.name)).collect();
    for state in State::ALL {
        for words in ["", "set ", "unset ", "return (", "if (", "new x = ", "call "] {
            let name = state.subroutine();
            texts.push(format!(
                "{modules} acl a {{ }} sub vcl_init {{ new o = directors.shard(); }} sub {name} {{ {words}"
            ));
        }
    }
    let mut seen = HashSet::new();
    for text in texts {
        for item in completed(&text, text.len()) {
            if !seen.insert(item.label.clone()) {
                continue;
            }
            let written = format!("{text}{}", item.label);
            let shown = meaning(&written, written.len());
            assert!(shown.is_some(), "{} behind {}", item.label, text.lines().last().unwrap());
        }
    }
}
