//! Queries: which documents of a collection, which of their members, and which page of them
//! (ETSI GS MEC 009 V3.3.1 §6.18, §6.19, §6.20).

use crate::limits::{CONDITIONS_MAX, PAGE_MAX, QUERY_BYTES_MAX};
use crate::problem::Problem;
use crate::table::Operation;
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// What a query asks for.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// All must hold.
    conditions: Vec<Condition>,
    members: Members,
    /// Documents go on after this path.
    pub(crate) after: Option<String>,
    /// Documents on a page.
    pub(crate) page: usize,
    /// Parameters of the operation as they were sent.
    pub(crate) parameters: Vec<(String, String)>,
}

/// Members of documents that are given.
#[derive(Debug, Default)]
enum Members {
    #[default]
    All,
    Only(Vec<String>),
    Without(Vec<String>),
}

/// A condition on an attribute.
#[derive(Debug)]
struct Condition {
    /// Steps through the document; lists are gone through.
    attribute: Vec<String>,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Operator {
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

impl Selection {
    /// Reads a query. Parameters of the operation are conditions on the attributes they stand for;
    /// any other name is wrong, as a client that misspells one would get everything.
    pub(crate) fn read(query: &str, operation: &Operation) -> Result<Self, Problem> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(Problem::new(
                414,
                format!("{QUERY_BYTES_MAX} bytes of query are the most"),
            ));
        }
        let mut selection = Self { page: PAGE_MAX, ..Self::default() };
        let is_list = matches!(operation.act, crate::table::Act::List(_));
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode_form(name), decode_form(value));
            match name.as_str() {
                "filter" if is_list => selection.conditions.extend(filter(&value)?),
                "all_fields" if is_list => selection.members = Members::All,
                "fields" if is_list => selection.members = Members::Only(names(&value)),
                "exclude_fields" if is_list => selection.members = Members::Without(names(&value)),
                "exclude_default" if is_list => {}
                "nextpage_opaque_marker" if is_list => selection.after = Some(value),
                "size" if is_list => selection.page = page(&value)?,
                _ => selection.parameter(operation, name, value)?,
            }
        }
        if selection.conditions.len() > CONDITIONS_MAX {
            return Err(Problem::bad_request(format!("{CONDITIONS_MAX} conditions are the most")));
        }
        for parameter in operation.parameters.iter().filter(|parameter| parameter.is_required) {
            if !selection.parameters.iter().any(|(name, _)| *name == parameter.name) {
                return Err(Problem::bad_request(format!("the query lacks `{}`", parameter.name)));
            }
        }
        Ok(selection)
    }

    fn parameter(
        &mut self,
        operation: &Operation,
        name: String,
        value: String,
    ) -> Result<(), Problem> {
        let Some(parameter) = operation.parameters.iter().find(|one| one.name == name) else {
            let known: Vec<&str> =
                operation.parameters.iter().map(|one| one.name.as_str()).collect();
            return Err(Problem::bad_request(format!(
                "the query has `{name}`; this takes {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )));
        };
        if value.is_empty() {
            return Err(Problem::bad_request(format!("`{name}` has no value")));
        }
        if parameter.attribute == "-" {
            self.parameters.push((name, value));
            return Ok(());
        }
        let values: Vec<String> = value.split(',').map(str::to_owned).collect();
        let attribute = steps(&parameter.attribute);
        let again = self
            .conditions
            .iter_mut()
            .find(|one| one.attribute == attribute && one.operator == Operator::Equal);
        match again {
            Some(condition) => condition.values.extend(values),
            None => {
                self.conditions.push(Condition { attribute, operator: Operator::Equal, values })
            }
        }
        self.parameters.push((name, value));
        Ok(())
    }

    /// Whether a document is asked for.
    pub(crate) fn wants(&self, document: &Value) -> bool {
        self.conditions.iter().all(|condition| condition.holds(document))
    }

    /// A document with the members that are asked for.
    pub(crate) fn project(&self, document: &Value) -> Value {
        match &self.members {
            Members::All => document.clone(),
            Members::Only(names) => {
                let mut out = Value::Object(Map::new());
                names.iter().for_each(|name| keep(document, &steps(name), &mut out));
                out
            }
            Members::Without(names) => {
                let mut out = document.clone();
                names.iter().for_each(|name| leave_out(&mut out, &steps(name)));
                out
            }
        }
    }
}

fn keep(from: &Value, steps: &[String], to: &mut Value) {
    let [first, rest @ ..] = steps else { return };
    let (Some(value), Value::Object(to)) = (from.get(first), to) else { return };
    if rest.is_empty() {
        to.insert(first.clone(), value.clone());
    } else if value.is_object() {
        keep(value, rest, to.entry(first.clone()).or_insert_with(|| Value::Object(Map::new())));
    }
}

fn leave_out(from: &mut Value, steps: &[String]) {
    match (steps, from) {
        ([last], Value::Object(members)) => {
            members.remove(last);
        }
        ([first, rest @ ..], Value::Object(members)) => {
            if let Some(value) = members.get_mut(first) {
                leave_out(value, rest);
            }
        }
        (steps, Value::Array(list)) => list.iter_mut().for_each(|value| leave_out(value, steps)),
        _ => {}
    }
}

impl Condition {
    fn holds(&self, document: &Value) -> bool {
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
pub(crate) fn collect<'a>(value: &'a Value, steps: &[impl AsRef<str>], into: &mut Vec<&'a Value>) {
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
fn filter(text: &str) -> Result<Vec<Condition>, Problem> {
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

fn page(text: &str) -> Result<usize, Problem> {
    let size: Option<usize> = text.parse().ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Problem::bad_request("`size` must be a number from 1 on"))?;
    Ok(size.min(PAGE_MAX))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn steps(attribute: &str) -> Vec<String> {
    attribute.split('/').map(str::to_owned).collect()
}

/// Percent-decoding; what is not a complete sequence stays as it is.
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.split_at_checked(2).filter(|_| *first == b'%');
        let decoded = digits.and_then(|(digits, after)| {
            let text = std::str::from_utf8(digits).ok()?;
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            Some((u8::from_str_radix(text, 16).ok().filter(|_| is_hex)?, after))
        });
        let (byte, after) = decoded.unwrap_or((*first, after));
        out.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// As [`decode`], of forms and queries, where `+` is a space.
pub(crate) fn decode_form(text: &str) -> String {
    decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Act, Method};
    use serde_json::json;

    fn read(query: &str) -> Result<Selection, Problem> {
        let parameter = crate::table::Parameter {
            name: "ser_name".into(),
            attribute: "serName".into(),
            is_required: false,
        };
        let operation = Operation {
            method: Method::Get,
            act: Act::List(crate::table::View { pattern: Vec::new(), is_public: false }),
            body: None,
            answer: None,
            parameters: vec![parameter],
            scope: String::new(),
        };
        Selection::read(query, &operation)
    }

    #[test]
    fn conditions_select_documents() {
        let document = json!({"serName": "a b", "n": 5, "is": true, "in": [{"x": 1}, {"x": 2}]});
        for (query, wants) in [
            ("", true),
            ("ser_name=a+b", true),
            ("ser_name=a%20b,c", true),
            ("ser_name=c&ser_name=a%20b", true),
            ("ser_name=c", false),
            ("filter=(eq,serName,a%20b)", true),
            ("filter=(eq,in/x,2);(gt,n,4)", true),
            ("filter=(eq,in/x,2);(gt,n,5)", false),
            ("filter=(neq,in/x,2)", false),
            ("filter=(nin,n,1,2)", true),
            ("filter=(cont,serName,a)", true),
            ("filter=(ncont,serName,a)", false),
            ("filter=(lte,n,5)", true),
            ("filter=(eq,is,TRUE)", true),
            ("filter=(eq,absent,1)", false),
        ] {
            assert_eq!(read(query).unwrap().wants(&document), wants, "{query}");
        }
    }

    #[test]
    fn members_are_chosen() {
        let document = json!({"a": {"b": 1, "c": 2}, "d": [{"e": 1, "f": 2}]});
        let project = |query| read(query).unwrap().project(&document);
        assert_eq!(project("all_fields"), document);
        assert_eq!(project("fields=a/b,none"), json!({"a": {"b": 1}}));
        assert_eq!(project("exclude_fields=a/b,d/e"), json!({"a": {"c": 2}, "d": [{"f": 2}]}));
    }

    #[test]
    fn wrong_queries_are_refused() {
        for query in [
            "sername=a",
            "ser_name=",
            "filter=eq,a,1",
            "filter=(like,a,1)",
            "filter=(eq,a)",
            "size=0",
        ] {
            assert_eq!(read(query).unwrap_err().status, 400, "{query}");
        }
        assert_eq!(read(&"a".repeat(QUERY_BYTES_MAX + 1)).unwrap_err().status, 414);
        let many = format!("filter={}", "(eq,a,1);".repeat(CONDITIONS_MAX + 1));
        assert_eq!(read(&many).unwrap_err().status, 400);
    }
}
