//! What can be written at a place of a policy.

use super::meanings::{self, Kind, Words, modules};
use super::scan::{Declared, Place, Wanted};
use freshet_vcl::variables::{Definition, VARIABLES};
use freshet_vcl::{Message, State, States};
use serde_json::{Value, json};

/// Names that begin as the word that ends at this byte of a text, in their order.
pub(super) fn at(text: &str, at: usize) -> Vec<Item> {
    let place = Place::at_end(&text[..at]);
    let begun = place.begun.to_ascii_lowercase();
    let mut items = completed(place.wanted, &Declared::of(text));
    items.retain(|item| item.label.to_ascii_lowercase().starts_with(&begun));
    items.sort_by(|one, other| one.label.cmp(&other.label));
    items.dedup_by(|one, other| one.label == other.label);
    items
}

/// Something that can be written, of a kind that the protocol numbers.
pub(super) struct Item {
    pub(super) label: String,
    kind: u32,
    detail: String,
}

impl Item {
    const METHOD: u32 = 2;
    const FUNCTION: u32 = 3;
    const CONSTRUCTOR: u32 = 4;
    const FIELD: u32 = 5;
    const VARIABLE: u32 = 6;
    const MODULE: u32 = 9;
    const KEYWORD: u32 = 14;

    fn new(label: impl Into<String>, kind: u32, detail: impl Into<String>) -> Self {
        Self { label: label.into(), kind, detail: detail.into() }
    }

    fn words(words: &'static Words) -> impl Iterator<Item = Self> {
        words.iter().map(|(word, text)| Self::new(*word, Self::KEYWORD, *text))
    }

    /// As the protocol has it.
    pub(super) fn shown(self) -> Value {
        json!({ "label": self.label, "kind": self.kind, "detail": self.detail })
    }
}

/// All that can stand where this is wanted.
fn completed(wanted: Wanted, declared: &Declared<'_>) -> Vec<Item> {
    let declared_as = |wanted: &'static str| {
        let names =
            declared.names.iter().filter(move |(kind, _)| wanted.is_empty() || *kind == wanted);
        names.map(|(kind, name)| Item::new(*name, Item::VARIABLE, kind.to_ascii_uppercase()))
    };
    match wanted {
        Wanted::Declaration => Item::words(meanings::DECLARATIONS).collect(),
        Wanted::Module => {
            modules().map(|module| Item::new(module.name, Item::MODULE, "module")).collect()
        }
        Wanted::State => State::ALL
            .into_iter()
            .map(|state| Item::new(state.subroutine(), Item::FUNCTION, meanings::of_state(state)))
            .collect(),
        Wanted::AclFlag => Item::words(meanings::ACL_FLAGS).collect(),
        Wanted::Field(names) => meanings::FIELDS
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(name, text)| Item::new(format!(".{name}"), Item::FIELD, *text))
            .collect(),
        Wanted::Probe => declared_as("probe").collect(),
        Wanted::Statement(states) => {
            let functions =
                functions(states, declared, |kind| !matches!(kind, Kind::Constructor(_)));
            Item::words(meanings::STATEMENTS)
                .filter(|item| item.label != "new" || states.has(State::Init))
                .chain(functions)
                .collect()
        }
        Wanted::Settable(states) => changed(states, declared, |one| one.write.and(one.write_40)),
        Wanted::Unsettable(states) => changed(states, declared, |one| one.unset),
        Wanted::Action(states) => Item::words(meanings::ACTIONS)
            .filter(|item| {
                let can = |state: &State| {
                    states.has(*state)
                        && state.actions().iter().any(|action| action.name() == item.label)
                };
                State::ALL.iter().any(can)
            })
            .collect(),
        Wanted::Subroutine => declared_as("sub").collect(),
        Wanted::Constructor => {
            functions(States::ALL, declared, |kind| matches!(kind, Kind::Constructor(_))).collect()
        }
        Wanted::Value(states) => {
            let variables = VARIABLES.iter().filter(|one| one.read.meets(states));
            let functions =
                functions(states, declared, |kind| !matches!(kind, Kind::Constructor(_)));
            let objects = declared.objects.iter();
            variables
                .map(|one| Item::new(one.name, Item::VARIABLE, one.of.to_string()))
                .chain(fields(declared, |message| message.read().meets(states)))
                .chain(functions)
                .chain(objects.map(|(name, class)| Item::new(*name, Item::VARIABLE, class)))
                .chain(declared_as(""))
                .chain(Item::words(meanings::VALUES))
                .collect()
        }
        Wanted::Nothing => Vec::new(),
    }
}

