//! What words of the language mean, for an editor: a sentence for each word, and for names what the
//! tables of the language say of them.

use super::scan::{Declared, Place, Wanted};
use freshet_policy::Signature;
use freshet_policy::modules::{BUILTIN, Function, MODULES, Module};
use freshet_policy::types::{State, States};
use freshet_policy::variables::{self, Definition, Message, Versions};

/// Words, each with what it means.
pub(super) type Words = [(&'static str, &'static str)];

/// What the outermost level is made of.
pub(super) const DECLARATIONS: &Words = &[
    ("acl", "An access list: networks that an address is compared with by `~`."),
    ("backend", "An origin: where it is, and how long it may take."),
    ("import", "Brings in the functions of a module, under another name with `as`."),
    ("include", "Reads another file in its place; `include +glob` reads all that fit."),
    ("probe", "How often a backend is checked, and what it has to answer."),
    ("sub", "A subroutine: one of the states (`vcl_…`), or one that is called."),
    ("vcl", "The version of the language, first of all: `vcl 4.1;`"),
];
/// What statements begin with.
pub(super) const STATEMENTS: &Words = &[
    ("call", "Runs a subroutine."),
    ("else", "What is done where no condition before holds."),
    (
        "elseif",
        "Another condition where none before holds; `elsif`, `elif` and `else if` are the same.",
    ),
    ("if", "What is done where a condition holds."),
    ("new", "Makes an object of a module, in `vcl_init`."),
    ("return", "Ends the state with an action; in a subroutine of one's own also without."),
    ("set", "Changes a variable or a header field."),
    ("unset", "Takes a header field away, or what was said of a variable."),
];
/// Values that are words.
pub(super) const VALUES: &Words = &[("false", "BOOL"), ("true", "BOOL")];
/// What `return` can say.
pub(super) const ACTIONS: &Words = &[
    ("abandon", "Gives the fetch up: who waits for it gets `vcl_synth` with 503."),
    ("deliver", "Goes on with the response as it is."),
    ("error", "Goes to `vcl_backend_error`: `error(status, reason)`."),
    ("fail", "Fails: `vcl_synth` with 503, or in a fetch `vcl_backend_error`."),
    ("fetch", "Asks the origin."),
    ("hash", "Looks the request up."),
    ("lookup", "Looks up what was hashed."),
    ("ok", "The policy can be used."),
    (
        "pass",
        "Asks the origin for this request alone. Of a response, `pass(duration)` has requests for it passed for so long.",
    ),
    ("pipe", "Carries the bytes of the connection both ways from here on."),
    ("purge", "Takes away what is kept under the request's key, with all its variants."),
    ("restart", "Begins with `vcl_recv` again, as the request is now."),
    ("retry", "Asks again, beginning with `vcl_backend_fetch`."),
    ("synth", "Answers with a page of `vcl_synth`: `synth(status, reason)`."),
    ("vcl", "Hands the request over to the policy with this label."),
];
/// What backends and probes can say.
pub(super) const FIELDS: &Words = &[
    ("host", "STRING: a name or an address."),
    ("port", "STRING: a number or the name of a service; 80 where nothing is said."),
    ("path", "STRING: a Unix socket, in place of `.host`."),
    ("host_header", "STRING: what an origin is told as `Host` where a request has none."),
    ("connect_timeout", "DURATION: how long a connection may take to be opened."),
    ("first_byte_timeout", "DURATION: how long an answer may take to begin."),
    ("between_bytes_timeout", "DURATION: how long an answer may stand still."),
    ("max_connections", "INT: how many connections may be open; 0 is no limit."),
    ("proxy_header", "INT: the version of the PROXY header that connections begin with, 1 or 2."),
    ("preamble", "BLOB: what connections begin with."),
    ("probe", "PROBE: a probe's name, or one in brackets."),
    (
        "wait_limit",
        "INT: how many requests of a worker wait for a connection where `.max_connections` are in use.",
    ),
    ("wait_timeout", "DURATION: how long they wait."),
    ("url", "STRING: what is asked for."),
    ("request", "STRING …: the lines of the request, in place of `.url`."),
    ("expected_response", "INT: the status that counts as healthy."),
    ("timeout", "DURATION: how long an answer may take."),
    ("interval", "DURATION: from one check to the next."),
    ("window", "INT: how many checks count, 64 at most."),
    ("threshold", "INT: how many of them have to be good."),
    ("initial", "INT: how many count as good when it begins."),
];
/// What can be said behind the name of an access list.
pub(super) const ACL_FLAGS: &Words = &[
    ("fold", "Networks that others contain are left out."),
    ("log", "Each comparison is logged (`VCL_acl`)."),
    (
        "pedantic",
        "A network with bits behind its mask is a mistake; so it is where nothing is said.",
    ),
    ("table", "Taken, and means nothing here: every list is searched as a table."),
];
/// Header fields that policies often name.
pub(super) const HEADERS: [&str; 24] = [
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Age",
    "Authorization",
    "Cache-Control",
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "Cookie",
    "Date",
    "ETag",
    "Expires",
    "Host",
    "If-Modified-Since",
    "If-None-Match",
    "Last-Modified",
    "Location",
    "Range",
    "Referer",
    "Set-Cookie",
    "User-Agent",
    "Vary",
    "X-Forwarded-For",
];

