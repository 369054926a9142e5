//! Comparisons and matches.

use super::expressions::{Typed, conversion_help, joined_text};
use super::{Checker, Symbol};
use crate::diagnostic::nearest;
use crate::program::{Comparison, Expr, Value};
use crate::source::Span;
use crate::syntax::{Expression, ExpressionKind};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn comparison(
        &mut self,
        operator: &'static str,
        operator_span: Span,
        left: &Expression,
        right: &Expression,
    ) -> Typed {
        let (compiled, of) = self.infer(left, None)?;
        if matches!(operator, "~" | "!~") {
            return self.matched(compiled, of, operator, operator_span, left.span, right);
        }
        use Type as T;
        let of = match of {
            T::Header | T::Strands => T::String,
            of => of,
        };
        let all_six = matches!(of, T::Int | T::Duration | T::Bytes | T::Real | T::Time | T::String);
        let two = matches!(of, T::Backend | T::Acl | T::Stevedore | T::Bool | T::Ip);
        let ordered = !matches!(operator, "==" | "!=");
        if !(all_six || two && !ordered) {
            self.error(operator_span, format!("Operator {operator} not possible on {of}"));
            return None;
        }
        let compiled = match of {
            T::String => match compiled {
                Expr::Constant(Value::Header(message, header)) => Expr::Field { message, header },
                other => other,
            },
            _ => compiled,
        };
        let hint = matches!(of, T::Ip | T::Backend | T::Bytes).then_some(of);
        let hint = hint
            .filter(|hint| *hint != T::Backend || matches!(right.kind, ExpressionKind::Path(_)));
        let (other, other_of) = self.infer(right, hint)?;
        let other_of = match other_of {
            T::Header | T::Strands => T::String,
            other => other,
        };
        if other_of != of {
            let help = conversion_help(other_of, of);
            let message = format!("Comparison of different types: {of} '{operator}' {other_of}");
            self.report.error(operator_span, message).help = help;
            return None;
        }
        let other = match other {
            Expr::Constant(Value::Header(message, header)) => Expr::Field { message, header },
            other => other,
        };
        let operator = match operator {
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessEqual,
            ">" => Comparison::Greater,
            _ => Comparison::GreaterEqual,
        };
        let operands = Box::new([compiled, other]);
        Some((Expr::Compare { operator, operands }, T::Bool))
    }

    fn matched(
        &mut self,
        value: Expr,
        of: Type,
        operator: &str,
        operator_span: Span,
        span: Span,
        right: &Expression,
    ) -> Typed {
        let negated = operator == "!~";
        match of {
            Type::Ip => {
                let found = match &right.kind {
                    ExpressionKind::Path(path) => self.symbol(&path.text()),
                    _ => None,
                };
                let Some(Symbol::Acl(acl)) = found else {
                    self.not_an_acl(right);
                    return None;
                };
                let address = Box::new(value);
                Some((Expr::InAcl { address, acl, negated }, Type::Bool))
            }
            Type::String | Type::Strands | Type::Header => {
                let text = Box::new(self.convert(value, of, Type::String, span)?);
                let pattern = match &right.kind {
                    ExpressionKind::Text(pattern) => Some(pattern.to_string()),
                    ExpressionKind::Chain { first, rest } => joined_text(first, rest),
                    _ => None,
                };
                let Some(pattern) = pattern else {
                    let got = self.report.sources.text(right.span).to_owned();
                    let first: String =
                        got.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    let is_acl = matches!(
                        self.symbols.get(&*got).map(|entry| entry.symbol),
                        Some(Symbol::Acl(_))
                    );
                    let help = if is_acl {
                        "an access list is matched with an address: std.ip(text, \"0.0.0.0\") ~ \
                         list"
                    } else {
                        "a pattern is a string literal, so that it is compiled once"
                    };
                    let got = if first.is_empty() { got } else { first };
                    self.error_with(
                        right.span,
                        format!(
                            "Expected CSTR got '{got}'\nExpression has type STRING, expected REGEX"
                        ),
                        help,
                    );
                    return None;
                };
                let regex = self.regex(&pattern, right.span)?;
                Some((Expr::Match { text, regex, negated }, Type::Bool))
            }
            _ => {
                self.error(operator_span, format!("Operator {operator} not possible on {of}"));
                None
            }
        }
    }

    fn not_an_acl(&mut self, right: &Expression) {
        let text = self.report.sources.text(right.span).to_owned();
        let symbol = self.symbols.get(&*text).map(|entry| entry.symbol);
        match (&right.kind, symbol) {
            (ExpressionKind::Path(_), None) => {
                let names = self.names_of(|symbol| matches!(symbol, Symbol::Acl(_)));
                let near = nearest(&text, names.iter().map(String::as_str));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                let message =
                    format!("Symbol not found: '{text}'\nUndefined acl {text}, first reference:");
                self.report.error(right.span, message).help = help;
            }
            (_, Some(symbol)) => {
                let of = match symbol {
                    Symbol::Object(index) => self.program.objects[index as usize].kind.to_owned(),
                    other => other.kind().to_uppercase(),
                };
                self.error(
                    right.span,
                    format!(
                        "Name {text} must have type 'acl'.\nExpression has type {of}, expected ACL"
                    ),
                );
            }
            _ => {
                if let Some((_, of)) = self.infer(right, None) {
                    self.error(right.span, format!("Expression has type {of}, expected ACL"));
                }
            }
        }
    }
}
