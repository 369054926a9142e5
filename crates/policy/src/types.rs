//! Types, units and states.

use std::fmt;

/// A type of the language.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Type {
    /// Access list.
    Acl,
    /// Backend or director.
    Backend,
    /// Bytes.
    Blob,
    /// A body that may be set.
    Body,
    /// True or false.
    Bool,
    /// A size.
    Bytes,
    /// Seconds.
    Duration,
    /// One of a function's own words.
    Enum,
    /// A header field.
    Header,
    /// All header fields of a message.
    Http,
    /// Whole number.
    Int,
    /// IP address.
    Ip,
    /// Health check.
    Probe,
    /// Number with decimals.
    Real,
    /// Regular expression.
    Regex,
    /// Storage.
    Stevedore,
    /// Text.
    String,
    /// Texts joined by the one who takes them.
    Strands,
    /// Subroutine.
    Sub,
    /// Point in time.
    Time,
    /// Nothing.
    Void,
}

impl Type {
    /// The type of this name in a function's signature.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ACL" => Self::Acl,
            "BACKEND" => Self::Backend,
            "BLOB" => Self::Blob,
            "BODY" => Self::Body,
            "BOOL" => Self::Bool,
            "BYTES" => Self::Bytes,
            "DURATION" => Self::Duration,
            "ENUM" => Self::Enum,
            "HEADER" => Self::Header,
            "HTTP" => Self::Http,
            "INT" => Self::Int,
            "IP" => Self::Ip,
            "PROBE" => Self::Probe,
            "REAL" => Self::Real,
            "REGEX" => Self::Regex,
            "STEVEDORE" => Self::Stevedore,
            "STRING" => Self::String,
            "STRANDS" => Self::Strands,
            "SUB" => Self::Sub,
            "TIME" => Self::Time,
            "VOID" => Self::Void,
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Acl => "ACL",
            Self::Backend => "BACKEND",
            Self::Blob => "BLOB",
            Self::Body => "BODY",
            Self::Bool => "BOOL",
            Self::Bytes => "BYTES",
            Self::Duration => "DURATION",
            Self::Enum => "ENUM",
            Self::Header => "HEADER",
            Self::Http => "HTTP",
            Self::Int => "INT",
            Self::Ip => "IP",
            Self::Probe => "PROBE",
            Self::Real => "REAL",
            Self::Regex => "REGEX",
            Self::Stevedore => "STEVEDORE",
            Self::String => "STRING",
            Self::Strands => "STRANDS",
            Self::Sub => "SUB",
            Self::Time => "TIME",
            Self::Void => "VOID",
        })
    }
}

/// Seconds in a unit of duration: `ms`, `s`, `m`, `h`, `d`, `w` or `y`.
pub fn duration_unit(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        "y" => 31_536_000.0,
        _ => return None,
    })
}

/// Bytes in a unit of size.
pub fn bytes_unit(unit: &str) -> Option<f64> {
    let power = match unit.to_ascii_uppercase().as_str() {
        "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return None,
    };
    Some((1_u64 << power) as f64)
}

/// A state of a request or of a fetch: one of the subroutines whose names begin with `vcl_`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// `vcl_recv`
    Recv,
    /// `vcl_hash`
    Hash,
    /// `vcl_pipe`
    Pipe,
    /// `vcl_pass`
    Pass,
    /// `vcl_purge`
    Purge,
    /// `vcl_hit`
    Hit,
    /// `vcl_miss`
    Miss,
    /// `vcl_deliver`
    Deliver,
    /// `vcl_synth`
    Synth,
    /// `vcl_backend_fetch`
    BackendFetch,
    /// `vcl_backend_response`
    BackendResponse,
    /// `vcl_backend_error`
    BackendError,
    /// `vcl_init`
    Init,
    /// `vcl_fini`
    Fini,
}

use Action as A;

impl State {
    /// All of them, in the order a request meets them.
    pub const ALL: [Self; 14] = [
        Self::Recv,
        Self::Hash,
        Self::Pipe,
        Self::Pass,
        Self::Purge,
        Self::Hit,
        Self::Miss,
        Self::Deliver,
        Self::Synth,
        Self::BackendFetch,
        Self::BackendResponse,
        Self::BackendError,
        Self::Init,
        Self::Fini,
    ];

