//! Queries: which documents of a collection, which of their members, and which page of them
//! (ETSI GS MEC 009 V3.3.1 §6.18, §6.19, §6.20).

mod filter;
mod members;
mod value;

use crate::limits::{CONDITIONS_MAX, PAGE_MAX, QUERY_BYTES_MAX};
use crate::problem::Problem;
use crate::shape::{Shape, Types};
use crate::table::Operation;
use filter::{Condition, Operator, filter};
use members::{Asked, Members};
use serde_json::Value;

/// What a query asks for.
#[derive(Debug, Default)]
pub struct Selection {
    /// All must hold.
    conditions: Vec<Condition>,
    members: Members,
    /// Documents go on after this path.
    pub after: Option<String>,
    /// Documents on a page.
    pub page: usize,
    /// Parameters of the operation as they were sent.
    pub parameters: Vec<(String, String)>,
}

impl Selection {
    /// Reads a query. Parameters of the operation are conditions on the attributes they stand for;
    /// any other name is wrong, as a client that misspells one would get everything.
    pub fn read(query: &str, operation: &Operation) -> Result<Self, Problem> {
        if query.len() > QUERY_BYTES_MAX {
            return Err(Problem::new(
                414,
                format!("{QUERY_BYTES_MAX} bytes of query are the most"),
            ));
        }
        let mut selection = Self { page: PAGE_MAX, ..Self::default() };
        let is_list = operation.is_list();
        let takes_selectors = operation.takes_selectors();
        let mut asked = Asked::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, written) = (decode_form(name), value);
            let value = decode_form(written);
            match name.as_str() {
                "filter" if is_list => selection.conditions.extend(filter(&value)?),
                "all_fields" if takes_selectors => asked.all = true,
                "fields" if takes_selectors => {
                    asked.fields.get_or_insert_default().extend(names(&value));
                }
                "exclude_fields" if takes_selectors => {
                    asked.without.get_or_insert_default().extend(names(&value));
                }
                "exclude_default" if takes_selectors => asked.default = true,
                "nextpage_opaque_marker" if is_list => selection.after = Some(value),
                "size" if is_list => selection.page = page(&value)?,
                _ => selection.parameter(operation, name, value, written)?,
            }
        }
        selection.members = asked.members(&operation.left_out)?;
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
        written: &str,
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
        // A comma that is escaped is of a value.
        let values: Vec<String> = written.split(',').map(decode_form).collect();
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

    /// What is wrong with attributes of a filter and with values for them, or with a choice of members, of documents of
    /// this shape.
    pub fn mistake(&self, types: &Types, shape: &Shape, operation: &Operation) -> Option<String> {
        let of_filter = self.conditions.iter().map(|condition| condition.attribute.clone());
        let mut all = of_filter.chain(self.members.named().iter().map(|name| steps(name)));
        if let Some(unknown) = all.find(|steps| !types.has(shape, steps)) {
            return Some(format!("there is no attribute {}", unknown.join("/")));
        }
        let wrong = self.conditions.iter().find_map(|condition| {
            let what = condition.values.iter().filter(|_| condition.operator.is_of_whole_values());
            let mut what =
                what.filter_map(|text| value::mistake(types, shape, &condition.attribute, text));
            what.next().map(|what| format!("`{}` {what}", self.called(condition, operation)))
        });
        if wrong.is_some() {
            return wrong;
        }
        let always = self.members.always(types, shape)?;
        Some(format!("{always} is always there: it is no object and no list, or has to be there"))
    }

    /// What the query calls an attribute: its own name, or the parameter's.
    fn called(&self, condition: &Condition, operation: &Operation) -> String {
        let mut parameters = operation.parameters.iter();
        let parameter = parameters.find(|one| {
            steps(&one.attribute) == condition.attribute
                && self.parameters.iter().any(|(name, _)| *name == one.name)
        });
        parameter.map_or_else(|| condition.attribute.join("/"), |one| one.name.clone())
    }

    /// Whether a document is asked for.
    pub fn wants(&self, document: &Value) -> bool {
        self.conditions.iter().all(|condition| condition.holds(document))
    }

    /// A document of a shape with the members that are asked for.
    pub fn project(&self, types: &Types, shape: Option<&Shape>, document: &Value) -> Value {
        self.members.project(types, shape, document)
    }
}

fn page(text: &str) -> Result<usize, Problem> {
    let size: Option<usize> = text.parse().ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Problem::bad_request("`size` must be a number from 1 on"))?;
    Ok(size.min(PAGE_MAX))
}

fn names(list: &str) -> Vec<String> {
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Whether a document of a shape may do without an attribute, which is an object or a list.
pub(crate) fn may_be_left_out(types: &Types, shape: &Shape, attribute: &str) -> bool {
    members::may_be_left_out(types, shape, &steps(attribute))
}

fn steps(attribute: &str) -> Vec<String> {
    attribute.split('/').map(str::to_owned).collect()
}

/// Percent-decoding; what is not a complete sequence stays as it is.
pub fn decode(text: &str) -> String {
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
pub fn decode_form(text: &str) -> String {
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
            left_out: Vec::new(),
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
    fn wrong_queries_are_refused() {
        for query in [
            "sername=a",
            "ser_name=",
            "filter=eq,a,1",
            "filter=(like,a,1)",
            "filter=(eq,a)",
            "size=0",
            "all_fields&fields=a",
            "fields=a&exclude_fields=b",
            "exclude_default&exclude_fields=b",
            "all_fields&exclude_default",
        ] {
            assert_eq!(read(query).unwrap_err().status, 400, "{query}");
        }
        assert_eq!(read(&"a".repeat(QUERY_BYTES_MAX + 1)).unwrap_err().status, 414);
        let many = format!("filter={}", "(eq,a,1);".repeat(CONDITIONS_MAX + 1));
        assert_eq!(read(&many).unwrap_err().status, 400);
    }
}
