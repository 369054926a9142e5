//! Modules: what `import` brings in, and the functions the language has by itself.
//!
//! A function is its signature, as the manual writes it, and the Rust function that does it. The
//! checker reads the signature; there is no second table to keep in step.

pub(crate) mod accept;
mod access;
pub(crate) mod blob;
mod bodyaccess;
mod builtin;
pub(crate) mod cookie;
pub(crate) mod debug;
mod digest;
pub(crate) mod directors;
pub(crate) mod dynamic;
mod geoip2;
mod header;
mod math;
mod number;
mod proxy;
mod purge;
pub(crate) mod saintmode;
mod signature;
mod standard;
mod standard_convert;
mod tcp;
mod text;
pub(crate) mod throttle;
mod tls;
mod urlcode;
pub(crate) mod var;
mod vtc;

pub use blob::base64;
pub(crate) use blob::to_base64;
pub use number::duration;
pub use signature::{Parameter, Signature};
pub use standard_convert::split_port;

use crate::program::{Text, Value};
use crate::runtime::{Fault, Result, Run};
use crate::types::{State, States};

/// The Rust function behind a function: the state being run, the object whose method it is
/// (`u32::MAX` for none), and one value for each parameter.
type Body = fn(&mut Run<'_>, u32, &[Value]) -> Result<Value>;

/// A function or method.
#[derive(Debug)]
pub struct Function {
    /// `TYPE name(TYPE parameter, …)`; a method's name is `class.method`, a constructor's `new
    /// class`.
    pub signature: &'static str,
    /// States that can call it.
    pub states: States,
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
pub struct Module {
    /// What it is imported by.
    pub name: &'static str,
    /// Its kinds of objects, as `directors.hash`.
    pub classes: &'static [&'static str],
    /// What can be called.
    pub functions: &'static [Function],
    /// Whether it is for tests only.
    pub is_test: bool,
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
    pub fn function(&self, name: &str) -> Option<&'static Function> {
        self.functions.iter().find(|function| Signature::name_of(function.signature) == name)
    }

    /// Its kinds of objects.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.classes.iter().copied()
    }
}

/// What the language has without an import.
pub const BUILTIN: Module =
    Module { name: "", classes: &[], functions: builtin::FUNCTIONS, is_test: false };

/// Every module.
pub const MODULES: &[Module] = &[
    accept::MODULE,
    access::MODULE,
    blob::MODULE,
    bodyaccess::MODULE,
    cookie::MODULE,
    debug::MODULE,
    digest::MODULE,
    directors::MODULE,
    dynamic::MODULE,
    geoip2::MODULE,
    header::MODULE,
    math::MODULE,
    access::MEC,
    proxy::MODULE,
    purge::MODULE,
    saintmode::MODULE,
    standard::MODULE,
    tcp::MODULE,
    text::MODULE,
    throttle::MODULE,
    tls::MODULE,
    proxy::UNIX,
    urlcode::MODULE,
    var::MODULE,
    vtc::MODULE,
    purge::XKEY,
];

/// The module of this name.
pub fn find(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.name == name)
}

/// What to use in place of a module that is not there.
pub fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "goto" | "udo" | "activedns" => {
            "backends are looked up by name again and again here: declare one with `.host = \
             \"name\"`, or use dynamic"
        }
        "querystring" | "urlplus" => "use std.querysort and regsuball",
        "cookieplus" => "use cookie",
        "headerplus" => "use header",
        "ykey" => "use xkey",
        "softpurge" => "use purge.soft()",
        "curl" | "http" => "a policy does no I/O: use backends and restarts",
        "geoip" | "maxmind" | "mmdb" => "use geoip2",
        "re" | "re2" | "selector" | "pcre2" => "use `~`, regsub and regsuball",
        "jwt" | "crypto" | "hmac" => "use digest for signatures and blob for encodings",
        _ => return None,
    })
}

/// What to do in place of giving a function of a module an argument that it does not have here.
pub fn instead_of_argument(function: &Function, argument: &str) -> Option<&'static str> {
    let is_dynamic = dynamic::MODULE.functions.contains(function);
    is_dynamic.then(|| dynamic::instead_of(argument)).flatten()
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
