//! Statements of every kind.

use super::Grammar;
use super::running::is_untimely;
use super::values::{ACTIONS, NUMBERS, REALS, fits_version};
use freshet_vcl::{State, Type};

/// Parts of names of variables that can be unset from some later version on.
const LATER_UNSET: [&str; 6] =
    ["timeout", "deadline", "req.ttl", "req.grace", "max_age", "filters"];

impl Grammar {
    pub(super) fn statement(&mut self, depth: usize) {
        match self.draw.below(16) {
            0..=5 => self.set(),
            6 => {
                let target = match self.draw.below(8) {
                    0 if self.state == State::BackendFetch => "bereq.body".into(),
                    // What later versions can unset is taken here.
                    _ if self.wrong() && self.draw.once_in(2) => {
                        let name = self.variable_where(|_| true).map_or("req.url", |one| one.name);
                        let is_later = LATER_UNSET.iter().any(|part| name.contains(part));
                        if is_later { "req.url".into() } else { name.into() }
                    }
                    _ if self.wrong() => {
                        self.draw.of(&["bereq.body", "req.url", "beresp.ttl", "req.http"]).into()
                    }
                    _ if !self.has_fields(true) => return,
                    _ => self.field(true),
                };
                self.line(&format!("unset {target};"));
            }
            7 | 8 if depth < 3 => {
                let condition = self.expression(Type::Bool, 2);
                self.line(&format!("if ({condition}) {{"));
                self.statement(depth + 1);
                if self.draw.once_in(2) {
                    let word = self.draw.of(&["elseif", "elsif", "elif", "else if"]);
                    let condition = self.expression(Type::Bool, 2);
                    self.line(&format!("}} {word} ({condition}) {{"));
                    self.statement(depth + 1);
                }
                if self.draw.once_in(2) {
                    self.line("} else {");
                    self.statement(depth + 1);
                }
                self.line("}");
            }
            9 => {
                let actions: Vec<_> = self.state.actions().iter().map(|one| one.name()).collect();
                let action =
                    if self.wrong() { self.draw.of(&ACTIONS) } else { self.draw.of(&actions) };
                let text = self.returned(action);
                self.line(&text);
            }
            10 => {
                let of_state = |at: &usize| self.own[*at] == self.state;
                let fitting: Vec<usize> =
                    (self.first_own..self.own.len()).filter(of_state).collect();
                if !fitting.is_empty() {
                    let index = fitting[self.draw.below(fitting.len())];
                    self.line(&format!("call own{index};"));
                }
            }
            11 => self.builtin(),
            12..=14 => {
                let call = self.call(None, 2);
                if let Some(call) = call {
                    self.line(&format!("{call};"));
                }
            }
            _ if depth < 3 => {
                self.line("{");
                self.statement(depth + 1);
                self.line("}");
            }
            _ => self.set(),
        }
    }

    pub(super) fn returned(&mut self, action: &str) -> String {
        let arguments = match action {
            "synth" | "error" => match self.draw.below(4) {
                0 => format!("({})", self.expression(Type::Int, 1)),
                1 if action == "error" => String::new(),
                _ => {
                    let (status, text) =
                        (self.expression(Type::Int, 1), self.expression(Type::String, 1));
                    format!("({status}, {text})")
                }
            },
            "fail" if self.draw.once_in(2) => format!("({})", self.expression(Type::String, 1)),
            "pass" if self.state == State::BackendResponse && self.draw.once_in(2) => {
                format!("({})", self.expression(Type::Duration, 1))
            }
            "vcl" if !self.wrong() => return "return (pass);".into(),
            "vcl" => self.draw.of(&["(label)", "", "(\"label\")"]).into(),
            _ if self.wrong() => "(1)".into(),
            _ => String::new(),
        };
        format!("return ({action}{arguments});")
    }

    pub(super) fn builtin(&mut self) {
        let text = match self.state {
            State::Hash => format!("hash_data({});", self.expression(Type::String, 2)),
            State::Synth | State::BackendError => {
                format!("synthetic({});", self.expression(Type::String, 2))
            }
            _ => format!("ban({});", self.expression(Type::String, 2)),
        };
        self.line(&text);
    }

    pub(super) fn set(&mut self) {
        if self.draw.once_in(2) && self.has_fields(true) {
            let field = self.field(true);
            let operator = self.draw.of(&["=", "=", "=", "+="]);
            let value = self.expression(Type::String, 3);
            return self.line(&format!("set {field} {operator} {value};"));
        }
        let state = self.state;
        let (version, is_run, has_bodies) = (self.version, self.is_run, self.has_bodies);
        let found = self.variable_where(|one| {
            fits_version(one, version)
                && !(is_run && is_untimely(one, state, has_bodies))
                && if version == "4.0" { one.write_40 } else { one.write }.has(state)
        });
        let Some(variable) = found else { return };
        let operators: &[&str] = match variable.of {
            Type::Int | Type::Duration | Type::Time => &["=", "=", "=", "+=", "-=", "*=", "/="],
            Type::String | Type::Body => &["=", "=", "+="],
            _ => &["="],
        };
        let word = if self.is_run { self.start_line_word(variable.name) } else { None };
        let operator = if word.is_some() {
            "="
        } else if self.wrong() {
            self.draw.of(&["+=", "*=", "=="])
        } else {
            self.draw.of(operators)
        };
        let of = match (variable.of, operator) {
            (Type::Duration, "*=" | "/=") => Type::Real,
            (Type::Time, _) => Type::Duration,
            (Type::Body, _) if self.draw.once_in(4) => Type::Blob,
            (Type::Body, _) => Type::String,
            (of, _) => of,
        };
        let value = match word {
            Some(word) => word,
            // Nobody is to divide by nothing.
            None if operator == "/=" && is_run => {
                let numbers = if of == Type::Int { &NUMBERS[1..] } else { &REALS[1..] };
                self.draw.of(numbers).to_owned()
            }
            None => self.expression(of, 3),
        };
        self.line(&format!("set {} {operator} {value};", variable.name));
    }
}
