//! Expressions: their types, and the conversions between types that the language allows.
//!
//! What is written can mean several things, a number for example: what is wanted at its place
//! decides, and is handed down from operator to operand. Texts are wanted where anything is that
//! has no other type.

use super::Checker;
use crate::diagnostic::nearest;
use crate::syntax::{Expression, ExpressionKind, Link, Name};
use freshet_policy::program::{Arithmetic, Expr, Text, Value};
use freshet_policy::source::Span;
use freshet_policy::types::{self, Type};

pub(super) type Typed = Option<(Expr, Type)>;

impl Checker<'_> {
    /// The value of an expression as a `wanted`.
    pub(super) fn expect(&mut self, value: &Expression, wanted: Type) -> Option<Expr> {
        let asked = if wanted == Type::Strands { Type::String } else { wanted };
        let (compiled, of) = self.infer(value, asked)?;
        self.convert(compiled, of, asked, value.span)
    }

    /// The conversions that need no function.
    fn convert(&mut self, value: Expr, of: Type, wanted: Type, span: Span) -> Option<Expr> {
        use Type as T;
        match (of, wanted) {
            (of, wanted) if of == wanted => return Some(value),
            (_, T::String) => return self.as_text(value, of, span),
            (T::Blob, T::Body) => return Some(value),
            (_, T::Body) => return self.as_text(value, of, span),
            (of, T::Bool) => {
                let (value, of) = as_truth(value, of);
                if of == T::Bool {
                    return Some(value);
                }
            }
            _ => {}
        }
        let help = conversion_help(of, wanted);
        let message = format!("Expression has type {of}, expected {wanted}");
        self.report.error(span, message).help = help;
        None
    }

    /// A value as text; constants at once.
    fn as_text(&mut self, value: Expr, of: Type, span: Span) -> Option<Expr> {
        use Type as T;
        match of {
            T::String => return Some(value),
            T::Http | T::Probe | T::Regex | T::Sub | T::Body | T::Void => {
                self.error(span, format!("Cannot convert {of} to STRING."));
                return None;
            }
            _ => {}
        }
        let Expr::Constant(constant) = &value else { return Some(Expr::Text(Box::new(value))) };
        let is_known_later =
            matches!(constant, Value::Backend(_) | Value::Stevedore(_) | Value::Blob(_));
        // One that is too large fails where it is used.
        if is_known_later || freshet_policy::runtime::unwritable(*constant).is_some() {
            return Some(Expr::Text(Box::new(value)));
        }
        let mut text = Vec::new();
        match constant {
            Value::Acl(index) => {
                let acl = self.program.acls.get(*index as usize)?;
                text.extend_from_slice(acl.name.as_bytes());
            }
            other => freshet_policy::runtime::write_value(*other, &mut text),
        }
        Some(Expr::Constant(Value::Text(Text::Constant(self.intern(&text)))))
    }

    /// Compiles an expression where a `wanted` is.
    pub(super) fn infer(&mut self, value: &Expression, wanted: Type) -> Typed {
        let span = value.span;
        match &value.kind {
            ExpressionKind::Int(_) | ExpressionKind::Real(_) if wanted == Type::Bytes => {
                let next = self.behind(span);
                let message = format!("Expected BYTES unit (B, KB, MB...) got '{next}'");
                self.error(span, message);
                None
            }
            ExpressionKind::Int(number) if wanted == Type::Real => {
                Some((Expr::Constant(Value::Real(*number as f64)), Type::Real))
            }
            ExpressionKind::Int(number) => Some((Expr::Constant(Value::Int(*number)), Type::Int)),
            ExpressionKind::Real(number) => {
                Some((Expr::Constant(Value::Real(*number)), Type::Real))
            }
            ExpressionKind::Quantity { number, unit } => self.quantity(*number, unit, wanted),
            ExpressionKind::Text(text) => self.text(text, wanted, span),
            ExpressionKind::Blob(bytes) => {
                let index = self.intern(bytes);
                Some((Expr::Constant(Value::Blob(Text::Constant(index))), Type::Blob))
            }
            ExpressionKind::Path(path) => self.path(path, wanted),
            ExpressionKind::Call { function, arguments } => {
                self.call(function, arguments, wanted, span)
            }
            ExpressionKind::Method { value, method } => {
                let found = self.infer(value, wanted)?;
                self.method(found, method)
            }
            ExpressionKind::Not(inner) => {
                let (compiled, of) = self.infer(inner, wanted)?;
                let (compiled, of) = as_truth(compiled, of);
                if of != Type::Bool {
                    self.error(span, format!("'!' must be followed by BOOL, found {of}."));
                    return None;
                }
                Some((Expr::Not(Box::new(compiled)), Type::Bool))
            }
            ExpressionKind::Negative(inner) => self.negative(inner, wanted, span),
            ExpressionKind::Compared { operator, operator_span, left, right } => {
                self.comparison(operator, *operator_span, left, right, wanted)
            }
            ExpressionKind::Chain { first, rest } => {
                match rest.first().map_or("", |link| link.operator) {
                    "||" | "&&" => self.condition(first, rest, wanted),
                    "*" | "/" | "%" => self.product(first, rest, wanted),
                    _ => self.sum(first, rest, wanted, span),
                }
            }
            ExpressionKind::Bracketed(inner) => self.infer(inner, wanted),
            ExpressionKind::Broken(inner) => {
                // What was read of it may have mistakes that come before that.
                let _ = inner.as_ref().and_then(|inner| self.infer(inner, wanted));
                None
            }
        }
    }

    /// The first token behind a place, for messages.
    fn behind(&self, span: Span) -> String {
        self.first_token(Span { start: span.end, ..span })
    }

    /// The token a place begins with, for messages.
    pub(super) fn first_token(&self, span: Span) -> String {
        let text = self.report.sources.file(span).map_or("", |file| &file.text);
        let rest = text.get(span.start as usize..).unwrap_or("").trim_start();
        if let Some(inner) = rest.strip_prefix('"') {
            return rest[..inner.find('"').map_or(rest.len(), |end| end + 2)].to_owned();
        }
        let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
        let is_part = |c: char| match is_number {
            true => c.is_ascii_digit() || c == '.',
            false => c.is_alphanumeric() || matches!(c, '_' | '-'),
        };
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let is_word = rest.starts_with(|c: char| c.is_alphanumeric());
        let end = || rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = if is_word { end() } else { first };
        rest.get(..word.max(first)).unwrap_or("").to_owned()
    }

    fn quantity(&mut self, number: f64, unit: &Name, wanted: Type) -> Typed {
        if wanted == Type::Bytes {
            let Some(bytes) = types::bytes_unit(&unit.text) else {
                let unit_text = &unit.text;
                self.error(
                    unit.span,
                    format!(
                        "Unknown BYTES unit of measurement ([KMGTP][B])'{unit_text}'\nUnknown \
                         BYTES unit '{unit_text}'"
                    ),
                );
                return None;
            };
            // Sizes of the language are at most 999 TB, far below 2^53.
            let bytes = (number * bytes).round() as i64;
            return Some((Expr::Constant(Value::Bytes(bytes)), Type::Bytes));
        }
        if let Some(seconds) = types::duration_unit(&unit.text) {
            return Some((Expr::Constant(Value::Duration(number * seconds)), Type::Duration));
        }
        let known = ["ms", "s", "m", "h", "d", "w", "y"];
        let near = nearest(&unit.text, known.into_iter());
        let message = format!(
            "Unknown duration unit '{}'\nLegal duration units are 'ms', 's', 'm', 'h', 'd', 'w' \
             and 'y'",
            unit.text
        );
        let help = match types::bytes_unit(&unit.text) {
            Some(_) => Some(format!("sizes can only stand where BYTES are wanted, not {wanted}")),
            None => near.map(|near| format!("did you mean `{near}`?")),
        };
        self.report.error(unit.span, message).help = help;
        None
    }

    fn text(&mut self, text: &str, wanted: Type, span: Span) -> Typed {
        match wanted {
            Type::Ip => {
                // An address, or a name that has one when the policy is compiled.
                if text.starts_with('/') {
                    self.error(span, format!("Cannot convert to an IP address: '\"{text}\"'"));
                    return None;
                }
                let (host, port) = freshet_policy::modules::split_port(text);
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
            Type::Regex => {
                let regex = self.regex(text, span)?;
                Some((Expr::Constant(Value::Regex(regex)), Type::Regex))
            }
            _ => {
                let index = self.intern(text.as_bytes());
                Some((Expr::Constant(Value::Text(Text::Constant(index))), Type::String))
            }
        }
    }

    fn negative(&mut self, inner: &Expression, wanted: Type, span: Span) -> Typed {
        use Type as T;
        if !matches!(wanted, T::Int | T::Real | T::Duration | T::String) {
            let at = Span { end: span.start + 1, ..span };
            self.error(at, format!("Unknown token '-' when looking for {wanted}"));
            return None;
        }
        let (value, of) = self.infer(inner, wanted)?;
        let negated = match value {
            Expr::Constant(Value::Int(number)) => Expr::Constant(Value::Int(-number)),
            Expr::Constant(Value::Real(number)) => Expr::Constant(Value::Real(-number)),
            Expr::Constant(Value::Duration(number)) => Expr::Constant(Value::Duration(-number)),
            value => {
                let zero = match of {
                    T::Int => Value::Int(0),
                    T::Real => Value::Real(0.0),
                    T::Duration => Value::Duration(0.0),
                    _ => {
                        self.error(span, format!("Operator - not possible on {of}"));
                        return None;
                    }
                };
                let operands = Box::new([Expr::Constant(zero), value]);
                Expr::Arithmetic { operator: Arithmetic::Subtract, operands }
            }
        };
        Some((negated, of))
    }

    /// `.upper()`, `.lower()` and `.resolve()` of a value.
    pub(super) fn method(&mut self, (value, of): (Expr, Type), method: &Name) -> Typed {
        match (of, &*method.text.to_ascii_lowercase()) {
            (Type::String, "upper") => Some((Expr::Upper(Box::new(value)), Type::String)),
            (Type::String, "lower") => Some((Expr::Lower(Box::new(value)), Type::String)),
            (Type::Backend, "resolve") => Some((Expr::Resolve(Box::new(value)), Type::Backend)),
            _ => {
                self.no_property(method, of);
                None
            }
        }
    }

    pub(super) fn no_property(&mut self, property: &Name, of: Type) {
        // Texts are put together of several, in the words of Varnish.
        let of = if of == Type::String { "STRINGS".to_owned() } else { of.to_string() };
        let message = format!("Unknown property '{}' for type {of}", property.text);
        self.error(property.span, message);
    }

    fn condition(&mut self, first: &Expression, rest: &[Link], wanted: Type) -> Typed {
        let operator = rest.first().map_or("", |link| link.operator);
        let mut parts = Vec::with_capacity(rest.len() + 1);
        let mut complete = true;
        let values = std::iter::once(first).chain(rest.iter().map(|link| &link.operand));
        for (index, value) in values.enumerate() {
            let Some((part, of)) = self.infer(value, wanted) else {
                complete = false;
                continue;
            };
            let (part, of) = as_truth(part, of);
            if of != Type::Bool {
                // Varnish's compiler spells it so, and tools look for it.
                let place = if index == 0 { "preceeded" } else { "followed" };
                let message = format!("'{operator}' must be {place} by BOOL, found {of}.");
                self.error(value.span, message);
                complete = false;
            }
            parts.push(part);
        }
        let parts = parts.into();
        let compiled = if operator == "||" { Expr::Any(parts) } else { Expr::All(parts) };
        complete.then_some((compiled, Type::Bool))
    }

    fn product(&mut self, first: &Expression, rest: &[Link], wanted: Type) -> Typed {
        use Type as T;
        let (mut left, of) = self.infer(first, wanted)?;
        for link in rest {
            let operator = match link.operator {
                "*" => Arithmetic::Multiply,
                "/" => Arithmetic::Divide,
                _ => Arithmetic::Remainder,
            };
            if operator == Arithmetic::Remainder && of != T::Int {
                self.error(link.operator_span, "Operator % only possible on INT.");
                return None;
            }
            let by = match of {
                T::Int => T::Int,
                T::Real | T::Duration | T::Bytes => T::Real,
                _ => {
                    let message = format!("Operator {} not possible on type {of}.", link.operator);
                    self.error(link.operator_span, message);
                    return None;
                }
            };
            let (right, right_of) = self.infer(&link.operand, by)?;
            if right_of != T::Int && right_of != by {
                self.impossible(of, link, right_of);
                return None;
            }
            left = self.arithmetic(operator, left, right, right_of, of, link)?;
        }
        Some((left, of))
    }

    /// An operation whose result is an `of`, the left operand's type but for sums of numbers.
    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: Expr,
        right: Expr,
        right_of: Type,
        of: Type,
        link: &Link,
    ) -> Option<Expr> {
        let right = if of != Type::Int && right_of == Type::Int { real(right) } else { right };
        let by_zero = matches!(operator, Arithmetic::Divide | Arithmetic::Remainder)
            && matches!(right, Expr::Constant(Value::Int(0)) | Expr::Constant(Value::Real(0.0)));
        if by_zero {
            self.error(link.operand.span, "Division by zero");
            return None;
        }
        if let (Expr::Constant(a), Expr::Constant(b)) = (&left, &right)
            && let Some(value) = freshet_policy::runtime::arithmetic(operator, *a, *b)
        {
            return Some(Expr::Constant(value));
        }
        Some(Expr::Arithmetic { operator, operands: Box::new([left, right]) })
    }

    fn sum(&mut self, first: &Expression, rest: &[Link], wanted: Type, span: Span) -> Typed {
        use Type as T;
        // A pattern is one constant, of several texts perhaps.
        if wanted == T::Regex && matches!(first.kind, ExpressionKind::Text(_)) {
            let is_text = |link: &&Link| matches!(link.operand.kind, ExpressionKind::Text(_));
            if let Some(other) = rest.iter().find(|link| !is_text(link)) {
                let got = self.first_token(other.operand.span);
                self.error(other.operand.span, format!("Expected CSTR got '{got}'"));
                return None;
            }
            if let Some(text) = joined_text(first, rest) {
                return self.text(&text, wanted, span);
            }
        }
        let (mut left, mut of) = self.infer(first, wanted)?;
        // Parts of a text that is being joined; empty while numbers are added.
        let mut parts: Vec<Expr> = Vec::new();
        for link in rest {
            let adds = matches!(
                (of, link.operator),
                (T::Bytes | T::Duration | T::Int | T::Real | T::Time, _)
            );
            let asked = if !adds && wanted == T::String { T::String } else { of };
            let (right, right_of) = self.infer(&link.operand, asked)?;
            let result = match (of, right_of) {
                (T::Bytes, T::Bytes) | (T::Duration, T::Duration) | (T::Int, T::Int) => Some(of),
                (T::Int | T::Real, T::Int | T::Real) => Some(T::Real),
                (T::Time, T::Time) if link.operator == "-" => Some(T::Duration),
                (T::Time, T::Duration) => Some(T::Time),
                _ => None,
            };
            if let Some(result) = result {
                let operator =
                    if link.operator == "+" { Arithmetic::Add } else { Arithmetic::Subtract };
                if result == T::Real && of == T::Int {
                    left = real(left);
                }
                left = self.arithmetic(operator, left, right, right_of, result, link)?;
                of = result;
            } else if link.operator == "+" && (of == T::String || wanted == T::String) {
                if parts.is_empty() {
                    parts.push(self.as_text(left, of, first.span)?);
                    left = Expr::Constant(Value::None);
                    of = T::String;
                }
                parts.push(self.as_text(right, right_of, link.operand.span)?);
            } else {
                self.impossible(of, link, right_of);
                return None;
            }
        }
        if parts.is_empty() {
            return Some((left, of));
        }
        let mut parts = self.merged(parts);
        let joined = match parts.pop() {
            Some(only @ Expr::Constant(_)) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                Expr::Concat(parts.into())
            }
        };
        Some((joined, Type::String))
    }

    fn impossible(&mut self, of: Type, link: &Link, right_of: Type) {
        let message = format!("{of} {} {right_of} not possible.", link.operator);
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

/// A value as a condition, where it can be one: what is set, assigned, or not zero.
pub(super) fn as_truth(value: Expr, of: Type) -> (Expr, Type) {
    match of {
        Type::String | Type::Backend | Type::Int | Type::Duration => {
            (Expr::Truth(Box::new(value)), Type::Bool)
        }
        _ => (value, of),
    }
}

fn real(value: Expr) -> Expr {
    match value {
        Expr::Constant(Value::Int(number)) => Expr::Constant(Value::Real(number as f64)),
        value => Expr::Real(Box::new(value)),
    }
}

/// The text of literals with `+` between them.
pub(super) fn joined_text(first: &Expression, rest: &[Link]) -> Option<String> {
    let ExpressionKind::Text(text) = &first.kind else { return None };
    let mut out = text.to_string();
    for link in rest {
        match (&link.operand.kind, link.operator) {
            (ExpressionKind::Text(text), "+") => out.push_str(text),
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
            (T::String, T::Regex) => "a pattern is a string literal, so that it is compiled once",
            (T::String, T::Int) => "convert it with std.integer(text, 0)",
            (T::String, T::Real) => "convert it with std.real(text, 0.0)",
            (T::String, T::Duration) => "convert it with std.duration(text, 0s)",
            (T::String, T::Time) => "convert it with std.time(text, now)",
            (T::String, T::Ip) => "convert it with std.ip(text, \"0.0.0.0\")",
            (T::String, T::Bytes) => "convert it with std.bytes(text, 0B)",
            (T::Duration, T::Int) => "convert it with std.integer(duration = …)",
            (T::Real, T::Int) => "convert it with std.integer(real = …)",
            (T::String, T::Blob) => "convert it with blob.decode(encoded = …)",
            _ => return None,
        }
        .into(),
    )
}
