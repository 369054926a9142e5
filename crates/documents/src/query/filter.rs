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

    /// Whether what it is given is a value the attribute may have: others are of no order, or a part of one.
    pub(super) fn is_of_whole_values(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }

    /// Whether an operator takes several values, of which one suffices (ETSI GS NFV-SOL 013 §5.2.2).
    fn takes_several(word: &str) -> bool {
        matches!(word, "in" | "nin" | "cont" | "ncont")
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

/// Reads `(eq,a/b,value);(in,c,1,'2,3')`. A value in single quotes may have any characters, `'` twice.
pub(super) fn filter(text: &str) -> Result<Vec<Condition>, Problem> {
    let wrong = |part: &str, what: &str| {
        Problem::bad_request(format!("filter: `{part}` is not understood; {what}"))
    };
    let form = "write (eq,attribute,value), and `;` between several";
    let read = |part: &str| {
        let inner = part.strip_prefix('(').and_then(|part| part.strip_suffix(')'));
        let mut words = cut(inner.ok_or_else(|| wrong(part, form))?, ',').into_iter();
        let word = words.next().unwrap_or_default();
        let operator = Operator::of(word).ok_or_else(|| wrong(part, form))?;
        let attribute = words.next().filter(|name| !name.is_empty());
        let attribute = attribute.ok_or_else(|| wrong(part, form))?;
        let values: Option<Vec<String>> = words.map(value).collect();
        let values = values.ok_or_else(|| {
            wrong(part, "write a value that begins with a quote as 'it''s', with quotes around it")
        })?;
        if values.is_empty() {
            return Err(wrong(part, form));
        }
        if values.len() > 1 && !Operator::takes_several(word) {
            let what = format!("`{word}` takes one value; `in` and `nin` take several");
            return Err(wrong(part, &what));
        }
        Ok(Condition { attribute: steps(attribute), operator, values })
    };
    cut(text, ';').into_iter().filter(|part| !part.is_empty()).map(read).collect()
}

/// Parts between signs that are in no quotes: these open behind a comma.
fn cut(text: &str, at: char) -> Vec<&str> {
    #[derive(PartialEq)]
    enum Is {
        Open,
        /// After a quote that ends it, or is the first of two.
        Closed,
        Plain,
    }
    let (mut parts, mut begin, mut is, mut before) = (Vec::new(), 0, Is::Plain, ' ');
    for (index, sign) in text.char_indices() {
        is = match (is, sign) {
            (Is::Open, '\'') => Is::Closed,
            (Is::Open, _) | (Is::Closed, '\'') => Is::Open,
            (Is::Plain, '\'') if before == ',' => Is::Open,
            _ => Is::Plain,
        };
        if sign == at && is == Is::Plain {
            parts.push(&text[begin..index]);
            begin = index + sign.len_utf8();
        }
        before = sign;
    }
    parts.push(&text[begin..]);
    parts
}

/// A value without its quotes; none where they do not match.
fn value(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix('\'') else { return Some(text.to_owned()) };
    let inner = rest.strip_suffix('\'')?;
    let is_whole = !inner.replace("''", "").contains('\'');
    is_whole.then(|| inner.replace("''", "'"))
}
