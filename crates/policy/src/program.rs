//! A compiled policy: names resolved to slots, texts interned, expressions compiled once. The compiler makes
//! it, and whoever runs it takes it for granted that types fit and numbers lead to something.

use crate::acl::Acl;
use crate::modules::Function;
use crate::regex::Regex;
use crate::source::{SourceMap, Span};
use crate::types::{Action, State};
use crate::variables::{Message, VARIABLES, Variable};
use freshet_http::date::Reading;
use std::net::{IpAddr, SocketAddr};

/// A value of any type. Small, so that it is handed about by copy; texts and blobs are ranges in
/// the program's constants or in a task's workspace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An argument that was not given.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with decimals.
    Real(f64),
    /// Seconds.
    Duration(f64),
    /// Seconds since 1970.
    Time(f64),
    /// A size.
    Bytes(i64),
    /// Text.
    Text(Text),
    /// Bytes that are no text.
    Blob(Text),
    /// An address and a port; no port is 0.
    Ip(Option<IpAddr>, u16),
    /// A backend or director.
    Backend(BackendRef),
    /// A storage, by its number among the program's; `None` for one that is not there.
    Stevedore(Option<u32>),
    /// An access list, by its number among the program's.
    Acl(u32),
    /// A probe, by its number among the program's.
    Probe(u32),
    /// A regular expression, by its number among the program's.
    Regex(u32),
    /// A header field, by its number among the program's.
    Header(Message, u32),
    /// A header field whose name was made while running.
    NamedHeader(Message, Text),
    /// All header fields of a message.
    Http(Message),
    /// One of a function's own words.
    Word(&'static str),
}

/// A text or blob.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Text {
    /// Not there: an unset header field. As text it is empty.
    Unset,
    /// A constant of the program.
    Constant(u32),
    /// Bytes of the workspace.
    Work {
        /// The first.
        start: u32,
        /// How many.
        len: u32,
    },
    /// Bytes a task holds on to, such as a file's.
    Held(u32),
}

/// A backend as policies handle it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum BackendRef {
    /// None: nothing can be fetched.
    #[default]
    None,
    /// A declared backend, by its place in [`Program::backends`].
    Backend(u32),
    /// A director, by the place of its object in the policy.
    Director(u32),
    /// One that was made while the policy runs, by the number its maker gave it.
    Made(u32),
    /// Where a service that let the request in has said that it goes.
    Told,
}

/// What has a value, of a type the compiler knows.
#[derive(Debug)]
pub enum Expr {
    /// What is known before it runs.
    Constant(Value),
    /// A variable.
    Variable(Variable),
    /// What is known of a storage.
    Storage {
        /// Its number among the program's.
        storage: u32,
        /// What is asked.
        what: StorageFact,
    },
    /// A header field; of several of one name the first.
    Field {
        /// Of which message.
        message: Message,
        /// Its name, by number among the program's.
        header: u32,
    },
    /// The contrary.
    Not(Box<Self>),
    /// Whether all of these are true; those behind the first that is not are not looked at.
    All(Box<[Self]>),
    /// Whether one of these is true; those behind it are not looked at.
    Any(Box<[Self]>),
    /// Whether a text is set, a backend assigned, a number not zero.
    Truth(Box<Self>),
    /// A value as text.
    Text(Box<Self>),
    /// A number as one with decimals.
    Real(Box<Self>),
    /// Two numbers, calculated with.
    Arithmetic {
        /// How.
        operator: Arithmetic,
        /// The left and the right one.
        operands: Box<[Self; 2]>,
    },
    /// Two values, compared.
    Compare {
        /// How.
        operator: Comparison,
        /// The left and the right one.
        operands: Box<[Self; 2]>,
    },
    /// Whether a text has what a regular expression describes.
    Match {
        /// The text.
        text: Box<Self>,
        /// The expression, by its number among the program's.
        regex: u32,
        /// Whether the contrary is asked.
        negated: bool,
    },
    /// Whether an address is in an access list.
    InAcl {
        /// The address.
        address: Box<Self>,
        /// The list, by its number among the program's.
        acl: u32,
        /// Whether the contrary is asked.
        negated: bool,
    },
    /// A match with a list or pattern that a function returns.
    MatchAny {
        /// The text, and what it is matched with.
        operands: Box<[Self; 2]>,
        /// Whether the contrary is asked.
        negated: bool,
    },
    /// Texts, one behind the other.
    Concat(Box<[Self]>),
    /// A text in capitals.
    Upper(Box<Self>),
    /// A text in small letters.
    Lower(Box<Self>),
    /// The backend that a director chooses.
    Resolve(Box<Self>),
    /// What a function returns.
    Call(Box<Call>),
}

