//! Expressions, weakest binding first: `||`, `&&`, `!`, comparisons, `+ -` and strings side by
//! side, `* / %`, methods, and what stands alone.

use super::{Parsed, Parser};
use crate::lexer::Kind;
use crate::syntax::{Expression, ExpressionKind, Link, Name};

/// The operator between strings side by side.
pub(crate) const JOIN: &str = "";

const COMPARISONS: [&str; 8] = ["==", "!=", "<", ">", "<=", ">=", "~", "!~"];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.nested(Self::any)
    }

    fn any(&mut self) -> Parsed<Expression> {
        self.chain(&["||"], Self::all)
    }

    fn all(&mut self) -> Parsed<Expression> {
        self.chain(&["&&"], Self::not)
    }

    fn not(&mut self) -> Parsed<Expression> {
        if !self.is_sign("!") {
            return self.comparison();
        }
        let start = self.next().span;
        let inner = self.nested(Self::not)?;
        Ok(Expression { span: start.to(inner.span), kind: ExpressionKind::Not(Box::new(inner)) })
    }

    fn comparison(&mut self) -> Parsed<Expression> {
        let left = self.sum()?;
        let token = self.peek();
        let Kind::Sign(operator) = token.kind else { return Ok(left) };
        if !COMPARISONS.contains(&operator) {
            return Ok(left);
        }
        self.next();
        let pattern = self.peek();
        if let (true, Kind::Sign(sign)) = (matches!(operator, "~" | "!~"), &pattern.kind) {
            let message = format!("Unknown token '{sign}' when looking for REGEX");
            return Err(self.error(pattern.span, message));
        }
        let right = self.sum()?;
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = ExpressionKind::Compared { operator, operator_span: token.span, left, right };
        Ok(Expression { kind, span })
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.chain(&["+", "-", JOIN], Self::product)
    }

    fn product(&mut self) -> Parsed<Expression> {
        self.chain(&["*", "/", "%"], Self::postfix)
    }

    fn chain(
        &mut self,
        operators: &[&str],
        part: fn(&mut Self) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let first = part(self)?;
        let mut rest = Vec::new();
        loop {
            let token = self.peek();
            let operator = match token.kind {
                Kind::Sign(operator) if operators.contains(&operator) => {
                    self.next();
                    operator
                }
                // What stands behind a value without an operator is joined to it.
                Kind::Text(_) | Kind::Word if operators.contains(&JOIN) => JOIN,
                _ => break,
            };
            let operand = part(self)?;
            rest.push(Link { operator, operator_span: token.span, operand });
        }
        let Some(last) = rest.last() else { return Ok(first) };
        let span = first.span.to(last.operand.span);
        Ok(Expression { kind: ExpressionKind::Chain { first: Box::new(first), rest }, span })
    }

    fn postfix(&mut self) -> Parsed<Expression> {
        let mut value = self.primary()?;
        while self.is_sign(".") && self.peek_at(1).kind == Kind::Word {
            value = self.method(value)?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let token = self.peek();
        let span = token.span;
        match &token.kind {
            Kind::Sign("(") => {
                self.next();
                let inner = self.expression()?;
                let end = self.closing(")")?;
                let kind = ExpressionKind::Bracketed(Box::new(inner));
                Ok(Expression { kind, span: span.to(end) })
            }
            Kind::Sign("-") => {
                self.next();
                let number = matches!(self.peek().kind, Kind::Int(_) | Kind::Real(_));
                if !number {
                    let text = self.text(token);
                    let message = format!("Unknown token '{text}' when looking for a number");
                    return Err(self.error(span, message));
                }
                let inner = self.primary()?;
                let span = span.to(inner.span);
                Ok(Expression { span, kind: ExpressionKind::Negative(Box::new(inner)) })
            }
            Kind::Text(text) => {
                self.next();
                Ok(Expression { kind: ExpressionKind::Text(text.clone()), span })
            }
            Kind::Blob(bytes) => {
                self.next();
                Ok(Expression { kind: ExpressionKind::Blob(bytes.clone()), span })
            }
            Kind::Int(number) => {
                self.next();
                Ok(self.quantity(*number as f64, ExpressionKind::Int(*number), span))
            }
            Kind::Real(number) => {
                self.next();
                Ok(self.quantity(*number, ExpressionKind::Real(*number), span))
            }
            Kind::Word => self.path_or_call(),
            _ => {
                let text = self.text(token);
                let message = format!("Unknown token '{text}' when looking for a value");
                Err(self.error(span, message))
            }
        }
    }

    /// A number, with the unit right behind it where there is one.
    fn quantity(
        &mut self,
        number: f64,
        plain: ExpressionKind,
        span: crate::source::Span,
    ) -> Expression {
        let next = self.peek();
        // A word behind a number is never anything but its unit, a wrong one included.
        if next.kind != Kind::Word {
            return Expression { kind: plain, span };
        }
        self.next();
        let unit = Name { text: self.report.sources.text(next.span).into(), span: next.span };
        let is_real = matches!(plain, ExpressionKind::Real(_));
        Expression {
            kind: ExpressionKind::Quantity { number, is_real, unit },
            span: span.to(next.span),
        }
    }
}
