//! Expressions, weakest binding first: `||`, `&&`, `!`, comparisons, `+ -`, `* / %`, methods, and
//! what stands alone.

use super::{Parsed, Parser};
use crate::lexer::Kind;
use crate::source::Span;
use crate::syntax::{Expression, ExpressionKind, Link, Name};

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
        let inner = self.comparison()?;
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
        let right = match operator {
            "~" | "!~" => self.pattern()?,
            _ => self.sum()?,
        };
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = ExpressionKind::Compared { operator, operator_span: token.span, left, right };
        Ok(Expression { kind, span })
    }

    /// What stands behind `~`: string constants with `+` between them, or one value.
    fn pattern(&mut self) -> Parsed<Expression> {
        if let Kind::Sign(sign) = self.peek().kind
            && sign != "("
        {
            let span = self.peek().span;
            let message = format!("Unknown token '{sign}' when looking for REGEX");
            return Err(self.error(span, message));
        }
        let first = self.postfix()?;
        if !matches!(first.kind, ExpressionKind::Text(_)) {
            return Ok(first);
        }
        let mut rest = Vec::new();
        while self.is_sign("+") {
            let operator_span = self.next().span;
            if !matches!(self.peek().kind, Kind::Text(_)) {
                return Err(self.missing("CSTR"));
            }
            rest.push(Link { operator: "+", operator_span, operand: self.primary()? });
        }
        Ok(linked(first, rest))
    }

    fn sum(&mut self) -> Parsed<Expression> {
        self.chain(&["+", "-"], Self::product)
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
            let Kind::Sign(operator) = token.kind else { break };
            if !operators.contains(&operator) {
                break;
            }
            self.next();
            let operand = part(self)?;
            rest.push(Link { operator, operator_span: token.span, operand });
        }
        Ok(linked(first, rest))
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
                let is_number = matches!(self.peek().kind, Kind::Int(_) | Kind::Real(_));
                // In front of anything else it is about all that follows.
                let inner = if is_number { self.primary()? } else { self.expression()? };
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
                let message = format!("Unknown token '{text}' when looking for STRING");
                Err(self.error(span, message))
            }
        }
    }

    /// A number, with the unit right behind it where there is one.
    fn quantity(&mut self, number: f64, plain: ExpressionKind, span: Span) -> Expression {
        let next = self.peek();
        // A word behind a number is never anything but its unit, a wrong one included.
        if next.kind != Kind::Word {
            return Expression { kind: plain, span };
        }
        self.next();
        let unit = Name { text: self.report.sources.text(next.span).into(), span: next.span };
        Expression { kind: ExpressionKind::Quantity { number, unit }, span: span.to(next.span) }
    }
}

fn linked(first: Expression, rest: Vec<Link>) -> Expression {
    let Some(last) = rest.last() else { return first };
    let span = first.span.to(last.operand.span);
    Expression { kind: ExpressionKind::Chain { first: Box::new(first), rest }, span }
}
