//! One way to say what JSON says in several, so that whoever reads a document need know one.

use super::check::whole;
use super::{Direction, Field, Shape, Types};
use serde_json::{Map, Value};

impl Types {
    /// Has a client's value of a shape say it in one way: a whole number has no fraction (`1.0`), and a body that is
    /// around one object has no other member, which would be nobody's.
    pub fn settle(&self, shape: &Shape, value: &mut Value) {
        match (self.plain(shape), value) {
            (Shape::Integer(..) | Shape::Code(_), value) => {
                let number = whole(value).and_then(|number| i64::try_from(number).ok());
                if let Some(number) = number.filter(|_| value.is_f64()) {
                    *value = number.into();
                }
            }
            (Shape::List(of, ..), Value::Array(list)) => {
                list.iter_mut().for_each(|one| self.settle(of, one));
            }
            (Shape::Either(shapes), value) => {
                let fits =
                    |shape: &&Shape| self.mistakes(shape, value, Direction::Request).is_empty();
                if let Some(shape) = shapes.iter().find(fits) {
                    self.settle(shape, value);
                }
            }
            (shape, Value::Object(members)) => {
                if let Some(fields) = self.fields(shape) {
                    self.settle_members(fields, members);
                }
            }
            _ => {}
        }
    }

    fn settle_members(&self, fields: &[Field], members: &mut Map<String, Value>) {
        if let Some(inner) = self.around(fields) {
            members.retain(|name, _| *name == inner.name);
        }
        for field in fields {
            if let Some(member) = members.get_mut(&field.name) {
                self.settle(&field.shape, member);
            }
        }
    }

    /// The one field of a record that is there to be around it: a subscription, as ETSI GS MEC 013 writes them.
    fn around<'a>(&self, fields: &'a [Field]) -> Option<&'a Field> {
        let [field] = fields else { return None };
        let inner = self.fields(&field.shape)?;
        inner.iter().any(|one| one.name == "callbackReference").then_some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Presence, Type, read::shape};
    use serde_json::json;

    #[test]
    fn whole_numbers_have_no_fraction_and_a_body_one_member() {
        let record = |fields: &[(&str, &str)]| {
            let field = |(name, text): &(&str, &str)| Field {
                name: (*name).to_owned(),
                presence: Presence::Required,
                shape: shape(text).unwrap(),
            };
            Type::Record(fields.iter().map(field).collect())
        };
        let types = Types(
            [
                ("Body".to_owned(), record(&[("one", "One")])),
                ("One".to_owned(), record(&[("callbackReference", "uri"), ("many", "[Few]")])),
                ("Few".to_owned(), Type::Alias(shape("string or integer or enum 1 2").unwrap())),
                ("Plain".to_owned(), record(&[("at", "number")])),
            ]
            .into(),
        );
        let settled = |name: &str, mut value: Value| {
            types.settle(&Shape::Named(name.to_owned()), &mut value);
            value.to_string()
        };
        let one = json!({"callbackReference": "http://a/", "many": ["x", 10.0, 3]});
        assert_eq!(
            settled("Body", json!({"a": 1, "one": one})),
            r#"{"one":{"callbackReference":"http://a/","many":["x",10,3]}}"#
        );
        assert_eq!(settled("Plain", json!({"at": 60.0, "b": 1})), r#"{"at":60.0,"b":1}"#);
    }
}
