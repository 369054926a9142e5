//! Modules: what `import` brings in, and the functions the language has by itself.
//!
//! A function is its signature, as the manual writes it, and the Rust function that does it. The
//! checker reads the signature; there is no second table to keep in step.

pub(crate) mod accept;
pub(crate) mod blob;
mod bodyaccess;
mod builtin;
pub(crate) mod cookie;
pub(crate) mod directors;
mod header;
mod proxy;
mod purge;
mod saintmode;
mod standard;
mod standard_convert;
mod text;
pub(crate) mod throttle;
pub(crate) mod var;
mod vtc;

pub(crate) use blob::{base64, to_base64};
pub(crate) use standard_convert::split_port;

use crate::program::{Text, Value};
use crate::runtime::{Fault, Result, Run};
use crate::types::{State, States, Type};

/// The Rust function behind a function: the state being run, the object whose method it is
/// (`u32::MAX` for none), and one value for each parameter.
type Body = fn(&mut Run<'_>, u32, &[Value]) -> Result<Value>;

/// A function or method.
#[derive(Debug)]
pub(crate) struct Function {
    /// `TYPE name(TYPE parameter, …)`; a method's name is `class.method`, a constructor's `new
    /// class`.
    pub(crate) signature: &'static str,
    /// States that can call it.
    pub(crate) states: States,
    pub(crate) call: Body,
}

impl Function {
    /// Says that a state cannot call it.
    pub(crate) fn misplaced(&self, state: State) -> Fault {
        let name = Signature::name_of(self.signature);
        Fault::new(format!("{name}() may not be called in {} {{}}", state.subroutine()))
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

/// A module.
#[derive(Debug, PartialEq)]
pub(crate) struct Module {
    pub(crate) name: &'static str,
    /// Its kinds of objects, as `directors.hash`.
    pub(crate) classes: &'static [&'static str],
    pub(crate) functions: &'static [Function],
    /// Whether it is for tests only.
    pub(crate) is_test: bool,
}

/// A function that every state can call.
const fn function(signature: &'static str, call: Body) -> Function {
    Function { signature, states: States::ALL, call }
}

/// A function that these states can call.
const fn function_in(states: States, signature: &'static str, call: Body) -> Function {
    Function { signature, states, call }
}

impl Module {
    /// The function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        self.functions.iter().find(|function| Signature::name_of(function.signature) == name)
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.classes.iter().copied()
    }
}

/// What the language has without an import.
pub(crate) const BUILTIN: Module =
    Module { name: "", classes: &[], functions: builtin::FUNCTIONS, is_test: false };

/// Every module.
pub(crate) const MODULES: &[Module] = &[
    accept::MODULE,
    blob::MODULE,
    bodyaccess::MODULE,
    cookie::MODULE,
    directors::MODULE,
    header::MODULE,
    proxy::MODULE,
    purge::MODULE,
    saintmode::MODULE,
    standard::MODULE,
    text::MODULE,
    throttle::MODULE,
    proxy::UNIX,
    var::MODULE,
    vtc::MODULE,
    purge::XKEY,
];

/// The module of this name.
pub(crate) fn find(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.name == name)
}

/// What to use in place of a module that is not there.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "dynamic" | "goto" | "udo" | "activedns" => {
            "backends are looked up by name again and again here: declare one with `.host = \
             \"name\"`"
        }
        "querystring" | "urlplus" => "use std.querysort and regsuball",
        "cookieplus" => "use cookie",
        "headerplus" => "use header",
        "ykey" => "use xkey",
        "softpurge" => "use purge.soft()",
        "tcp" => "pacing and congestion control are the system's: net.ipv4.tcp_congestion_control",
        "curl" | "http" => "a policy does no I/O: use backends and restarts",
        "debug" => "it is for Varnish's own tests",
        "geoip2" | "maxmind" | "mmdb" => "let the proxy in front set a header",
        "re" | "re2" | "selector" | "pcre2" => "use `~`, regsub and regsuball",
        "jwt" | "crypto" | "digest" | "hmac" => "use blob for encodings; signatures are not there",
        _ => return None,
    })
}

/// A parameter of a function.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) of: Type,
    /// Empty where it has none.
    pub(crate) name: &'static str,
    /// In square brackets: may be left out.
    pub(crate) optional: bool,
    pub(crate) default: Option<&'static str>,
    /// Words of an ENUM.
    pub(crate) words: Vec<&'static str>,
}

