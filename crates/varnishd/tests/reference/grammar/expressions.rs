//! Expressions of every type, with operators and conversions.

use super::Grammar;
use super::running::is_unsteady;
use super::values::{DURATIONS, NUMBERS, REALS, fits_version};
use freshet_vcl::Type;

impl Grammar {
    pub(super) fn expression(&mut self, of: Type, depth: usize) -> String {
        let of = if self.wrong() {
            *self.draw.of(&[
                &Type::String,
                &Type::Int,
                &Type::Duration,
                &Type::Bool,
                &Type::Time,
                &Type::Bytes,
                &Type::Ip,
                &Type::Real,
                &Type::Backend,
                &Type::Blob,
            ])
        } else {
            of
        };
        let of = if of == Type::Strands { Type::String } else { of };
        let state = self.state;
        if depth > 0 && !matches!(of, Type::Regex | Type::Enum | Type::Header | Type::Http) {
            match self.draw.below(10) {
                0 | 1 => {
                    if let Some(call) = self.call(Some(of), depth - 1) {
                        return call;
                    }
                }
                2 => return format!("({})", self.expression(of, depth - 1)),
                3..=5 => {
                    if let Some(text) = self.operation(of, depth - 1) {
                        return text;
                    }
                }
                6 | 7 => {
                    let (version, is_run) = (self.version, self.is_run);
                    let found = self.variable_where(|one| {
                        one.of == of
                            && one.read.has(state)
                            && fits_version(one, version)
                            && !(is_run && is_unsteady(one, state))
                    });
                    if let Some(variable) = found.filter(|one| one.of == of) {
                        return variable.name.into();
                    }
                }
                _ => {}
            }
        }
        self.simple(of, depth)
    }

    pub(super) fn operation(&mut self, of: Type, depth: usize) -> Option<String> {
        use Type as T;
        let (left, operator, right) = match of {
            T::String => {
                if self.draw.once_in(6) && self.has_fields(false) {
                    let method = self.draw.of(&["upper", "lower"]);
                    return Some(format!("{}.{method}()", self.field(false)));
                }
                (T::String, self.pick(&["+"], &["", "-"]), T::String)
            }
            T::Int => (T::Int, self.draw.of(&["+", "-", "*", "/", "%"]), T::Int),
            T::Real => {
                let right = self.draw.of(&[&T::Int, &T::Real]);
                (T::Real, self.draw.of(&["+", "-", "*", "/"]), *right)
            }
            T::Duration if self.draw.once_in(2) => {
                let by = self.draw.of(&[&T::Int, &T::Real]);
                (T::Duration, self.draw.of(&["*", "/"]), *by)
            }
            T::Duration if self.draw.once_in(4) && !self.is_run => return Some("now - now".into()),
            T::Duration => (T::Duration, self.draw.of(&["+", "-"]), T::Duration),
            T::Time => (T::Time, self.draw.of(&["+", "-"]), T::Duration),
            T::Bytes => match self.draw.below(2) {
                0 => (T::Bytes, self.draw.of(&["+", "-"]), T::Bytes),
                _ => (T::Bytes, self.draw.of(&["*", "/"]), T::Int),
            },
            T::Bool => return Some(self.condition(depth)),
            _ => return None,
        };
        let left = self.expression(left, depth);
        let right = match operator {
            // Nobody is to divide by nothing.
            "/" | "%" => self.draw.of(&NUMBERS[1..]).to_owned(),
            // Behind a time no sign may follow.
            _ if of == T::Time && self.is_run => self.draw.of(&DURATIONS).to_owned(),
            _ => self.expression(right, depth),
        };
        Some(format!("{left} {operator} {right}"))
    }

    pub(super) fn condition(&mut self, depth: usize) -> String {
        use Type as T;
        match self.draw.below(9) {
            0 => self.draw.of(&["true", "false", "True", "False"]).into(),
            1 if self.has_fields(false) => self.field(false),
            2 => format!("!({})", self.expression(T::Bool, depth)),
            3 => {
                let text = self.plain_text();
                let operator = self.draw.of(&["~", "!~"]);
                let pattern = self.pattern();
                format!("{text} {operator} {pattern}")
            }
            4 => format!("client.ip {} a0", self.draw.of(&["~", "!~"])),
            5 => {
                let operator = self.draw.of(&["&&", "||"]);
                let (left, right) =
                    (self.expression(T::Bool, depth), self.expression(T::Bool, depth));
                format!("{left} {operator} {right}")
            }
            6 => match self.draw.below(2) {
                0 => self.plain_text(),
                // A number that begins with a sign is no condition.
                _ if self.is_run => self.draw.of(&NUMBERS).to_owned(),
                _ => self.expression(T::Int, depth),
            },
            _ => {
                let of = *self.draw.of(&[
                    &T::Int,
                    &T::Real,
                    &T::Duration,
                    &T::Time,
                    &T::Bytes,
                    &T::String,
                    &T::String,
                    &T::Ip,
                    &T::Bool,
                    &T::Backend,
                ]);
                let operator = self.draw.of(&["==", "!=", "<", "<=", ">", ">="]);
                let operator = match of {
                    T::Ip | T::Bool | T::Backend if !self.wrong() => self.draw.of(&["==", "!="]),
                    _ => operator,
                };
                let (left, right) = match of {
                    T::String => (self.plain_text(), self.plain_text()),
                    T::Ip => ("client.ip".into(), self.expression(of, depth)),
                    T::Bytes => ("storage.s0.free_space".into(), self.expression(of, depth)),
                    T::Real => (self.draw.of(&REALS).into(), self.expression(of, depth)),
                    T::Bool => {
                        (format!("({})", self.condition(0)), format!("({})", self.condition(0)))
                    }
                    T::Backend => (self.pick(&["b0", "b1"], &["missing"]).into(), "b0".into()),
                    _ => (self.expression(of, depth), self.expression(of, depth)),
                };
                format!("{left} {operator} {right}")
            }
        }
    }

    /// A text that no other type has to become, as comparisons demand.
    pub(super) fn plain_text(&mut self) -> String {
        match self.draw.below(4) {
            0 | 1 if self.has_fields(false) => self.field(false),
            2 => format!("regsub({}, \"a\", \"b\")", self.literal()),
            _ => self.literal().into(),
        }
    }
}
