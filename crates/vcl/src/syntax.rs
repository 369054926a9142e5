//! A policy as it is written: the tree the parser makes and the checker reads.

use freshet_policy::source::Span;

/// A name and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: Box<str>,
    pub(crate) span: Span,
}

/// Names with dots between them, as `req.http.Host`. The last may be quoted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) names: Vec<Name>,
    pub(crate) quoted: bool,
    pub(crate) span: Span,
}

impl Path {
    /// What it is found by: names are the same in small and in large letters.
    pub(crate) fn key(&self) -> String {
        self.text().to_ascii_lowercase()
    }

    pub(crate) fn text(&self) -> String {
        self.names.iter().map(|name| &*name.text).collect::<Vec<_>>().join(".")
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Declaration {
    Import { module: Name, alias: Option<Name>, from: Option<Name> },
    Acl(Acl),
    Backend(Backend),
    Probe(Probe),
    Sub { name: Name, body: Vec<Statement> },
}

#[derive(Clone, Debug)]
pub(crate) struct Acl {
    pub(crate) name: Name,
    /// Flags with whether they are set: `+log`, `-pedantic`.
    pub(crate) flags: Vec<(Name, bool)>,
    pub(crate) entries: Vec<AclEntry>,
}

#[derive(Clone, Debug)]
pub(crate) struct AclEntry {
    pub(crate) negated: bool,
    /// In brackets: ignored where the name has no address.
    pub(crate) optional: bool,
    pub(crate) address: Name,
    pub(crate) mask: Option<(i64, Span)>,
    pub(crate) span: Span,
}

/// A backend's or probe's field with its value.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Name,
    pub(crate) value: FieldValue,
}

#[derive(Clone, Debug)]
pub(crate) enum FieldValue {
    Expression(Expression),
    /// Several strings, as `.request` has.
    Texts(Vec<Name>),
    Probe(Box<Probe>),
}

#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) name: Name,
    /// `backend x none;` has none.
    pub(crate) fields: Option<Fields>,
}

/// What stands between the brackets of a backend or probe.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) fields: Vec<Field>,
    /// The bracket behind them.
    pub(crate) end: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) name: Name,
    pub(crate) fields: Fields,
}

#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum StatementKind {
    Block(Vec<Statement>),
    If {
        arms: Vec<(Expression, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
    },
    Set {
        target: Path,
        operator: &'static str,
        operator_span: Span,
        value: Expression,
    },
    Unset(Path),
    Call(Path),
    /// `return;`
    Leave,
    Return {
        action: Name,
        arguments: Option<Vec<Argument>>,
    },
    New {
        name: Name,
        constructor: Path,
        arguments: Vec<Argument>,
    },
    /// A function called for what it does.
    Perform(Expression),
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: Option<Name>,
    pub(crate) value: Expression,
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum ExpressionKind {
    Int(i64),
    Real(f64),
    /// A number with the word behind it: `10s`, `1.5KB`.
    Quantity {
        number: f64,
        unit: Name,
    },
    Text(Box<str>),
    Blob(Box<[u8]>),
    Path(Path),
    Call {
        function: Path,
        arguments: Vec<Argument>,
    },
    /// `value.upper()`
    Method {
        value: Box<Expression>,
        method: Name,
    },
    Not(Box<Expression>),
    Negative(Box<Expression>),
    /// A comparison.
    Compared {
        operator: &'static str,
        operator_span: Span,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    /// Operands with operators of one level between them, from left to right.
    Chain {
        first: Box<Expression>,
        rest: Vec<Link>,
    },
    /// In brackets, which keep a sum or comparison apart from its neighbours.
    Bracketed(Box<Expression>),
    /// What could not be read to its end, and what of it was. It was reported.
    Broken(Option<Box<Expression>>),
}

/// An operator of a chain with the operand behind it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) operator: &'static str,
    pub(crate) operator_span: Span,
    pub(crate) operand: Expression,
}
