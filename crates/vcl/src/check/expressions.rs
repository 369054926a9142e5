//! Expressions: their types, and the conversions between types that the language allows.

use super::uses::Access;
use super::{Checker, Symbol};
use crate::diagnostic::nearest;
use crate::parser::JOIN;
use crate::program::{Arithmetic, BackendRef, Expr, StorageFact, Text, Value};
use crate::source::Span;
use crate::syntax::{Expression, ExpressionKind, Link, Name, Path};
use crate::types::{self, States, Type};
use crate::variables::{self, Message};

pub(super) type Typed = Option<(Expr, Type)>;

/// Bytes of a header field's name.
const HEADER_NAME_BYTES_MAX: usize = 127;

impl Checker<'_> {
    /// The value of an expression as a `wanted`.
    pub(super) fn expect(&mut self, value: &Expression, wanted: Type) -> Option<Expr> {
        let (compiled, of) = self.infer(value, Some(wanted))?;
        self.convert(compiled, of, wanted, value.span)
    }

    pub(super) fn convert(
        &mut self,
        value: Expr,
        of: Type,
        wanted: Type,
        span: Span,
    ) -> Option<Expr> {
        use Type as T;
        Some(match (of, wanted) {
            (of, wanted) if of == wanted => value,
            (T::String | T::Strands | T::Header, T::String | T::Strands) => match value {
                Expr::Constant(Value::Header(message, header)) => Expr::Field { message, header },
                value => value,
            },
            (
                T::Int
                | T::Real
                | T::Duration
                | T::Time
                | T::Bytes
                | T::Ip
                | T::Bool
                | T::Backend
                | T::Stevedore
                | T::Blob
                | T::Enum,
                T::String | T::Strands,
            ) => self.folded_text(value),
            (T::Header, T::Bool) => {
                let value = self.convert(value, of, T::String, span)?;
                Expr::Truth(Box::new(value))
            }
            (
                T::String | T::Strands | T::Backend | T::Int | T::Duration | T::Stevedore,
                T::Bool,
            ) => Expr::Truth(Box::new(value)),
            (T::Int, T::Real) => match value {
                Expr::Constant(Value::Int(number)) => Expr::Constant(Value::Real(number as f64)),
                value => Expr::Real(Box::new(value)),
            },
            (T::Blob, T::Body) => value,
            (of, T::Body) if of != T::Http => self.convert(value, of, T::String, span)?,
            (T::Http, T::String | T::Strands) => {
                self.error(span, "Cannot convert HTTP to STRING");
                return None;
            }
            (T::Void, _) => {
                self.error(
                    span,
                    format!("Function returns VOID\nExpression has type VOID, expected {wanted}"),
                );
                return None;
            }
            (of, wanted) => {
                let help = conversion_help(of, wanted);
                let of = if of == T::Header { T::String } else { of };
                let message = format!("Expression has type {of}, expected {wanted}");
                self.report.error(span, message).help = help;
                return None;
            }
        })
    }

    /// A value as text; constants at once.
    fn folded_text(&mut self, value: Expr) -> Expr {
        let Expr::Constant(constant) = &value else { return Expr::Text(Box::new(value)) };
        if let Value::Backend(_) | Value::Stevedore(_) | Value::Blob(_) = constant {
            return Expr::Text(Box::new(value));
        }
        let mut text = Vec::new();
        crate::runtime::write_value(*constant, &mut text);
        Expr::Constant(Value::Text(Text::Constant(self.intern(&text))))
    }

    /// Compiles an expression. `wanted` helps where a text or word can mean several things.
    pub(super) fn infer(&mut self, value: &Expression, wanted: Option<Type>) -> Typed {
        let span = value.span;
        match &value.kind {
            ExpressionKind::Int(number) => Some((Expr::Constant(Value::Int(*number)), Type::Int)),
            ExpressionKind::Real(number) => {
                Some((Expr::Constant(Value::Real(*number)), Type::Real))
            }
            ExpressionKind::Quantity { number, is_real, unit } => {
                self.quantity(*number, *is_real, unit, wanted, span)
            }
            ExpressionKind::Text(text) => self.text(text, wanted, span),
            ExpressionKind::Blob(bytes) => {
                let index = self.intern(bytes);
                Some((Expr::Constant(Value::Blob(Text::Constant(index))), Type::Blob))
            }
            ExpressionKind::Path(path) => self.path(path, wanted),
            ExpressionKind::Call { function, arguments } => self.call(function, arguments, span),
            ExpressionKind::Method { value, method } => self.method(value, method),
            ExpressionKind::Not(inner) => {
                let (compiled, of) = self.infer(inner, Some(Type::Bool))?;
                let compiled = self.truth(compiled, of, inner.span, "'!' must be followed by")?;
                Some((Expr::Not(Box::new(compiled)), Type::Bool))
            }
            ExpressionKind::Negative(inner) => self.negative(inner, wanted, span),
            ExpressionKind::Compared { operator, operator_span, left, right } => {
                self.comparison(operator, *operator_span, left, right)
            }
            ExpressionKind::Chain { first, rest } => self.chain(first, rest, wanted, span),
            ExpressionKind::Bracketed(inner) => self.infer(inner, wanted),
        }
    }

    fn quantity(
        &mut self,
        number: f64,
        is_real: bool,
        unit: &Name,
        wanted: Option<Type>,
        span: Span,
    ) -> Typed {
        if wanted == Some(Type::Bytes) && types::bytes_unit(&unit.text).is_none() {
            self.error(
                unit.span,
                format!(
                    "Unknown BYTES unit '{}'\nExpected BYTES unit (B, KB, MB...) got '{}'",
                    unit.text, unit.text
                ),
            );
            return None;
        }
        if let Some(seconds) = types::duration_unit(&unit.text) {
            return Some((Expr::Constant(Value::Duration(number * seconds)), Type::Duration));
        }
        if let Some(bytes) = types::bytes_unit(&unit.text) {
            // Sizes of the language are at most 999 TB, far below 2^53.
            let bytes = (number * bytes).round() as i64;
            return Some((Expr::Constant(Value::Bytes(bytes)), Type::Bytes));
        }
        let known = ["ms", "s", "m", "h", "d", "w", "y", "B", "KB", "MB", "GB", "TB"];
        let _ = is_real;
        let near = nearest(&unit.text, known.into_iter());
        let message = format!(
            "Unknown duration unit '{}'. Legal are 'ms', 's', 'm', 'h', 'd', 'w' and 'y'",
            unit.text
        );
        self.report.error(span, message).help = near.map(|near| format!("did you mean `{near}`?"));
        None
    }

    fn text(&mut self, text: &str, wanted: Option<Type>, span: Span) -> Typed {
        match wanted {
            Some(Type::Ip) => {
                // An address, or a name that has one when the policy is compiled.
                if text.starts_with('/') {
                    self.error(span, format!("Cannot convert to an IP address: '\"{text}\"'"));
                    return None;
                }
                let (host, port) = crate::modules::split_port(text);
                let port = port.map_or(Ok(80), str::parse::<u16>).ok();
                let found = port.and_then(|port| self.sources.resolve(host, port).ok());
                let Some(found) = found.and_then(|found| found.first().copied()) else {
                    self.error(
                        span,
                        format!("IP constant '\"{text}\"' could not be resolved to an IP address:"),
                    );
                    return None;
                };
                let value = Value::Ip(Some(found.ip()), port.unwrap_or(0));
                Some((Expr::Constant(value), Type::Ip))
            }
            Some(Type::Regex) => {
                let regex = self.regex(text, span)?;
                Some((Expr::Constant(Value::Regex(regex)), Type::Regex))
            }
            _ => {
                let index = self.intern(text.as_bytes());
                Some((Expr::Constant(Value::Text(Text::Constant(index))), Type::String))
            }
        }
    }

    fn negative(&mut self, inner: &Expression, wanted: Option<Type>, span: Span) -> Typed {
        let (value, of) = self.infer(inner, wanted)?;
        let value = match value {
            Expr::Constant(Value::Int(number)) => Value::Int(-number),
            Expr::Constant(Value::Real(number)) => Value::Real(-number),
            Expr::Constant(Value::Duration(number)) => Value::Duration(-number),
            Expr::Constant(Value::Bytes(number)) => Value::Bytes(-number),
            _ => {
                self.error(span, "Unknown token '-' when looking for a number");
                return None;
            }
        };
        Some((Expr::Constant(value), of))
    }

    /// The header field a path names; the outer `None` is a mistake that was reported.
    pub(super) fn field(&mut self, path: &Path) -> Option<Option<(Message, u32)>> {
        let [message, http, rest @ ..] = &path.names[..] else { return Some(None) };
        if &*http.text != "http" {
            return Some(None);
        }
        let Some(message) = Message::ALL.into_iter().find(|known| known.name() == &*message.text)
        else {
            return Some(None);
        };
        let [name] = rest else {
            self.error_with(
                path.span,
                format!("Symbol not found: '{}'", path.text()),
                "a field's name with a dot in it is quoted: req.http.\"a.b\"",
            );
            return None;
        };
        if name.text.len() > HEADER_NAME_BYTES_MAX {
            let start: String = name.text.chars().take(20).collect();
            self.error(name.span, format!("HTTP header ({start}..) is too long."));
            return None;
        }
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if let Some(bad) = name.text.chars().find(|c| !u8::try_from(*c).is_ok_and(is_token)) {
            let shown = bad.escape_default();
            self.error(name.span, format!("Invalid character '{shown}' in header name"));
            return None;
        }
        if name.text.is_empty() {
            self.error(name.span, "A header field without a name");
            return None;
        }
        Some(Some((message, self.header(&name.text))))
    }

    fn path(&mut self, path: &Path, wanted: Option<Type>) -> Typed {
        if let Some((message, header)) = self.field(path)? {
            self.used(&path.text(), Access::Read, message.read(), path.span);
            return Some((Expr::Constant(Value::Header(message, header)), Type::Header));
        }
        let name = path.text();
        match &*name {
            "true" | "True" => return Some((Expr::Constant(Value::Bool(true)), Type::Bool)),
            "false" | "False" => return Some((Expr::Constant(Value::Bool(false)), Type::Bool)),
            "default" if wanted == Some(Type::Backend) || !self.symbols.contains_key("default") => {
                let backend = self.program.default_backend;
                return Some((Expr::Constant(Value::Backend(backend)), Type::Backend));
            }
            "none" => {
                return Some((Expr::Constant(Value::Backend(BackendRef::None)), Type::Backend));
            }
            _ => {}
        }
        if let Some(definition) = variables::find(&name) {
            return self.variable(definition, path.span);
        }
        if let Some(found) = self.storage(path)? {
            return Some(found);
        }
        let Some(symbol) = self.symbol(&name) else {
            if wanted == Some(Type::Backend) && path.names.len() == 1 {
                let names = self.names_of(|symbol| matches!(symbol, Symbol::Backend(_)));
                self.not_found(&name, path.span, &names, "Undefined backend ");
            } else {
                self.unknown(path);
            }
            return None;
        };
        match symbol {
            Symbol::Backend(index) => {
                let backend = BackendRef::Backend(index);
                Some((Expr::Constant(Value::Backend(backend)), Type::Backend))
            }
            Symbol::Acl(index) => Some((Expr::Constant(Value::Acl(index)), Type::Acl)),
            other => {
                let kind = other.kind();
                let message = match other {
                    Symbol::Sub(_) => {
                        format!("Symbol '{name}' can only be used as a SUB expression")
                    }
                    _ => format!("Symbol '{name}' type ({kind}) cannot be used in expression."),
                };
                let help = matches!(other, Symbol::Object(_))
                    .then(|| format!("call a method of it, as `{name}.backend()`"));
                self.report.error(path.span, message).help = help;
                None
            }
        }
    }

    fn variable(&mut self, definition: &'static variables::Definition, span: Span) -> Typed {
        if !self.has_version(definition, span) {
            return None;
        }
        if definition.read == States::NONE {
            if definition.of == Type::Body {
                self.error(span, format!("Variable cannot be read.\nExpression has type BODY, expected BOOL: '{}' can only be written", definition.name));
            } else {
                self.error(span, format!("Variable cannot be read: '{}'", definition.name));
            }
            return None;
        }
        self.program.reads |= 1 << definition.variable as u32;
        self.used(definition.name, Access::Read, definition.read, span);
        Some((Expr::Variable(definition.variable), definition.of))
    }

    fn storage(&mut self, path: &Path) -> Option<Option<(Expr, Type)>> {
        let [storage, name, rest @ ..] = &path.names[..] else { return Some(None) };
        if &*storage.text != "storage" {
            return Some(None);
        }
        let known = self.settings.storages.iter().position(|known| **known == *name.text);
        let Some(index) = known else {
            let near = nearest(&name.text, self.settings.storages.iter().map(String::as_str));
            let help = near.map_or_else(
                || format!("there are {}", self.settings.storages.join(", ")),
                |near| format!("did you mean `storage.{near}`?"),
            );
            let message = format!("Symbol not found: 'storage.{}'", name.text);
            self.error_with(path.span, message, help);
            return None;
        };
        let storage = u32::try_from(index).ok()?;
        let rest: Vec<_> = rest.iter().map(|name| &*name.text).collect();
        Some(Some(match rest[..] {
            [] => (Expr::Constant(Value::Stevedore(Some(storage))), Type::Stevedore),
            ["free_space"] => {
                (Expr::Storage { storage, what: StorageFact::FreeSpace }, Type::Bytes)
            }
            ["used_space"] => {
                (Expr::Storage { storage, what: StorageFact::UsedSpace }, Type::Bytes)
            }
            ["happy"] => (Expr::Storage { storage, what: StorageFact::Happy }, Type::Bool),
            _ => {
                self.error(
                    path.span,
                    format!("Unknown property '{}' for type STEVEDORE", rest.join(".")),
                );
                return None;
            }
        }))
    }

    /// Reports a path that names nothing.
    pub(super) fn unknown(&mut self, path: &Path) {
        let name = path.text();
        let first = path.names.first().map_or("", |name| &*name.text).to_owned();
        if matches!(&*first, "acl" | "backend" | "probe" | "sub" | "vcl") && path.names.len() == 1 {
            let message = format!("Symbol '{first}' type (reserved) cannot be used in expression.");
            self.error(path.span, message);
            return;
        }
        let is_message = Message::ALL.iter().any(|message| message.name() == first);
        let mut message = format!("Symbol not found: '{name}'");
        if is_message && path.names.len() == 2 {
            message.push_str(&format!("\nUnknown property '{}' for type HTTP", path.names[1].text));
        }
        let module = !self.symbols.contains_key(&*first) && crate::modules::find(&first).is_some();
        let symbols = self.names_of(|_| true);
        let help = if module {
            Some(format!("write `import {first};` above"))
        } else {
            let known = variables::VARIABLES.iter().map(|definition| definition.name);
            let known = known.chain(symbols.iter().map(String::as_str));
            nearest(&name, known).map(|near| format!("did you mean `{near}`?"))
        };
        self.report.error(path.span, message).help = help;
    }

    /// `.upper()`, `.lower()`, `.resolve()` and a storage's properties.
    pub(super) fn method(&mut self, value: &Expression, method: &Name) -> Typed {
        let (compiled, of) = self.infer(value, None)?;
        match (of, &*method.text) {
            (Type::String | Type::Strands | Type::Header, "upper" | "lower") => {
                let text = self.convert(compiled, of, Type::String, value.span)?;
                let text = Box::new(text);
                let folded =
                    if &*method.text == "upper" { Expr::Upper(text) } else { Expr::Lower(text) };
                Some((folded, Type::String))
            }
            (Type::Backend, "resolve") => Some((Expr::Resolve(Box::new(compiled)), Type::Backend)),
            _ => {
                self.error(
                    method.span,
                    format!("Unknown property '{}' for type {of}", method.text),
                );
                None
            }
        }
    }

    fn truth(&mut self, value: Expr, of: Type, span: Span, what: &str) -> Option<Expr> {
        use Type as T;
        match of {
            T::Bool => Some(value),
            T::String
            | T::Strands
            | T::Header
            | T::Backend
            | T::Int
            | T::Duration
            | T::Stevedore => self.convert(value, of, T::Bool, span),
            _ => {
                self.error(span, format!("{what} BOOL, found {of}."));
                None
            }
        }
    }

    fn chain(
        &mut self,
        first: &Expression,
        rest: &[Link],
        wanted: Option<Type>,
        span: Span,
    ) -> Typed {
        let is_number = matches!(first.kind, ExpressionKind::Int(_) | ExpressionKind::Real(_));
        if let (Some(Type::Bytes), true, Some(Link { operator: JOIN, operand, .. })) =
            (wanted, is_number, rest.first())
        {
            let what = self.report.sources.text(operand.span);
            let message = format!("Expected BYTES unit (B, KB, MB...) got '{what}'");
            self.error(operand.span, message);
            return None;
        }
        match rest.first().map_or(JOIN, |link| link.operator) {
            operator @ ("||" | "&&") => {
                let mut parts = Vec::with_capacity(rest.len() + 1);
                let mut complete = true;
                let values = std::iter::once(first).chain(rest.iter().map(|link| &link.operand));
                for (index, value) in values.enumerate() {
                    let place = if index == 0 { "preceded" } else { "followed" };
                    let what = format!("'{operator}' must be {place} by");
                    let part = self
                        .infer(value, Some(Type::Bool))
                        .and_then(|(value_of, of)| self.truth(value_of, of, value.span, &what));
                    match part {
                        Some(part) => parts.push(part),
                        None => complete = false,
                    }
                }
                let parts = parts.into();
                let compiled = if operator == "||" { Expr::Any(parts) } else { Expr::All(parts) };
                complete.then_some((compiled, Type::Bool))
            }
            "*" | "/" | "%" => self.product(first, rest),
            _ => self.sum(first, rest, wanted, span),
        }
    }

    fn product(&mut self, first: &Expression, rest: &[Link]) -> Typed {
        let (mut left, mut of) = self.infer(first, None)?;
        for link in rest {
            let (right, right_of) = self.infer(&link.operand, None)?;
            let operator = match link.operator {
                "*" => Arithmetic::Multiply,
                "/" => Arithmetic::Divide,
                _ => Arithmetic::Remainder,
            };
            use Type as T;
            let result = match (of, right_of) {
                _ if operator == Arithmetic::Remainder && (of, right_of) != (T::Int, T::Int) => {
                    self.error(link.operator_span, "Operator % only possible on INT");
                    return None;
                }
                (T::Int, T::Int) => T::Int,
                (T::Int | T::Real, T::Int | T::Real) => T::Real,
                (T::Bytes | T::Duration, T::Int | T::Real) => of,
                (T::Bytes | T::Duration | T::Int | T::Real, _) => {
                    let message = format!("{of} {} {right_of} not possible.", link.operator);
                    self.error(link.operator_span, message);
                    return None;
                }
                _ => {
                    let of = if of == T::Header { T::String } else { of };
                    let message = format!("Operator {} not possible on type {of}.", link.operator);
                    self.error(link.operator_span, message);
                    return None;
                }
            };
            left = self.arithmetic(operator, left, of, right, right_of, result, link)?;
            of = result;
        }
        Some((left, of))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one operation")]
    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        mut left: Expr,
        of: Type,
        mut right: Expr,
        right_of: Type,
        result: Type,
        link: &Link,
    ) -> Option<Expr> {
        if result != Type::Int && of == Type::Int {
            left = self.convert(left, of, Type::Real, link.operator_span)?;
        }
        if result != Type::Int && right_of == Type::Int {
            right = self.convert(right, right_of, Type::Real, link.operator_span)?;
        }
        let by_zero = matches!(operator, Arithmetic::Divide | Arithmetic::Remainder)
            && matches!(right, Expr::Constant(Value::Int(0)) | Expr::Constant(Value::Real(0.0)));
        if by_zero {
            self.error(link.operand.span, "Division by zero");
            return None;
        }
        if let (Expr::Constant(a), Expr::Constant(b)) = (&left, &right)
            && let Some(value) = crate::runtime::arithmetic(operator, *a, *b)
        {
            return Some(Expr::Constant(value));
        }
        Some(Expr::Arithmetic { operator, operands: Box::new([left, right]) })
    }

    fn sum(
        &mut self,
        first: &Expression,
        rest: &[Link],
        wanted: Option<Type>,
        span: Span,
    ) -> Typed {
        let wanted = wanted.filter(|wanted| !matches!(wanted, Type::Ip | Type::Backend));
        // Literals side by side are one literal, also as a pattern.
        if let Some(text) = joined_text(first, rest) {
            return self.text(&text, wanted, span);
        }
        if wanted == Some(Type::Regex) {
            let message = "Expression has type STRING, expected REGEX";
            self.error_with(span, message, "a pattern is a string literal");
            return None;
        }
        let (mut left, mut of) = self.infer(first, None)?;
        // Parts of a text that is being joined; empty while numbers are added.
        let mut parts: Vec<Expr> = Vec::new();
        for link in rest {
            let (right, right_of) = self.infer(&link.operand, None)?;
            use Type as T;
            let texts = |of| matches!(of, T::String | T::Strands | T::Header);
            let joins = link.operator == JOIN || link.operator == "+";
            if joins && (!parts.is_empty() || texts(of) || link.operator == JOIN)
                || (joins && texts(right_of) && wanted == Some(T::String))
            {
                if parts.is_empty() {
                    parts.push(self.convert(left, of, T::String, first.span)?);
                    left = Expr::Constant(Value::None);
                    of = T::String;
                }
                let part = self.convert(right, right_of, T::String, link.operand.span)?;
                parts.push(part);
                continue;
            }
            let result = match (of, right_of) {
                (T::Bytes, T::Bytes) | (T::Duration, T::Duration) | (T::Int, T::Int) => of,
                (T::Int | T::Real, T::Int | T::Real) => T::Real,
                (T::Time, T::Time) if link.operator == "-" => T::Duration,
                (T::Time, T::Duration) => T::Time,
                _ => {
                    self.impossible(of, link, right_of);
                    return None;
                }
            };
            let operator =
                if link.operator == "+" { Arithmetic::Add } else { Arithmetic::Subtract };
            left = self.arithmetic(operator, left, of, right, right_of, result, link)?;
            of = result;
        }
        if parts.is_empty() {
            return Some((left, of));
        }
        let parts = self.merged(parts);
        Some((Expr::Concat(parts.into()), Type::String))
    }

    fn impossible(&mut self, of: Type, link: &Link, right_of: Type) {
        let name = |of| if of == Type::Header { Type::String } else { of };
        let operator = if link.operator == JOIN { "+" } else { link.operator };
        let message = format!("{} {operator} {} not possible.", name(of), name(right_of));
        self.error(link.operator_span, message);
    }

    /// Constants side by side as one.
    fn merged(&mut self, parts: Vec<Expr>) -> Vec<Expr> {
        let mut out: Vec<Expr> = Vec::with_capacity(parts.len());
        for part in parts {
            if let (
                Some(Expr::Constant(Value::Text(Text::Constant(a)))),
                Expr::Constant(Value::Text(Text::Constant(b))),
            ) = (out.last(), &part)
            {
                let joined =
                    [&*self.program.texts[*a as usize], &*self.program.texts[*b as usize]].concat();
                let index = self.intern(&joined);
                out.pop();
                out.push(Expr::Constant(Value::Text(Text::Constant(index))));
            } else {
                out.push(part);
            }
        }
        out
    }
}