/// What policies ask about a storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StorageFact {
    /// Bytes that are free.
    FreeSpace,
    /// Bytes that are in use.
    UsedSpace,
    /// Whether it works.
    Happy,
}

/// A call of a function or method.
#[derive(Debug)]
pub struct Call {
    /// Which.
    pub function: &'static Function,
    /// The object whose method it is.
    pub object: Option<u32>,
    /// A value for each of its parameters.
    pub arguments: Box<[Expr]>,
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
}

/// A statement.
#[derive(Debug)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Where it stands.
    pub span: Span,
}

/// What a statement does.
#[derive(Debug)]
pub enum StatementKind {
    /// The first block whose condition is true.
    If {
        /// Conditions, and what is done then.
        arms: Box<[(Expr, Block)]>,
        /// What is done where none is true.
        otherwise: Block,
    },
    /// Statements in braces.
    Block(Block),
    /// A variable becomes a value.
    Set {
        /// Which.
        variable: Variable,
        /// What it becomes.
        value: Expr,
    },
    /// A header field becomes a value.
    SetField {
        /// Of which message.
        message: Message,
        /// Its name, by number among the program's.
        header: u32,
        /// What it becomes.
        value: Expr,
    },
    /// `+=` on a synthetic body.
    AppendBody(Expr),
    /// A header field goes.
    UnsetField {
        /// Of which message.
        message: Message,
        /// Its name, by number among the program's.
        header: u32,
    },
    /// A variable goes back to what it is unset.
    Unset(Variable),
    /// A subroutine is run, by its number among the program's.
    Call(u32),
    /// A subroutine ends, without an action.
    Leave,
    /// The state ends.
    Return {
        /// What comes next.
        action: Action,
        /// What the action is given.
        arguments: Box<[Expr]>,
    },
    /// An object is made.
    New {
        /// Its number among the program's.
        object: u32,
        /// What makes it.
        constructor: &'static Function,
        /// A value for each of its parameters.
        arguments: Box<[Expr]>,
    },
    /// A function is called for what it does.
    Perform(Expr),
}

/// Statements, in order.
pub type Block = Box<[Statement]>;

/// A subroutine.
#[derive(Debug)]
pub struct Sub {
    /// Its name.
    pub name: Box<str>,
    /// Where its name stands first.
    pub span: Span,
    /// The pieces it is joined from, in order.
    pub pieces: Vec<Block>,
    /// Whether a piece is of the policy's own text, not of the built-in one.
    pub is_own: bool,
}

/// A declared backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name.
    pub name: Box<str>,
    /// Where it listens; `None` for `backend x none;`.
    pub endpoint: Option<Endpoint>,
    /// `Host` for requests without one, and for probes.
    pub host_header: Option<String>,
    /// Seconds to connect within.
    pub connect_timeout: Option<f64>,
    /// Seconds to the first byte of a response.
    pub first_byte_timeout: Option<f64>,
    /// Seconds between bytes of a response.
    pub between_bytes_timeout: Option<f64>,
    /// Most connections; 0 is no limit.
    pub connections_max: u64,
    /// How many may wait for one of them, of each worker.
    pub waiters_max: u64,
    /// Seconds one waits at most; nobody does where it is not said.
    pub wait_timeout: Option<f64>,
    /// Version of the PROXY header sent first; 0 is none.
    pub proxy_header: u8,
    /// Bytes sent first on every connection.
    pub preamble: Option<Box<[u8]>>,
    /// How it is checked, by place in [`Program::probes`].
    pub probe: Option<u32>,
    /// Where it is declared.
    pub span: Span,
}

impl Backend {
    /// The `Host` of requests that have none.
    pub fn host(&self) -> &str {
        match (&self.host_header, &self.endpoint) {
            (Some(host), _) => host,
            (None, Some(Endpoint::Tcp { host, .. })) => host,
            // As nobody knows what is behind a socket.
            (None, _) => "0.0.0.0",
        }
    }
}

/// Where a backend listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    /// Host and port as written, and the addresses they had when the policy was compiled.
    Tcp {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// One IPv4 and one IPv6 address at most.
        addresses: Vec<SocketAddr>,
    },
    /// Path of a Unix socket.
    Unix(String),
}

/// A health check.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its name; empty where it is part of a backend.
    pub name: Box<str>,
    /// Path to ask for.
    pub url: String,
    /// The whole request head in place of one made from `url`.
    pub request: Option<String>,
    /// Status of a good answer.
    pub expected_response: u16,
    /// Seconds for one check.
    pub timeout: f64,
    /// Seconds from one check to the next.
    pub interval: f64,
    /// Results looked at.
    pub window: u32,
    /// How many of them have to be good.
    pub threshold: u32,
    /// How many count as good at the start.
    pub initial: u32,
    /// Where it is declared.
    pub span: Span,
}