/// Variables and header fields that can be changed in one of these states.
fn changed(
    states: States,
    declared: &Declared<'_>,
    where_it_can: impl Fn(&Definition) -> States,
) -> Vec<Item> {
    let variables = VARIABLES.iter().filter(|one| where_it_can(one).meets(states));
    variables
        .map(|one| Item::new(one.name, Item::VARIABLE, one.of.to_string()))
        .chain(fields(declared, |message| message.write().meets(states)))
        .collect()
}

/// Fields of messages: those of the text, and those that are often named.
fn fields<'d>(
    declared: &'d Declared<'_>,
    has: impl Fn(Message) -> bool + 'd,
) -> impl Iterator<Item = Item> + 'd {
    let messages = Message::ALL.into_iter().filter(move |message| has(*message));
    messages.flat_map(|message| {
        let start = format!("{}.http.", message.name());
        let known = meanings::HEADERS.iter().map(|name| format!("{start}{name}"));
        let used = declared.fields.iter().filter(|field| field.starts_with(&start));
        let used: Vec<String> = used.map(|field| (*field).to_owned()).collect();
        let all: Vec<String> = known.chain(used).collect();
        all.into_iter().map(|name| Item::new(name, Item::VARIABLE, "HEADER"))
    })
}

/// What can be called in one of these states.
fn functions<'d>(
    states: States,
    declared: &'d Declared<'_>,
    fits: impl Fn(&Kind<'_>) -> bool + 'd,
) -> impl Iterator<Item = Item> + 'd {
    let callable = meanings::callable(declared).into_iter();
    callable.filter_map(move |(name, function)| {
        let kind = meanings::kind_of(function);
        let number = match kind {
            Kind::Function => Item::FUNCTION,
            Kind::Constructor(_) => Item::CONSTRUCTOR,
            Kind::Method(..) => Item::METHOD,
        };
        let can = function.states.meets(states) && fits(&kind);
        can.then(|| Item::new(name, number, function.signature))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_vcl::modules::{BUILTIN, Function};
    use freshet_vcl::{BACKEND_FIELDS, PROBE_FIELDS, Signature};
    use std::collections::HashSet;

    fn labels(text: &str) -> Vec<String> {
        at(text, text.len()).into_iter().map(|item| item.label).collect()
    }

    /// What can be written behind these words in a state, in a policy that has all there is.
    fn in_state(state: State, words: &str) -> Vec<String> {
        let mut text = String::new();
        for module in modules() {
            text += &format!("import {};\n", module.name);
        }
        text += "acl a { } backend b none; probe p { } sub own { }\nsub vcl_init {\n";
        for (module, function) in functions_of_modules() {
            if let Kind::Constructor(class) = meanings::kind_of(function) {
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
        match meanings::kind_of(function) {
            Kind::Function => format!("{module}.{}", Signature::name_of(function.signature)),
            Kind::Constructor(class) => format!("{module}.{class}"),
            Kind::Method(class, method) => format!("{module}_{class}.{method}"),
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
                if let Kind::Constructor(_) = meanings::kind_of(function) {
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
            ["", "import ", "sub ", "acl a +", "backend b { ", "probe p { "]
                .map(str::to_owned)
                .into();
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
            for item in at(&text, text.len()) {
                if !seen.insert(item.label.clone()) {
                    continue;
                }
                let written = format!("{text}{}", item.label);
                let shown = meanings::at(&written, written.len());
                assert!(shown.is_some(), "{} behind {}", item.label, text.lines().last().unwrap());
            }
        }
    }
}