/// What the word that ends here stands for, in the words of the reference: as what stands there, or
/// as a name wherever it is.
pub fn meaning(text: &str, end: usize) -> Option<String> {
    let place = Place::at_end(&text[..end]);
    let (word, declared) = (place.begun, Declared::of(text));
    let there = match place.wanted {
        Wanted::Nothing if word.is_empty() => return None,
        Wanted::Action(_) => said_of(ACTIONS, word),
        Wanted::Declaration => said_of(DECLARATIONS, word),
        Wanted::Statement(_) => said_of(STATEMENTS, word),
        Wanted::AclFlag => said_of(ACL_FLAGS, word),
        Wanted::Field(_) => said_of(FIELDS, word.trim_start_matches('.')),
        Wanted::Module => modules().find(|module| module.name == word).map(of_module),
        _ => None,
    };
    there.or_else(|| name(word, &declared))
}

/// What a name stands for, wherever it is.
fn name(word: &str, declared: &Declared<'_>) -> Option<String> {
    if let Some(one) = variables::find(word) {
        return Some(of_variable(one));
    }
    if let Some(state) = State::of_subroutine(word) {
        return Some(of_state(state));
    }
    let callable = callable(declared);
    if let Some((_, function)) = callable.iter().find(|(name, _)| name == word) {
        return Some(of_function(function));
    }
    if let Some((_, class)) = declared.objects.iter().find(|(name, _)| *name == word) {
        return Some(format!("`{word}` {class}"));
    }
    if let Some((kind, _)) = declared.names.iter().find(|(_, name)| *name == word) {
        return Some(format!("`{word}` {}", kind.to_ascii_uppercase()));
    }
    let module = declared.module(word);
    let module = modules().find(|known| known.name == module).map(of_module);
    module.or_else(|| of_field(word)).or_else(|| said_of(VALUES, word))
}

/// The sentence for a word.
fn said_of(words: &Words, word: &str) -> Option<String> {
    let (name, text) = words.iter().find(|(known, _)| *known == word)?;
    Some(format!("`{name}` {text}"))
}

/// Modules that a policy can import; those for tests of ours are not shown.
pub(super) fn modules() -> impl Iterator<Item = &'static Module> {
    MODULES.iter().filter(|module| !module.is_test)
}

/// What a function's name says it is.
pub(super) enum Kind<'n> {
    Function,
    Constructor(&'n str),
    /// The class, and the name behind it.
    Method(&'n str, &'n str),
}

pub(super) fn kind_of(function: &Function) -> Kind<'static> {
    let name = Signature::name_of(function.signature);
    match (name.strip_prefix("new "), name.split_once('.')) {
        (Some(class), _) => Kind::Constructor(class),
        (None, Some((class, method))) => Kind::Method(class, method),
        (None, None) => Kind::Function,
    }
}

/// Functions, constructors and methods as they are called in a text, each with its own.
pub(super) fn callable(declared: &Declared<'_>) -> Vec<(String, &'static Function)> {
    let mut out = Vec::new();
    for function in BUILTIN.functions {
        out.push((Signature::name_of(function.signature).to_owned(), function));
    }
    for (alias, name) in &declared.modules {
        let Some(module) = modules().find(|module| module.name == *name) else { continue };
        for function in module.functions {
            match kind_of(function) {
                Kind::Function => {
                    let name = Signature::name_of(function.signature);
                    out.push((format!("{alias}.{name}"), function));
                }
                Kind::Constructor(class) => out.push((format!("{alias}.{class}"), function)),
                Kind::Method(class, method) => {
                    let class = format!("{}.{class}", module.name);
                    let objects = declared.objects.iter().filter(|(_, of)| *of == class);
                    out.extend(objects.map(|(object, _)| (format!("{object}.{method}"), function)));
                }
            }
        }
    }
    out
}

/// The states of a set, in words.
fn in_states(states: States) -> String {
    if states == States::ALL {
        return "every state".into();
    }
    let names = State::ALL.into_iter().filter(|state| states.has(*state)).map(State::subroutine);
    names.collect::<Vec<_>>().join(", ")
}

fn used_in(out: &mut String, used: [(&str, States); 3]) {
    for (what, states) in used {
        if states != States::NONE {
            out.push_str(&format!("\n\n{what} in {}", in_states(states)));
        }
    }
}

/// What a variable is, and where it can be used.
fn of_variable(one: &Definition) -> String {
    let version = match one.versions {
        Versions::Any => "",
        Versions::Until40 => " (VCL 4.0)",
        Versions::From41 => " (from VCL 4.1)",
    };
    let mut out = format!("`{}` {}{version}", one.name, one.of);
    used_in(&mut out, [("read", one.read), ("set", one.write), ("unset", one.unset)]);
    out
}

/// What a header field is, and where it can be used.
fn of_field(word: &str) -> Option<String> {
    let mut parts = word.splitn(3, '.');
    let message = parts.next()?;
    let message = Message::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(message))?;
    let name =
        parts.next().filter(|http| http.eq_ignore_ascii_case("http")).and_then(|_| parts.next())?;
    let mut out = format!("`{}.http.{name}` HEADER", message.name());
    let written = message.write();
    used_in(&mut out, [("read", message.read()), ("set", written), ("unset", written)]);
    Some(out)
}

/// What a function takes and gives, and where it can be called.
fn of_function(function: &Function) -> String {
    let mut out = format!("```\n{}\n```", function.signature);
    if function.states != States::ALL {
        out.push_str(&format!("\n\ncalled in {}", in_states(function.states)));
    }
    out
}

/// What a state can return.
pub(super) fn of_state(state: State) -> String {
    let actions: Vec<_> = state.actions().iter().map(|action| action.name()).collect();
    format!("`{}` can return {}", state.subroutine(), actions.join(", "))
}

/// What a module has.
fn of_module(module: &Module) -> String {
    let signatures: Vec<_> = module.functions.iter().map(|one| one.signature).collect();
    format!("`{}`\n```\n{}\n```", module.name, signatures.join("\n"))
}
