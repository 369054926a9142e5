//! Expressions, weakest binding first: `||`, `&&`, `!`, comparisons, `+ -`, `* / %`, methods, and
//! what stands alone.

use super::{Parser, Takes};
use crate::lexer::Kind;
use crate::syntax::{Expression, ExpressionKind, Link, Name};
use freshet_policy::source::Span;

const COMPARISONS: [&str; 8] = ["==", "!=", "<", ">", "<=", ">=", "~", "!~"];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Expression {
        let read = self.nested(Self::any);
        read.unwrap_or_else(|| self.absent())
    }

    /// What could not be read.
    pub(super) fn absent(&self) -> Expression {
        Expression { kind: ExpressionKind::Broken(None), span: self.place() }
    }

    /// What was read to its end, unless something was wrong before that.
    fn whole(&self, read: Expression) -> Expression {
        if !self.is_stopped {
            return read;
        }
        Expression { span: read.span, kind: ExpressionKind::Broken(Some(Box::new(read))) }
    }

    fn any(&mut self) -> Expression {
        self.chain(&["||"], Self::all)
    }

    fn all(&mut self) -> Expression {
        self.chain(&["&&"], Self::not)
    }

    fn not(&mut self) -> Expression {
        if !self.is_sign("!") {
            return self.comparison();
        }
        let start = self.next().span;
        let inner = self.comparison();
        Expression { span: start.to(inner.span), kind: ExpressionKind::Not(Box::new(inner)) }
    }

    fn comparison(&mut self) -> Expression {
        let left = self.sum();
        let token = self.peek();
        let Kind::Sign(operator) = token.kind else { return left };
        if !COMPARISONS.contains(&operator) {
            return left;
        }
        self.next();
        let right = match operator {
            "~" | "!~" => self.pattern(),
            _ => self.sum(),
        };
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = ExpressionKind::Compared { operator, operator_span: token.span, left, right };
        Expression { kind, span }
    }

    /// What stands behind `~`: string constants with `+` between them, or one value.
    fn pattern(&mut self) -> Expression {
        if let Kind::Sign(sign) = self.peek().kind
            && sign != "("
        {
            let message = format!("Unknown token '{sign}' when looking for REGEX");
            self.error(self.place(), message);
            return self.absent();
        }
        let first = self.postfix();
        if !matches!(first.kind, ExpressionKind::Text(_)) {
            return first;
        }
        let mut rest = Vec::new();
        while self.is_sign("+") {
            let operator_span = self.next().span;
            if !matches!(self.peek().kind, Kind::Text(_)) {
                self.missing("CSTR");
            }
            rest.push(Link { operator: "+", operator_span, operand: self.primary() });
        }
        linked(first, rest)
    }

    fn sum(&mut self) -> Expression {
        self.chain(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Expression {
        self.chain(&["*", "/", "%"], Self::postfix)
    }

    fn chain(&mut self, operators: &[&str], part: fn(&mut Self) -> Expression) -> Expression {
        let first = part(self);
        let mut rest = Vec::new();
        loop {
            let token = self.peek();
            let Kind::Sign(operator) = token.kind else { break };
            if !operators.contains(&operator) {
                break;
            }
            self.next();
            let operand = part(self);
            rest.push(Link { operator, operator_span: token.span, operand });
        }
        linked(first, rest)
    }

    fn postfix(&mut self) -> Expression {
        let mut value = self.primary();
        while self.is_sign(".") && self.peek_at(1).kind == Kind::Word {
            value = self.method(value);
        }
        value
    }

    pub(super) fn primary(&mut self) -> Expression {
        let token = self.peek();
        let span = token.span;
        match &token.kind {
            Kind::Sign("(") => {
                self.next();
                let inner = self.expression();
                let end = self.sign(")");
                let kind = ExpressionKind::Bracketed(Box::new(inner));
                self.whole(Expression { kind, span: span.to(end) })
            }
            Kind::Sign("-") => {
                self.next();
                let is_number = matches!(self.peek().kind, Kind::Int(_) | Kind::Real(_));
                // In front of anything else it is about all that follows.
                let inner = if is_number { self.primary() } else { self.expression() };
                let span = span.to(inner.span);
                Expression { span, kind: ExpressionKind::Negative(Box::new(inner)) }
            }
            Kind::Text(text) => {
                self.next();
                Expression { kind: ExpressionKind::Text(text.clone()), span }
            }
            Kind::Blob(bytes) => {
                self.next();
                Expression { kind: ExpressionKind::Blob(bytes.clone()), span }
            }
            Kind::Int(number) => {
                self.next();
                self.quantity(*number as f64, ExpressionKind::Int(*number), span)
            }
            Kind::Real(number) => {
                self.next();
                self.quantity(*number, ExpressionKind::Real(*number), span)
            }
            Kind::Word => self.path_or_call(),
            _ => {
                let text = self.text(token);
                self.error(span, format!("Unknown token '{text}' when looking for STRING"));
                self.absent()
            }
        }
    }

    /// A path as an expression, or a call.
    fn path_or_call(&mut self) -> Expression {
        let Some(path) = self.path() else { return self.absent() };
        if !self.is_sign("(") {
            return Expression { span: path.span, kind: ExpressionKind::Path(path) };
        }
        let arguments = self.arguments(Takes::of(&path));
        // `x.upper()` is a method of the value before it; which one it is only types can tell, so
        // the checker looks at the last name.
        let span = path.span.to(self.last_span());
        self.whole(Expression { span, kind: ExpressionKind::Call { function: path, arguments } })
    }

    fn method(&mut self, value: Expression) -> Expression {
        self.next();
        let Some(method) = self.name() else { return self.whole(value) };
        self.sign("(");
        let span = value.span.to(self.sign(")"));
        self.whole(Expression {
            span,
            kind: ExpressionKind::Method { value: Box::new(value), method },
        })
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
