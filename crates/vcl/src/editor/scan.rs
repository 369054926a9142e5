//! What a text of VCL says around a place, and what it declares, as far as an editor's questions need
//! it: the text may be half written, which the compiler would only find wrong.

use crate::{BACKEND_FIELDS, PROBE_FIELDS};
use freshet_policy::types::{State, States};

/// A word or a sign, and where it begins.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    text: &'t str,
    at: usize,
}

/// Whether words are made of it: names with the dots between them.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Words and signs, without comments and strings. Whether the end of the text is in one of those.
fn tokens(text: &str) -> (Vec<Token<'_>>, bool) {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let quoted =
            [("\"\"\"", "\"\"\""), ("{\"", "\"}"), ("\"", "\""), ("/*", "*/"), ("#", "\n")]
                .into_iter()
                .chain([("//", "\n")])
                .find(|(opens, _)| rest.starts_with(opens));
        if let Some((opens, closes)) = quoted {
            let inner = &rest[opens.len()..];
            // A short string ends with its line, or all that follows would be one.
            let end =
                inner.find(closes).filter(|end| opens != "\"" || !inner[..*end].contains('\n'));
            match end {
                Some(end) => at += opens.len() + end + closes.len(),
                None if opens == "\"" && inner.contains('\n') => at += 1,
                None => return (out, true),
            }
            if !matches!(opens, "/*" | "#" | "//") {
                out.push(Token { text: "\"\"", at });
            }
            continue;
        }
        let len = match is_word(c) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => c.len_utf8(),
        };
        if !c.is_whitespace() {
            out.push(Token { text: &rest[..len], at });
        }
        at += len;
    }
    (out, false)
}

/// What can stand at a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wanted {
    /// Something that is declared at the outermost level.
    Declaration,
    /// A module, behind `import`.
    Module,
    /// The name of a subroutine that is declared.
    State,
    /// Flags of an access list.
    AclFlag,
    /// A field of a backend, or of a probe.
    Field(&'static [&'static str]),
    /// The name of a probe.
    Probe,
    /// A statement in one of these states.
    Statement(States),
    /// What `set` can change.
    Settable(States),
    /// What `unset` can.
    Unsettable(States),
    /// What `return` can.
    Action(States),
    /// A subroutine, behind `call`.
    Subroutine,
    /// A constructor, behind `new name =`.
    Constructor,
    /// A value.
    Value(States),
    /// Nothing that is known: names that are made up, strings, comments.
    Nothing,
}

/// What is open around a place.
#[derive(Clone, Copy)]
enum Open {
    Sub(States),
    Backend,
    Probe,
    Other,
}

/// A word that is being written, and what can stand there.
pub(super) struct Place<'t> {
    pub(super) begun: &'t str,
    pub(super) wanted: Wanted,
}

impl<'t> Place<'t> {
    /// The end of a text.
    pub(super) fn at_end(text: &'t str) -> Self {
        let (mut tokens, is_quoted) = tokens(text);
        if is_quoted {
            return Self { begun: "", wanted: Wanted::Nothing };
        }
        let is_begun = |last: &Token<'t>| {
            last.at + last.text.len() == text.len() && last.text.starts_with(is_word)
        };
        let begun = match tokens.last().filter(|last| is_begun(last)) {
            Some(last) => last.text,
            None => "",
        };
        if !begun.is_empty() {
            tokens.pop();
        }
        Self { begun, wanted: wanted(&tokens) }
    }
}

fn wanted(tokens: &[Token<'_>]) -> Wanted {
    let mut open: Vec<Open> = Vec::new();
    let mut statement: Vec<&str> = Vec::new();
    for token in tokens {
        match token.text {
            "{" => {
                open.push(opened(open.last().copied(), &statement));
                statement.clear();
            }
            "}" => {
                open.pop();
                statement.clear();
            }
            ";" => statement.clear(),
            text => statement.push(text),
        }
    }
    match (open.last(), &statement[..]) {
        (None, []) => Wanted::Declaration,
        (None, ["import"]) => Wanted::Module,
        (None, ["sub"]) => Wanted::State,
        (None, ["acl", _, ..]) => Wanted::AclFlag,
        (Some(Open::Backend), []) => Wanted::Field(&BACKEND_FIELDS),
        (Some(Open::Backend), [".probe", "="]) => Wanted::Probe,
        (Some(Open::Probe), []) => Wanted::Field(&PROBE_FIELDS),
        (Some(Open::Sub(states)), statement) => in_subroutine(*states, statement),
        _ => Wanted::Nothing,
    }
}

/// What a bracket opens behind these words.
fn opened(around: Option<Open>, statement: &[&str]) -> Open {
    match (around, statement) {
        (None, ["sub", name, ..]) => {
            // Others are called from any state.
            let states =
                State::of_subroutine(name).map_or(States::ALL, |state| States::of(&[state]));
            Open::Sub(states)
        }
        (None, ["backend", ..]) => Open::Backend,
        (None, ["probe", ..]) | (Some(Open::Backend), [".probe", ..]) => Open::Probe,
        (Some(Open::Sub(states)), _) => Open::Sub(states),
        _ => Open::Other,
    }
}

fn in_subroutine(states: States, statement: &[&str]) -> Wanted {
    match statement {
        [] | ["else"] => Wanted::Statement(states),
        ["set"] => Wanted::Settable(states),
        ["unset"] => Wanted::Unsettable(states),
        ["call"] => Wanted::Subroutine,
        ["return", "("] => Wanted::Action(states),
        ["new", _, "="] => Wanted::Constructor,
        ["new", ..] | ["set", _] | ["unset" | "call" | "return", _] => Wanted::Nothing,
        _ => Wanted::Value(states),
    }
}

/// What a text declares.
#[derive(Default)]
pub(super) struct Declared<'t> {
    /// Modules by the names they have here.
    pub(super) modules: Vec<(&'t str, &'t str)>,
    /// Objects with how each is made, as `directors.hash`.
    pub(super) objects: Vec<(&'t str, String)>,
    /// Subroutines, access lists, backends and probes: which of these, and the name.
    pub(super) names: Vec<(&'t str, &'t str)>,
    /// Header fields that are used, with their messages: `req.http.Host`.
    pub(super) fields: Vec<&'t str>,
}

impl<'t> Declared<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let (tokens, _) = tokens(text);
        let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
        let mut out = Self::default();
        for at in 0..words.len() {
            match &words[at..] {
                ["import", module, "as", alias, ..] => out.modules.push((alias, module)),
                ["import", module, ..] => out.modules.push((module, module)),
                ["new", name, "=", made, ..] => {
                    let (module, class) = made.split_once('.').unwrap_or((made, ""));
                    let class = format!("{}.{class}", out.module(module));
                    out.objects.push((name, class));
                }
                [kind @ ("sub" | "acl" | "backend" | "probe"), name, ..]
                    if at == 0 || matches!(words[at - 1], "}" | ";") =>
                {
                    out.names.push((kind, name));
                }
                [field, ..] if field.contains(".http.") => out.fields.push(field),
                _ => {}
            }
        }
        out
    }

    /// The module that has this name here.
    pub(super) fn module(&self, name: &str) -> String {
        let known = self.modules.iter().find(|(alias, _)| *alias == name);
        known.map_or(name, |(_, module)| module).to_owned()
    }
}