/// The text of literals side by side.
pub(super) fn joined_text(first: &Expression, rest: &[Link]) -> Option<String> {
    let ExpressionKind::Text(text) = &first.kind else { return None };
    let mut out = text.to_string();
    for link in rest {
        match (&link.operand.kind, link.operator) {
            (ExpressionKind::Text(text), "+" | JOIN) => out.push_str(text),
            _ => return None,
        }
    }
    Some(out)
}

/// How to come from one type to another.
pub(super) fn conversion_help(of: Type, wanted: Type) -> Option<String> {
    use Type as T;
    Some(
        match (of, wanted) {
            (T::Int | T::Real, T::Duration) => "write a unit behind it: 10s, 5m, 2h",
            (T::Int | T::Real, T::Bytes) => "write a unit behind it: 10KB, 5MB",
            (T::String | T::Header, T::Int) => "convert it with std.integer(text, 0)",
            (T::String | T::Header, T::Real) => "convert it with std.real(text, 0.0)",
            (T::String | T::Header, T::Duration) => "convert it with std.duration(text, 0s)",
            (T::String | T::Header, T::Time) => "convert it with std.time(text, now)",
            (T::String | T::Header, T::Ip) => "convert it with std.ip(text, \"0.0.0.0\")",
            (T::String | T::Header, T::Bytes) => "convert it with std.bytes(text, 0B)",
            (T::Duration, T::Int) => "convert it with std.integer(duration = …)",
            (T::Real, T::Int) => "convert it with std.integer(real = …)",
            (T::String | T::Header, T::Blob) => "convert it with blob.decode(encoded = …)",
            _ => return None,
        }
        .into(),
    )
}