    /// The subroutine's name.
    pub fn subroutine(self) -> &'static str {
        match self {
            Self::Recv => "vcl_recv",
            Self::Hash => "vcl_hash",
            Self::Pipe => "vcl_pipe",
            Self::Pass => "vcl_pass",
            Self::Purge => "vcl_purge",
            Self::Hit => "vcl_hit",
            Self::Miss => "vcl_miss",
            Self::Deliver => "vcl_deliver",
            Self::Synth => "vcl_synth",
            Self::BackendFetch => "vcl_backend_fetch",
            Self::BackendResponse => "vcl_backend_response",
            Self::BackendError => "vcl_backend_error",
            Self::Init => "vcl_init",
            Self::Fini => "vcl_fini",
        }
    }

    /// The name in the log's `VCL_call` records.
    pub fn call_name(self) -> &'static str {
        match self {
            Self::Recv => "RECV",
            Self::Hash => "HASH",
            Self::Pipe => "PIPE",
            Self::Pass => "PASS",
            Self::Purge => "PURGE",
            Self::Hit => "HIT",
            Self::Miss => "MISS",
            Self::Deliver => "DELIVER",
            Self::Synth => "SYNTH",
            Self::BackendFetch => "BACKEND_FETCH",
            Self::BackendResponse => "BACKEND_RESPONSE",
            Self::BackendError => "BACKEND_ERROR",
            Self::Init => "INIT",
            Self::Fini => "FINI",
        }
    }

    /// What may be returned from it.
    pub fn actions(self) -> &'static [Action] {
        match self {
            Self::Recv => {
                &[A::Fail, A::Synth, A::Restart, A::Pass, A::Pipe, A::Hash, A::Purge, A::Vcl]
            }
            Self::Hash => &[A::Fail, A::Lookup],
            Self::Pipe => &[A::Fail, A::Synth, A::Pipe],
            Self::Pass => &[A::Fail, A::Synth, A::Restart, A::Fetch],
            Self::Purge => &[A::Fail, A::Synth, A::Restart],
            Self::Hit => &[A::Fail, A::Synth, A::Restart, A::Pass, A::Deliver],
            Self::Miss => &[A::Fail, A::Synth, A::Restart, A::Pass, A::Fetch],
            Self::Deliver => &[A::Fail, A::Synth, A::Restart, A::Deliver],
            Self::Synth => &[A::Fail, A::Restart, A::Deliver],
            Self::BackendFetch => &[A::Fail, A::Abandon, A::Fetch, A::Error],
            Self::BackendResponse => {
                &[A::Fail, A::Abandon, A::Deliver, A::Retry, A::Pass, A::Error]
            }
            Self::BackendError => &[A::Fail, A::Abandon, A::Deliver, A::Retry],
            Self::Init => &[A::Ok, A::Fail],
            Self::Fini => &[A::Ok],
        }
    }

    /// The state of this subroutine.
    pub fn of_subroutine(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.subroutine().eq_ignore_ascii_case(name))
    }

    /// Whether it is on the client's side of a request.
    pub fn is_client(self) -> bool {
        States::CLIENT.has(self)
    }

    /// Whether it is on a fetch's side.
    pub fn is_backend(self) -> bool {
        States::BACKEND.has(self)
    }
}

/// A set of states.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct States(pub u16);

impl States {
    /// None.
    pub const NONE: Self = Self(0);
    /// `vcl_recv` to `vcl_synth`.
    pub const CLIENT: Self = Self(0x1ff);
    /// `vcl_backend_…`.
    pub const BACKEND: Self = Self(0xe00);
    /// `vcl_init` and `vcl_fini`.
    pub const HOUSEKEEPING: Self = Self(0x3000);
    /// All.
    pub const ALL: Self = Self(0x3fff);

    /// A set of these.
    pub const fn of(states: &[State]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < states.len() {
            bits |= 1 << states[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any state is in both.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether `state` is in it.
    pub fn has(self, state: State) -> bool {
        self.0 & (1 << state as u16) != 0
    }
}

/// What a state can return.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// `abandon`
    Abandon,
    /// `deliver`
    Deliver,
    /// `error`
    Error,
    /// `fail`
    Fail,
    /// `fetch`
    Fetch,
    /// `hash`
    Hash,
    /// `lookup`
    Lookup,
    /// `ok`
    Ok,
    /// `pass`
    Pass,
    /// `pipe`
    Pipe,
    /// `purge`
    Purge,
    /// `restart`
    Restart,
    /// `retry`
    Retry,
    /// `synth`
    Synth,
    /// `vcl`
    Vcl,
}

impl Action {
    /// All, by name.
    pub const ALL: [Self; 15] = [
        Self::Abandon,
        Self::Deliver,
        Self::Error,
        Self::Fail,
        Self::Fetch,
        Self::Hash,
        Self::Lookup,
        Self::Ok,
        Self::Pass,
        Self::Pipe,
        Self::Purge,
        Self::Restart,
        Self::Retry,
        Self::Synth,
        Self::Vcl,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abandon => "abandon",
            Self::Deliver => "deliver",
            Self::Error => "error",
            Self::Fail => "fail",
            Self::Fetch => "fetch",
            Self::Hash => "hash",
            Self::Lookup => "lookup",
            Self::Ok => "ok",
            Self::Pass => "pass",
            Self::Pipe => "pipe",
            Self::Purge => "purge",
            Self::Restart => "restart",
            Self::Retry => "retry",
            Self::Synth => "synth",
            Self::Vcl => "vcl",
        }
    }
}