/// A signature, read.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) returns: Type,
    pub(crate) parameters: Vec<Parameter>,
}

impl Signature {
    /// The name in a signature.
    pub(crate) fn name_of(text: &'static str) -> &'static str {
        let head = text.split('(').next().unwrap_or("");
        head.split_once(' ').map_or(head, |(_, name)| name)
    }

    /// Reads a signature of ours. What is wrong with one is found by a test.
    pub(crate) fn parse(text: &'static str) -> Self {
        let (head, rest) = text.split_once('(').unwrap_or((text, ")"));
        let returns = head.split(' ').next().and_then(Type::named).unwrap_or(Type::Void);
        let inner = rest.strip_suffix(')').unwrap_or(rest);
        Self { returns, parameters: split(inner).into_iter().filter_map(parameter).collect() }
    }
}

/// Splits at commas that are neither in braces nor in quotes.
fn split(text: &'static str) -> Vec<&'static str> {
    let mut out = Vec::new();
    let (mut start, mut depth, mut quoted) = (0, 0_i32, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            b',' if depth == 0 && !quoted => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.retain(|part| !part.trim().is_empty());
    out
}

fn parameter(text: &'static str) -> Option<Parameter> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (optional, text) = inner.map_or((false, text), |inner| (true, inner.trim()));
    let (words, of, rest) = if let Some(rest) = text.strip_prefix("ENUM") {
        let (words, rest) = rest.trim().strip_prefix('{')?.split_once('}')?;
        (words.split(',').map(str::trim).collect(), Type::Enum, rest)
    } else {
        let (of, rest) = text.split_once(' ').unwrap_or((text, ""));
        (Vec::new(), Type::named(of)?, rest)
    };
    let (name, default) = match rest.split_once('=') {
        Some((name, default)) => (name.trim(), Some(default.trim().trim_matches('"'))),
        None => (rest.trim(), None),
    };
    Some(Parameter { of, name, optional, default, words })
}

/// Reading arguments. The checker has seen to their types.
pub(super) trait Arguments {
    fn at(&self, index: usize) -> Value;

    fn text(&self, index: usize) -> Text {
        match self.at(index) {
            Value::Text(text) | Value::Blob(text) => text,
            _ => Text::Unset,
        }
    }

    fn int(&self, index: usize) -> i64 {
        match self.at(index) {
            Value::Int(number) | Value::Bytes(number) => number,
            _ => 0,
        }
    }

    fn real(&self, index: usize) -> f64 {
        match self.at(index) {
            Value::Real(number) | Value::Duration(number) | Value::Time(number) => number,
            Value::Int(number) => number as f64,
            _ => 0.0,
        }
    }

    fn truth(&self, index: usize) -> bool {
        matches!(self.at(index), Value::Bool(true))
    }

    fn word(&self, index: usize) -> &'static str {
        match self.at(index) {
            Value::Word(word) => word,
            _ => "",
        }
    }

    fn is_given(&self, index: usize) -> bool {
        !matches!(self.at(index), Value::None)
    }
}

impl Arguments for [Value] {
    fn at(&self, index: usize) -> Value {
        self.get(index).copied().unwrap_or(Value::None)
    }
}

/// What a function of type VOID returns.
const NOTHING: Result<Value> = Ok(Value::None);

fn fault<T>(message: impl Into<Box<str>>) -> Result<T> {
    Err(Fault::new(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_can_be_read() {
        for module in MODULES.iter().chain([&BUILTIN]) {
            for function in module.functions {
                let text = function.signature;
                let head = text.split(' ').next().unwrap_or("");
                assert!(Type::named(head).is_some(), "{text}");
                let inner = text.split_once('(').map_or("", |(_, rest)| rest);
                let parts = split(inner.strip_suffix(')').expect("ends with a bracket"));
                let signature = Signature::parse(text);
                assert_eq!(signature.parameters.len(), parts.len(), "{text}");
                let twins = module
                    .functions
                    .iter()
                    .filter(|other| Signature::name_of(other.signature) == Signature::name_of(text))
                    .count();
                assert_eq!(twins, 1, "{text}");
                assert!(signature.parameters.len() <= 12, "{text}");
            }
        }
    }
}
