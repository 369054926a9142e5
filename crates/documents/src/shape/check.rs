//! Whether a document is of a type: every mistake with its place, as a JSON pointer (RFC 6901).

use super::{Presence, Shape, Type, Types};
use crate::limits::{DEPTH_MAX, MISTAKES_MAX};
use serde_json::Value;

/// Who made a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// A client: what the platform gives need not be there.
    Request,
    /// The platform: all of it is there.
    Answer,
}

impl Types {
    /// What is wrong with a value, each with its place; nothing where it is of the shape. No more
    /// than [`MISTAKES_MAX`] are named.
    pub fn mistakes(&self, shape: &Shape, value: &Value, of: Direction) -> Vec<String> {
        let mut check = Check { types: self, of, place: String::new(), mistakes: Vec::new() };
        check.value(shape, value, 0);
        check.mistakes
    }
}

struct Check<'a> {
    types: &'a Types,
    of: Direction,
    place: String,
    mistakes: Vec<String>,
}

impl Check<'_> {
    fn wrong(&mut self, what: impl std::fmt::Display) {
        if self.mistakes.len() < MISTAKES_MAX {
            let place = if self.place.is_empty() { "the body" } else { &self.place };
            self.mistakes.push(format!("{place} {what}"));
        }
    }

    fn within(&mut self, step: &str, check: impl FnOnce(&mut Self)) {
        let length = self.place.len();
        self.place.push('/');
        self.place.push_str(&step.replace('~', "~0").replace('/', "~1"));
        check(self);
        self.place.truncate(length);
    }

    fn value(&mut self, shape: &Shape, value: &Value, depth: usize) {
        if depth > DEPTH_MAX {
            return self.wrong(format_args!("is deeper than {DEPTH_MAX}"));
        }
        match (shape, value) {
            (Shape::Any, _) | (Shape::Object, Value::Object(_)) => {}
            (Shape::Object, _) => self.wrong("must be an object"),
            (Shape::Text, Value::String(_)) => {}
            (Shape::Text, _) => self.wrong("must be a string"),
            (Shape::Uri, Value::String(text)) if is_uri_reference(text) => {}
            (Shape::Uri, _) => self.wrong("must be a URI"),
            (Shape::Time, Value::String(text)) if crate::time::read(text).is_some() => {}
            (Shape::Time, _) => self.wrong("must be a time such as 2026-01-31T12:00:00Z"),
            (Shape::Choice(known), Value::String(text)) if known.contains(text) => {}
            (Shape::Choice(known), _) => {
                self.wrong(format_args!("must be one of {}", known.join(", ")));
            }
            (Shape::Code(known), value)
                if whole(value)
                    .is_some_and(|code| known.iter().any(|known| i128::from(*known) == code)) => {}
            (Shape::Code(known), _) => self.wrong(format_args!("must be one of {known:?}")),
            (Shape::Integer(min, max), value) => match whole(value) {
                Some(number) if (i128::from(*min)..=i128::from(*max)).contains(&number) => {}
                Some(_) if *max == i64::MAX => self.wrong(format_args!("must be at least {min}")),
                Some(_) => self.wrong(format_args!("must be between {min} and {max}")),
                None => self.wrong("must be a whole number"),
            },
            (Shape::Number, Value::Number(_)) | (Shape::Boolean, Value::Bool(_)) => {}
            (Shape::Number, _) => self.wrong("must be a number"),
            (Shape::Boolean, _) => self.wrong("must be true or false"),
            (Shape::List(of, min, max), Value::Array(list)) => {
                if !(*min..=*max).contains(&list.len()) {
                    let most = if *max == usize::MAX {
                        String::new()
                    } else {
                        format!(" and at most {max}")
                    };
                    self.wrong(format_args!("must have at least {min}{most}"));
                }
                for (index, value) in list.iter().enumerate() {
                    self.within(&index.to_string(), |check| check.value(of, value, depth + 1));
                }
            }
            (Shape::List(..), _) => self.wrong("must be a list"),
            (Shape::Either(shapes), value) => self.either(shapes, value, depth),
            (Shape::Named(name), value) => match self.types.0.get(name) {
                Some(Type::Alias(shape)) => self.value(shape, value, depth + 1),
                Some(Type::Record(_)) => self.record(name, value, depth),
                None => self.wrong(format_args!("is of the type {name}, which is not there")),
            },
        }
    }

    fn record(&mut self, name: &str, value: &Value, depth: usize) {
        let Some(Type::Record(fields)) = self.types.0.get(name) else { return };
        let Value::Object(members) = value else {
            return self.wrong(format_args!("must be an object: {name}"));
        };
        for field in fields {
            let is_ours = field.presence == Presence::Given && self.of == Direction::Request;
            match members.get(&field.name) {
                _ if is_ours => {}
                Some(value) => {
                    self.within(&field.name, |check| check.value(&field.shape, value, depth + 1));
                }
                None if field.presence == Presence::Optional => {}
                None => self.within(&field.name, |check| check.wrong("is missing")),
            }
        }
    }

    /// One of several: the first that fits, or the mistakes of the one that is meant.
    fn either(&mut self, shapes: &[Shape], value: &Value, depth: usize) {
        let mut fewest: Option<Vec<String>> = None;
        for shape in shapes {
            let mut check = Check {
                types: self.types,
                of: self.of,
                place: self.place.clone(),
                mistakes: Vec::new(),
            };
            check.value(shape, value, depth + 1);
            if check.mistakes.is_empty() {
                return;
            }
            if fewest.as_ref().is_none_or(|fewest| check.mistakes.len() < fewest.len()) {
                fewest = Some(check.mistakes);
            }
        }
        let room = MISTAKES_MAX.saturating_sub(self.mistakes.len());
        self.mistakes.extend(fewest.unwrap_or_default().into_iter().take(room));
    }
}

