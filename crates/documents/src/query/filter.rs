//! Conditions on attributes of documents (ETSI GS MEC 009 V3.3.1 §6.19).

use super::steps;
use crate::problem::Problem;
use serde_json::Value;
use std::cmp::Ordering;

/// A condition on an attribute.
#[derive(Debug)]
pub(super) struct Condition {
    /// Steps through the document; lists are gone through.
    pub(super) attribute: Vec<String>,
    pub(super) operator: Operator,
    pub(super) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    NotContains,
}

impl Operator {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "eq" | "in" => Self::Equal,
            "neq" | "nin" => Self::NotEqual,
            "lt" => Self::Less,
            "lte" => Self::LessOrEqual,
            "gt" => Self::Greater,
            "gte" => Self::GreaterOrEqual,
            "cont" => Self::Contains,
            "ncont" => Self::NotContains,
            _ => return None,
        })
    }
}

impl Condition {
    pub(super) fn holds(&self, document: &Value) -> bool {
        let mut found = Vec::new();
        collect(document, &self.attribute, &mut found);
        let any = |test: &dyn Fn(&Value, &str) -> bool| {
            found.iter().any(|value| self.values.iter().any(|other| test(value, other)))
        };
        let order = |wanted: &[Ordering]| {
            any(&|value, other| compare(value, other).is_some_and(|order| wanted.contains(&order)))
        };
        match self.operator {
            Operator::Equal => order(&[Ordering::Equal]),
            Operator::NotEqual => !order(&[Ordering::Equal]),
            Operator::Less => order(&[Ordering::Less]),
            Operator::LessOrEqual => order(&[Ordering::Less, Ordering::Equal]),
            Operator::Greater => order(&[Ordering::Greater]),
            Operator::GreaterOrEqual => order(&[Ordering::Greater, Ordering::Equal]),
            Operator::Contains => any(&contains),
            Operator::NotContains => !any(&contains),
        }
    }
}

fn contains(value: &Value, other: &str) -> bool {
    value.as_str().is_some_and(|text| text.contains(other))
}

/// The order of a value against what a query says; none where they are not of a kind.
fn compare(value: &Value, other: &str) -> Option<Ordering> {
    match value {
        Value::String(text) => Some(text.as_str().cmp(other)),
        Value::Number(number) => number.as_f64()?.partial_cmp(&other.parse().ok()?),
        Value::Bool(is) => Some(is.cmp(&other.to_ascii_lowercase().parse().ok()?)),
        _ => None,
    }
}

/// The values an attribute has: lists on the way, and at its end, are gone through.
fn collect<'a>(value: &'a Value, steps: &[impl AsRef<str>], into: &mut Vec<&'a Value>) {
    match (value, steps) {
        (Value::Array(list), _) => list.iter().for_each(|value| collect(value, steps, into)),
        (value, []) => into.push(value),
        (value, [first, rest @ ..]) => {
            if let Some(value) = value.get(first.as_ref()) {
                collect(value, rest, into);
            }
        }
    }
}

/// Reads `(eq,a/b,value);(in,c,1,2)`.
pub(super) fn filter(text: &str) -> Result<Vec<Condition>, Problem> {
    let wrong = |part: &str| {
        Problem::bad_request(format!(
            "filter: `{part}` is not understood; write (eq,attribute,value), and `;` between several"
        ))
    };
    let parts = text.split(';').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let inner = part.strip_prefix('(').and_then(|part| part.strip_suffix(')'));
            let mut words = inner.ok_or_else(|| wrong(part))?.split(',').map(str::to_owned);
            let operator = words.next().and_then(|word| Operator::of(&word));
            let operator = operator.ok_or_else(|| wrong(part))?;
            let attribute =
                words.next().filter(|name| !name.is_empty()).ok_or_else(|| wrong(part))?;
            let values: Vec<String> = words.collect();
            if values.is_empty() {
                return Err(wrong(part));
            }
            Ok(Condition { attribute: steps(&attribute), operator, values })
        })
        .collect()
}
