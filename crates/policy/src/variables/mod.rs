//! The variables of the language: their types, and where each can be read, written and unset.

mod table;

use crate::program::Value;
use crate::runtime::{Result, Run};
use crate::types::{States, Type};

pub use table::{VARIABLES, Variable};

/// Language versions a variable is in, as 10 × major + minor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Versions {
    /// Every version.
    Any,
    /// 4.0 only.
    Until40,
    /// From 4.1.
    From41,
}

/// What is known about a variable.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Which it is.
    pub variable: Variable,
    /// As it is written.
    pub name: &'static str,
    /// Its type.
    pub of: Type,
    /// States that can read it.
    pub read: States,
    /// States that can set it.
    pub write: States,
    /// States that can set it in version 4.0.
    pub write_40: States,
    /// States that can unset it.
    pub unset: States,
    /// Versions that have it.
    pub versions: Versions,
    /// How it is read, where any state can.
    pub(crate) get: Option<Get>,
    /// How it is set, where any state can.
    pub(crate) set: Option<Set>,
    /// How it is unset, where any state can.
    pub(crate) reset: Option<Reset>,
}

pub(crate) type Get = fn(&mut Run<'_>) -> Result<Value>;
pub(crate) type Set = fn(&mut Run<'_>, Value) -> Result<()>;
pub(crate) type Reset = fn(&mut Run<'_>);

impl Definition {
    /// A variable with which nothing can be done in any state.
    const fn of(variable: Variable, name: &'static str, of: Type, versions: Versions) -> Self {
        let none = States::NONE;
        Self {
            variable,
            name,
            of,
            read: none,
            write: none,
            write_40: none,
            unset: none,
            versions,
            get: None,
            set: None,
            reset: None,
        }
    }
}

/// The messages whose header fields a policy works on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// `req`
    Req,
    /// `req_top`
    ReqTop,
    /// `bereq`
    Bereq,
    /// `beresp`
    Beresp,
    /// `obj`
    Obj,
    /// `resp`
    Resp,
}

impl Message {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Req, Self::ReqTop, Self::Bereq, Self::Beresp, Self::Obj, Self::Resp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Req => "req",
            Self::ReqTop => "req_top",
            Self::Bereq => "bereq",
            Self::Beresp => "beresp",
            Self::Obj => "obj",
            Self::Resp => "resp",
        }
    }

    /// States that can read its fields.
    pub fn read(self) -> States {
        match self {
            Self::Req | Self::ReqTop => table::C,
            Self::Bereq => table::BP,
            Self::Beresp => table::R,
            Self::Obj => table::HIT,
            Self::Resp => table::DS,
        }
    }

    /// States that can change its fields.
    pub fn write(self) -> States {
        match self {
            Self::ReqTop | Self::Obj => States::NONE,
            _ => self.read(),
        }
    }
}

impl Variable {
    /// What is known about it.
    pub fn definition(self) -> &'static Definition {
        &VARIABLES[self as usize]
    }
}

/// Names that later versions of Varnish have for variables, and those they have here. Varnish 9 keeps the old one for a
/// while yet.
const OTHER_NAMES: [(&str, &str); 1] = [("req.max_age", "req.ttl")];

/// The variable of this name.
pub fn find(name: &str) -> Option<&'static Definition> {
    let other = OTHER_NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let name = other.map_or(name, |(_, own)| *own);
    VARIABLES.iter().find(|definition| definition.name.eq_ignore_ascii_case(name))
}