/// A number without a fraction, also one that is written with one: `1.0`.
pub(super) fn whole(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    number.as_i128().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i128)
    })
}

/// Characters of RFC 3986 alone, and something before and after a scheme.
fn is_uri_reference(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%{}".contains(&byte)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Field, read::shape};
    use serde_json::json;

    fn types() -> Types {
        let field = |name: &str, presence, text| Field {
            name: name.to_owned(),
            presence,
            shape: shape(text).unwrap(),
        };
        let record = vec![
            field("id", Presence::Given, "string"),
            field("kind", Presence::Required, "enum A B"),
            field("many", Presence::Optional, "[Few] 1..2"),
        ];
        let few = Type::Alias(shape("integer 0..9").unwrap());
        Types([("One".to_owned(), Type::Record(record)), ("Few".to_owned(), few)].into())
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let types = types();
        let one = Shape::Named("One".to_owned());
        let of = |value: Value, of| types.mistakes(&one, &value, of);
        assert!(of(json!({"kind": "A", "many": [1, 2.0]}), Direction::Request).is_empty());
        assert_eq!(
            of(json!({"kind": "C", "many": [1, 10, "x"]}), Direction::Request),
            [
                "/kind must be one of A, B",
                "/many must have at least 1 and at most 2",
                "/many/1 must be between 0 and 9",
                "/many/2 must be a whole number",
            ]
        );
        assert_eq!(of(json!([]), Direction::Request), ["the body must be an object: One"]);
        assert_eq!(of(json!({"kind": "A"}), Direction::Answer), ["/id is missing"]);
        assert!(of(json!({"kind": "A", "id": 7}), Direction::Request).is_empty());
    }

    #[test]
    fn one_of_several_suffices_and_the_nearest_is_blamed() {
        let types = types();
        let shape = shape("One or Few").unwrap();
        let of = |value: Value| types.mistakes(&shape, &value, Direction::Request);
        assert!(of(json!(3)).is_empty() && of(json!({"kind": "B"})).is_empty());
        assert_eq!(of(json!({"kind": "C"})), ["/kind must be one of A, B"]);
    }

    #[test]
    fn mistakes_have_a_bound() {
        let types = types();
        let list = shape("[Few]").unwrap();
        let many = Value::Array(vec![json!("x"); 10_000]);
        assert_eq!(types.mistakes(&list, &many, Direction::Request).len(), MISTAKES_MAX);
    }
}
