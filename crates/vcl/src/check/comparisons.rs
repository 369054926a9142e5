//! Comparisons and matches.

use super::Checker;
use super::expressions::{Typed, conversion_help};
use crate::syntax::Expression;
use freshet_policy::program::{Comparison, Expr, Value};
use freshet_policy::source::Span;
use freshet_policy::types::Type;

impl Checker<'_> {
    pub(super) fn comparison(
        &mut self,
        operator: &'static str,
        operator_span: Span,
        left: &Expression,
        right: &Expression,
        wanted: Type,
    ) -> Typed {
        use Type as T;
        let (compiled, of) = self.infer(left, wanted)?;
        let compares = match (of, operator) {
            (T::Int | T::Duration | T::Bytes | T::Real | T::Time, "~" | "!~") => false,
            (T::Int | T::Duration | T::Bytes | T::Real | T::Time | T::String, _) => true,
            (T::Ip, "~" | "!~") => true,
            (T::Backend | T::Acl | T::Probe | T::Stevedore | T::Bool | T::Ip, "==" | "!=") => true,
            _ => false,
        };
        if !compares {
            self.error(operator_span, format!("Operator {operator} not possible on {of}"));
            return None;
        }
        if matches!(operator, "~" | "!~") {
            return self.matched(compiled, of, operator == "!~", right);
        }
        let (other, other_of) = self.infer(right, of)?;
        if other_of != of {
            let help = conversion_help(other_of, of);
            let message = format!("Comparison of different types: {of} '{operator}' {other_of}");
            self.report.error(operator_span, message).help = help;
            return None;
        }
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

    fn matched(&mut self, value: Expr, of: Type, negated: bool, right: &Expression) -> Typed {
        let wanted = if of == Type::Ip { Type::Acl } else { Type::Regex };
        let (found, found_of) = self.infer(right, wanted)?;
        let compiled = match found {
            Expr::Constant(Value::Acl(acl)) if wanted == Type::Acl => {
                Expr::InAcl { address: Box::new(value), acl, negated }
            }
            Expr::Constant(Value::Regex(regex)) if wanted == Type::Regex => {
                Expr::Match { text: Box::new(value), regex, negated }
            }
            found if found_of == wanted => {
                Expr::MatchAny { operands: Box::new([value, found]), negated }
            }
            _ => {
                let help = match (found_of, wanted) {
                    (Type::Acl, _) => Some(
                        "an access list is matched with an address: std.ip(text, \"0.0.0.0\") ~ \
                         list"
                            .into(),
                    ),
                    _ => conversion_help(found_of, wanted),
                };
                let name = self.report.sources.text(right.span);
                let kind = if wanted == Type::Acl { "acl" } else { "regex" };
                let message = format!(
                    "Expression has type {found_of}, expected {wanted}\nName {name} must have type \
                     '{kind}'."
                );
                self.report.error(right.span, message).help = help;
                return None;
            }
        };
        Some((compiled, Type::Bool))
    }
}
