//! Expressions.

use super::values::{arithmetic, holds, order, unwritable, write_value};
use super::{Event, Fault, Result, Run};
use crate::modules::Function;
use crate::program::{Expr, Text, Value};
use crate::regex::{Effort, Exceeded};
use crate::variables::Variable;
use std::cmp::Ordering;

/// Arguments of a call; the longest signature has fewer.
pub const ARGUMENTS_MAX: usize = 12;

/// What comes of comparing two texts of which one is unset, as with Varnish: it equals nothing, and
/// is not less than anything.
const UNSET: Ordering = Ordering::Greater;

impl Run<'_> {
    pub(crate) fn evaluate(&mut self, expression: &Expr) -> Result<Value> {
        Ok(match expression {
            Expr::Constant(value) => *value,
            Expr::Variable(variable) => self.variable(*variable)?,
            Expr::Storage { storage, what } => {
                let figure = self.host.storage(*storage, (*what).into());
                match what {
                    crate::program::StorageFact::Happy => Value::Bool(figure != 0),
                    _ => Value::Bytes(figure),
                }
            }
            Expr::Field { message, header } => Value::Text(self.field(*message, *header)?),
            Expr::Not(_)
            | Expr::All(_)
            | Expr::Any(_)
            | Expr::Truth(_)
            | Expr::Compare { .. }
            | Expr::Match { .. }
            | Expr::InAcl { .. }
            | Expr::MatchAny { .. } => Value::Bool(self.truth(expression)?),
            Expr::Text(inner) => {
                let value = self.evaluate(inner)?;
                Value::Text(self.as_text(value)?)
            }
            Expr::Real(inner) => match self.evaluate(inner)? {
                Value::Int(number) => Value::Real(number as f64),
                other => other,
            },
            Expr::Arithmetic { operator, operands } => {
                let [left, right] = &**operands;
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                arithmetic(*operator, left, right)
                    .ok_or_else(|| Fault::new("division by zero, or a number too large"))?
            }
            Expr::Concat(parts) => Value::Text(self.concatenate(parts)?),
            Expr::Upper(inner) => self.with_case(inner, <[u8]>::make_ascii_uppercase)?,
            Expr::Lower(inner) => self.with_case(inner, <[u8]>::make_ascii_lowercase)?,
            Expr::Resolve(inner) => match self.evaluate(inner)? {
                Value::Backend(backend) => {
                    Value::Backend(crate::modules::directors::resolve(self, backend))
                }
                other => other,
            },
            Expr::Call(call) => return self.call(call.function, call.object, &call.arguments),
        })
    }

    /// An expression's text.
    pub(crate) fn text(&mut self, expression: &Expr) -> Result<Text> {
        let value = self.evaluate(expression)?;
        self.as_text(value)
    }

    fn as_text(&mut self, value: Value) -> Result<Text> {
        Ok(match value {
            Value::Text(text) => text,
            Value::Header(message, header) => self.field(message, header)?,
            Value::NamedHeader(message, name) => {
                let name = self.string(name).into_owned();
                self.named_field(message, &name)?
            }
            Value::None => Text::Unset,
            // As the language writes one: base64 between colons.
            Value::Blob(Text::Unset) => Text::Unset,
            Value::Blob(bytes) => {
                let text = format!(":{}:", crate::modules::to_base64(self.bytes(bytes)));
                self.store(text.as_bytes())?
            }
            Value::Backend(backend) => self.backend_name(backend)?,
            Value::Stevedore(storage) => {
                let program = self.program;
                let name = storage.and_then(|index| program.storages.get(index as usize));
                let name = name.map(|name| format!("storage.{name}")).unwrap_or_default();
                self.store(name.as_bytes())?
            }
            other => match unwritable(other) {
                Some(why) => return Err(Fault::new(why)),
                None => self.write(|out| write_value(other, out))?,
            },
        })
    }

    /// Whether an expression of type BOOL is true.
    pub(crate) fn truth(&mut self, expression: &Expr) -> Result<bool> {
        Ok(match expression {
            Expr::Not(inner) => !self.truth(inner)?,
            Expr::All(parts) => {
                for part in parts {
                    if !self.truth(part)? {
                        return Ok(false);
                    }
                }
                true
            }
            Expr::Any(parts) => {
                for part in parts {
                    if self.truth(part)? {
                        return Ok(true);
                    }
                }
                false
            }
            Expr::Truth(inner) => self.is_something(inner)?,
            Expr::Compare { operator, operands } => {
                let [left, right] = &**operands;
                if let (Some(left), Some(right)) = (self.borrowed(left), self.borrowed(right)) {
                    let order = left.zip(right).map_or(UNSET, |(left, right)| left.cmp(right));
                    return Ok(holds(*operator, Some(order)));
                }
                let mark = self.task.work.len();
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                let order = match (left, right) {
                    (Value::Text(Text::Unset), Value::Text(_))
                    | (Value::Text(_), Value::Text(Text::Unset)) => Some(UNSET),
                    (Value::Text(a), Value::Text(b)) => Some(self.bytes(a).cmp(self.bytes(b))),
                    (Value::Ip(None, _), _) | (_, Value::Ip(None, _)) => {
                        return Err(Fault::new("VRT_ipcmp: Illegal IP"));
                    }
                    (a, b) => order(a, b),
                };
                self.task.work.truncate(mark);
                holds(*operator, order)
            }
            Expr::Match { text, regex, negated } => {
                if let Some(text) = self.borrowed(text) {
                    return Ok(self.matches(*regex, text.unwrap_or(&[]))? != *negated);
                }
                let mark = self.task.work.len();
                let text = self.text(text)?;
                let found = self.is_match(*regex, text)?;
                self.task.work.truncate(mark);
                found != *negated
            }
            Expr::InAcl { address, acl, negated } => {
                let Value::Ip(Some(address), _) = self.evaluate(address)? else {
                    let name = self.program.acls.get(*acl as usize).map_or("", |acl| &acl.name);
                    return Err(Fault::new(format!("ACL {name}: no protocol family")));
                };
                self.in_acl(address, *acl) != *negated
            }
            Expr::MatchAny { operands, negated } => {
                let [left, right] = &**operands;
                let mark = self.task.work.len();
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                let found = match (left, right) {
                    (Value::Text(text), Value::Regex(regex)) => self.is_match(regex, text)?,
                    (address, acl) => self.is_in(address, acl)?,
                };
                self.task.work.truncate(mark);
                found != *negated
            }
            other => match self.evaluate(other)? {
                Value::Bool(truth) => truth,
                _ => false,
            },
        })
    }

    fn is_something(&mut self, expression: &Expr) -> Result<bool> {
        if let Expr::Field { message, header } = expression {
            return Ok(self.has_field(*message, *header));
        }
        let mark = self.task.work.len();
        let value = self.evaluate(expression)?;
        self.task.work.truncate(mark);
        Ok(match value {
            Value::Text(text) => text != Text::Unset,
            Value::Backend(backend) => backend != crate::program::BackendRef::None,
            Value::Int(number) | Value::Bytes(number) => number != 0,
            Value::Duration(seconds) => seconds > 0.0,
            Value::Stevedore(storage) => storage.is_some(),
            Value::Bool(truth) => truth,
            _ => false,
        })
    }

    /// A text where it lies, for what only looks at it: fields, the lines of requests, constants.
    /// `None` for everything else; the inner `None` is a text that is unset.
    fn borrowed(&self, expression: &Expr) -> Option<Option<&[u8]>> {
        let view = &self.view;
        Some(match expression {
            Expr::Text(inner) => return self.borrowed(inner),
            Expr::Field { message, header } => {
                let name = self.program.headers.get(*header as usize)?;
                self.field_bytes(*message, name)
            }
            Expr::Constant(Value::Text(text @ Text::Constant(_))) => Some(self.bytes(*text)),
            Expr::Variable(Variable::ReqUrl) => Some(view.req.as_deref()?.target.as_bytes()),
            Expr::Variable(Variable::BereqUrl) => Some(view.bereq.as_deref()?.target.as_bytes()),
            Expr::Variable(Variable::ReqMethod) => {
                Some(view.req.as_deref()?.method.as_str().as_bytes())
            }
            Expr::Variable(Variable::BereqMethod) => {
                Some(view.bereq.as_deref()?.method.as_str().as_bytes())
            }
            _ => return None,
        })
    }

    pub(crate) fn is_match(&self, regex: u32, text: Text) -> Result<bool> {
        self.matches(regex, self.bytes(text))
    }

    fn matches(&self, regex: u32, text: &[u8]) -> Result<bool> {
        let Some(regex) = self.program.regexes.get(regex as usize) else { return Ok(false) };
        self.counted(text.len(), |effort| regex.is_match(text, effort))
    }

    /// Charges the matches that `act` makes, in so many bytes.
    pub(crate) fn counted<T>(
        &self,
        bytes: usize,
        act: impl FnOnce(&mut Effort) -> std::result::Result<T, Exceeded>,
    ) -> Result<T> {
        self.charge(bytes)?;
        let mut effort = Effort { steps: 0, steps_max: self.steps_left() };
        let result = act(&mut effort);
        if effort.steps > 0 {
            self.charge(effort.steps)?;
        }
        result.map_err(|why| Fault::new(format!("Regexp matching failed: {}", why.0)))
    }

    /// Whether an address is in a list, both of them values of some expression.
    pub(crate) fn is_in(&mut self, address: Value, acl: Value) -> Result<bool> {
        let program = self.program;
        let Value::Acl(index) = acl else { return Err(Fault::new("there is no list to match")) };
        let Some(acl) = program.acls.get(index as usize) else {
            return Err(Fault::new("Cannot match a null ACL"));
        };
        let Value::Ip(Some(address), _) = address else {
            return Err(Fault::new(format!("ACL {}: no protocol family", acl.name)));
        };
        Ok(self.in_acl(address, index))
    }

    fn in_acl(&mut self, address: std::net::IpAddr, acl: u32) -> bool {
        let Some(acl) = self.program.acls.get(acl as usize) else { return false };
        let entry = acl.find(address);
        let matched = entry.is_some_and(|entry| !entry.negated);
        if self.traced && acl.log {
            let entry = entry.map(|entry| &*entry.text);
            self.host.trace(Event::Acl { name: &acl.name, entry, matched });
        }
        matched
    }

    fn concatenate(&mut self, parts: &[Expr]) -> Result<Text> {
        // Parts may themselves use the workspace, so they are gathered behind it.
        let mut joined = std::mem::take(&mut self.task.scratch);
        joined.clear();
        let mut first_bytes = None;
        for part in parts {
            let mark = self.task.work.len();
            let text = match self.text(part) {
                Ok(text) => text,
                Err(fault) => {
                    self.task.scratch = joined;
                    return Err(fault);
                }
            };
            joined.extend_from_slice(self.bytes(text));
            first_bytes.get_or_insert(joined.len());
            self.task.work.truncate(mark);
            if joined.len() > self.task.budget {
                self.task.scratch = joined;
                return Err(Fault::new("out of workspace"));
            }
        }
        let text = self.store(&joined);
        self.task.scratch = joined;
        if let (Ok(text), Some(first_bytes)) = (&text, first_bytes) {
            self.task.joined = Some((*text, first_bytes));
        }
        text
    }

    fn with_case(&mut self, inner: &Expr, change: fn(&mut [u8])) -> Result<Value> {
        let text = self.text(inner)?;
        // As with Varnish, what has no letters at all is unset.
        if self.bytes(text).is_empty() {
            return Ok(Value::Text(Text::Unset));
        }
        let start = self.task.work.len();
        match text {
            Text::Work { start: from, len } => {
                self.reserve(len as usize)?;
                let from = from as usize;
                self.task.work.extend_from_within(from..from + len as usize);
            }
            _ => {
                let copy = self.bytes(text).to_vec();
                self.store(&copy)?;
            }
        }
        change(&mut self.task.work[start..]);
        Ok(Value::Text(self.stored_since(start)))
    }

    /// Calls a function of a module.
    pub(crate) fn call(
        &mut self,
        function: &'static Function,
        object: Option<u32>,
        arguments: &[Expr],
    ) -> Result<Value> {
        if !function.states.has(self.state) {
            return Err(function.misplaced(self.state));
        }
        let mut values = [Value::None; ARGUMENTS_MAX];
        let count = arguments.len().min(ARGUMENTS_MAX);
        for (slot, argument) in values.iter_mut().zip(arguments) {
            *slot = self.evaluate(argument)?;
        }
        self.charge(0)?;
        (function.call)(self, object.unwrap_or(u32::MAX), &values[..count])
    }
}