/// An object made with `new`.
#[derive(Debug)]
pub struct ObjectSlot {
    /// Its name.
    pub name: Box<str>,
    /// Its kind, as `directors.round_robin`.
    pub kind: &'static str,
}

/// A compiled policy. Immutable; what it knows at run time is in [`crate::Policy`].
#[derive(Debug)]
pub struct Program {
    /// 40 or 41.
    pub version: u32,
    /// How dates are read.
    pub dates: Reading,
    /// Subroutines, built-in ones among them.
    pub subs: Vec<Sub>,
    /// Backends, in order.
    pub backends: Vec<Backend>,
    /// The one used when a policy chooses none.
    pub default_backend: BackendRef,
    /// Probes.
    pub probes: Vec<Probe>,
    /// Access lists.
    pub acls: Vec<Acl>,
    /// Objects.
    pub objects: Vec<ObjectSlot>,
    /// Names of storages.
    pub storages: Vec<String>,
    /// Names of other policies that `return (vcl(…))` hands over to.
    pub labels: Vec<Box<str>>,
    /// The texts it was made from.
    pub sources: SourceMap,
    /// Modules it imports.
    pub modules: Vec<&'static str>,
    /// Whether it goes back to messages as they came (`std.rollback`).
    pub rolls_back: bool,
    /// Whether a variable `sess.…timeout…` is set anywhere.
    pub writes_timeouts: bool,
    /// Whether responses may be made pages with includes.
    pub includes: bool,
    /// Whether it asks for a request's body to be kept.
    pub keeps_body: bool,
    /// Whether it changes how clients' connections send, or asks about them.
    pub controls_connections: bool,
    /// Whether each variable is read, in their order.
    pub reads: [bool; VARIABLES.len()],
    /// The subroutine of each state, in the order of [`State::ALL`], by its place in `subs`.
    pub states: [Option<u32>; 14],
    /// Constant texts and blobs.
    pub texts: Vec<Box<[u8]>>,
    /// Names of header fields.
    pub headers: Vec<Box<str>>,
    /// Regular expressions.
    pub regexes: Vec<Regex>,
}

impl Program {
    /// Where the subroutine of a state begins: file by number, line and column from 1.
    pub fn place_of(&self, state: State) -> Option<(u16, usize, usize)> {
        let span = self.subs.get(self.states[state as usize]? as usize)?.span;
        let (_, line, column) = self.sources.place(span);
        Some((span.file, line, column))
    }

    /// Whether the text names a header field.
    pub fn names(&self, field: &str) -> bool {
        self.headers.iter().any(|name| name.eq_ignore_ascii_case(field))
    }

    /// The storage of what chooses none: `Transient` for what is not kept, else the first other.
    pub(crate) fn storage_of(&self, is_transient: bool) -> Option<u32> {
        let fits = |name: &String| (name == "Transient") == is_transient;
        self.storages.iter().position(fits).and_then(|index| u32::try_from(index).ok())
    }

    /// The subroutine of a state.
    pub fn sub_of(&self, state: State) -> Option<&Sub> {
        self.states[state as usize].and_then(|index| self.subs.get(index as usize))
    }

    /// Whether it reads a variable anywhere.
    pub fn reads(&self, variable: Variable) -> bool {
        self.reads[variable as usize]
    }

    /// Whether what was hashed matters besides finding an object: as `req.hash`, or to choose a
    /// backend.
    pub fn reads_hash(&self) -> bool {
        self.reads(Variable::ReqHash) || self.reads(Variable::BereqHash) || !self.objects.is_empty()
    }

    /// Whether this is no backend, also by a name: `backend x none;`.
    pub(crate) fn is_nobody(&self, backend: BackendRef) -> bool {
        match backend {
            BackendRef::None => true,
            BackendRef::Backend(index) => {
                self.backends.get(index as usize).is_none_or(|backend| backend.endpoint.is_none())
            }
            BackendRef::Director(_) | BackendRef::Made(_) | BackendRef::Told => false,
        }
    }

    /// The name of a backend; of one that was made its maker knows it.
    pub fn backend_name(&self, backend: BackendRef) -> &str {
        match backend {
            BackendRef::None => "",
            BackendRef::Backend(index) => {
                self.backends.get(index as usize).map_or("", |backend| &backend.name)
            }
            BackendRef::Director(index) => {
                self.objects.get(index as usize).map_or("", |object| &object.name)
            }
            BackendRef::Made(_) => "",
            BackendRef::Told => "told",
        }
    }
}
