//! Which members of documents are given (ETSI GS MEC 009 §6.18). What is asked for are complex attributes, objects and
//! lists, that a document may do without: all else is always there, so that what is given stays of its type.

use super::steps;
use crate::problem::Problem;
use crate::shape::{Direction, Presence, Shape, Types};
use serde_json::{Map, Value};

/// Members of documents that are given.
#[derive(Debug, Default)]
pub(super) enum Members {
    #[default]
    All,
    /// Of those that may be left out these alone.
    Only(Vec<String>),
    Without(Vec<String>),
    /// Without those that are left out unless they are asked for, but with those that are.
    Default {
        left_out: Vec<String>,
        fields: Vec<String>,
    },
}

/// The selectors of a query.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) all: bool,
    pub(super) fields: Option<Vec<String>>,
    pub(super) without: Option<Vec<String>>,
    pub(super) default: bool,
}

impl Asked {
    /// What they mean together (ETSI GS MEC 009 §6.18.3): no selector is as good as `exclude_default`, which may stand
    /// beside `fields`.
    pub(super) fn members(self, left_out: &[String]) -> Result<Members, Problem> {
        match self {
            Self { all: true, fields: None, without: None, default: false } => Ok(Members::All),
            Self { all: false, fields: Some(names), without: None, default: false } => {
                Ok(Members::Only(names))
            }
            Self { all: false, fields: None, without: Some(names), default: false } => {
                Ok(Members::Without(names))
            }
            Self { all: false, fields, without: None, .. } => Ok(Members::Default {
                left_out: left_out.to_vec(),
                fields: fields.unwrap_or_default(),
            }),
            _ => Err(Problem::bad_request(
                "the query: one of all_fields, fields, exclude_fields and exclude_default is enough; the last may be \
                 beside fields",
            )),
        }
    }
}

impl Members {
    pub(super) fn named(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Only(names) | Self::Without(names) | Self::Default { fields: names, .. } => names,
        }
    }

    /// One that is to be left out and is always there.
    pub(super) fn always(&self, types: &Types, shape: &Shape) -> Option<&str> {
        let Self::Without(names) = self else { return None };
        let mut names = names.iter().map(String::as_str);
        names.find(|name| !may_be_left_out(types, shape, &steps(name)))
    }

    /// A document of a shape with the members that are asked for.
    pub(super) fn project(&self, types: &Types, shape: Option<&Shape>, document: &Value) -> Value {
        let shape = shape.unwrap_or(&Shape::Any);
        match self {
            Self::All => document.clone(),
            Self::Only(names) => {
                let names: Vec<Vec<String>> = names.iter().map(|name| steps(name)).collect();
                let names: Vec<&[String]> = names.iter().map(Vec::as_slice).collect();
                only(types, shape, document, &names)
            }
            Self::Without(names) => {
                let mut out = document.clone();
                names.iter().for_each(|name| leave_out(&mut out, &steps(name)));
                out
            }
            Self::Default { left_out, fields } => {
                let is_asked = |name: &&String| {
                    fields.iter().any(|field| is_within(field, name) || is_within(name, field))
                };
                let mut out = document.clone();
                let names = left_out.iter().filter(|name| !is_asked(name));
                names.for_each(|name| leave_out(&mut out, &steps(name)));
                out
            }
        }
    }
}

/// Whether an attribute is another, or is in it.
fn is_within(name: &str, other: &str) -> bool {
    name.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn may_be_left_out(types: &Types, shape: &Shape, name: &[String]) -> bool {
    let Some((first, rest)) = name.split_first() else { return false };
    match types.plain(shape) {
        Shape::Any | Shape::Object => true,
        Shape::List(of, ..) => may_be_left_out(types, of, name),
        Shape::Either(shapes) => shapes.iter().any(|one| may_be_left_out(types, one, name)),
        shape => types.fields(shape).into_iter().flatten().any(|field| {
            field.name == *first
                && match rest {
                    [] => field.presence == Presence::Optional && is_complex(types, &field.shape),
                    rest => may_be_left_out(types, &field.shape, rest),
                }
        }),
    }
}

/// Whether what is of a shape has a structure, or is a list.
fn is_complex(types: &Types, shape: &Shape) -> bool {
    match types.plain(shape) {
        Shape::Any | Shape::Object | Shape::List(..) | Shape::Named(_) => true,
        Shape::Either(shapes) => shapes.iter().any(|one| is_complex(types, one)),
        _ => false,
    }
}

/// A value with what is always there, and what is named: whole where a name ends.
fn only(types: &Types, shape: &Shape, value: &Value, names: &[&[String]]) -> Value {
    let shape = meant(types, types.plain(shape), value);
    match value {
        Value::Array(list) => {
            let of = if let Shape::List(of, ..) = shape { of } else { &Shape::Any };
            list.iter().map(|one| only(types, of, one, names)).collect()
        }
        Value::Object(members) => {
            let fields = types.fields(shape);
            let mut out = Map::new();
            for (name, value) in members {
                let below: Vec<&[String]> = names
                    .iter()
                    .filter_map(|one| one.split_first().filter(|(first, _)| *first == name))
                    .map(|(_, rest)| rest)
                    .collect();
                let field = fields.and_then(|fields| fields.iter().find(|one| one.name == *name));
                let is_whole = below.iter().any(|rest| rest.is_empty());
                let is_simple = !value.is_object() && !value.is_array();
                let is_always = field.is_some_and(|field| field.presence != Presence::Optional);
                // What may have anything in it has it, where it has to be there.
                let is_free = is_always
                    && below.is_empty()
                    && field.is_none_or(|field| {
                        matches!(types.plain(&field.shape), Shape::Any | Shape::Object)
                    });
                if is_whole || is_simple || is_free {
                    out.insert(name.clone(), value.clone());
                } else if is_always || !below.is_empty() {
                    let shape = field.map_or(&Shape::Any, |field| &field.shape);
                    out.insert(name.clone(), only(types, shape, value, &below));
                }
            }
            out.into()
        }
        value => value.clone(),
    }
}

/// The one of several shapes that a value is of.
fn meant<'a>(types: &'a Types, shape: &'a Shape, value: &Value) -> &'a Shape {
    let Shape::Either(shapes) = shape else { return shape };
    let fits = |one: &&Shape| types.mistakes(one, value, Direction::Answer).is_empty();
    let found = shapes.iter().find(fits).or_else(|| shapes.first());
    found.map_or(shape, |one| meant(types, types.plain(one), value))
}

fn leave_out(from: &mut Value, name: &[String]) {
    match (name, from) {
        ([last], Value::Object(members)) => {
            members.remove(last);
        }
        ([first, rest @ ..], Value::Object(members)) => {
            if let Some(value) = members.get_mut(first) {
                leave_out(value, rest);
            }
        }
        (name, Value::Array(list)) => list.iter_mut().for_each(|value| leave_out(value, name)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Types as the tables write them, of which `One` is the document's.
    fn types() -> Types {
        let text = "api a v1 of tests\n\
            type One\n  name string\n  note? string\n  a? A\n  list? [string]\n  must [B]\n  any object\n  none? object\n\
            type A\n  b? B\n  c? integer\n  d B\n\
            type B\n  e string\n  f? object\n";
        crate::table::read(&[("a", text)]).expect("a table").0.remove(0).types
    }

    fn document() -> Value {
        let b = json!({"e": "1", "f": {"x": 1}});
        json!({
            "name": "n", "note": "o", "list": ["l"], "must": [b, b], "any": {"y": [1]}, "none": {"z": 1},
            "a": {"b": b, "c": 2, "d": b},
        })
    }

    fn only(names: &str) -> Value {
        let names = names.split(',').map(str::to_owned).collect();
        let (types, shape) = (types(), Shape::Named("One".to_owned()));
        let found = Members::Only(names).project(&types, Some(&shape), &document());
        assert_eq!(types.mistakes(&shape, &found, Direction::Answer), Vec::<String>::new());
        found
    }

    #[test]
    fn what_is_simple_or_has_to_be_there_is_always_there() {
        let bare = json!({"e": "1"});
        let least = json!({"name": "n", "note": "o", "must": [bare, bare], "any": {"y": [1]}});
        let with = |name: &str, value: Value| {
            let mut with = least.clone();
            with[name] = value;
            with
        };
        assert_eq!(only("name"), least);
        assert_eq!(only("absent"), least);
        assert_eq!(only("list"), with("list", json!(["l"])));
        assert_eq!(only("a"), with("a", document()["a"].clone()));
        assert_eq!(only("a/c"), with("a", json!({"c": 2, "d": bare})));
        let whole = json!({"e": "1", "f": {"x": 1}});
        assert_eq!(only("a/b"), with("a", json!({"b": whole, "c": 2, "d": bare})));
        assert_eq!(only("a/b/e"), with("a", json!({"b": bare, "c": 2, "d": bare})));
        assert_eq!(only("must/f"), with("must", json!([whole, whole])));
        assert_eq!(only("none/z"), with("none", json!({"z": 1})));
    }

    #[test]
    fn what_is_left_out_by_default_is_there_when_it_is_asked_for() {
        let (types, shape) = (types(), Shape::Named("One".to_owned()));
        let given = |asked: Asked| {
            let left_out = ["a/b", "list"].map(str::to_owned);
            let members = asked.members(&left_out).expect("they go together");
            members.project(&types, Some(&shape), &document())
        };
        let mut bare = document();
        bare.as_object_mut().expect("an object").remove("list");
        bare["a"].as_object_mut().expect("an object").remove("b");
        assert_eq!(given(Asked::default()), bare);
        assert_eq!(given(Asked { default: true, ..Asked::default() }), bare);
        assert_eq!(given(Asked { all: true, ..Asked::default() }), document());
        let beside = |names: &[&str]| {
            let fields = Some(names.iter().map(|name| (*name).to_owned()).collect());
            given(Asked { default: true, fields, ..Asked::default() })
        };
        assert_eq!(beside(&["list", "a"]), document());
        assert_eq!(beside(&["list", "a/b/f"]), document());
        bare["list"] = document()["list"].clone();
        assert_eq!(beside(&["list", "none"]), bare);
    }

    #[test]
    fn only_what_may_be_missing_is_left_out() {
        let (types, shape) = (types(), Shape::Named("One".to_owned()));
        let without = |names: &str| Members::Without(names.split(',').map(str::to_owned).collect());
        for always in ["name", "note", "must", "any", "a/c", "a/d", "must/e"] {
            let members = without(&format!("list,{always}"));
            assert_eq!(members.always(&types, &shape), Some(always));
        }
        let members = without("a/b,list,must/f,none");
        assert_eq!(members.always(&types, &shape), None);
        let bare = json!({"e": "1"});
        let expected = json!({
            "name": "n", "note": "o", "must": [bare, bare], "any": {"y": [1]},
            "a": {"c": 2, "d": {"e": "1", "f": {"x": 1}}},
        });
        assert_eq!(members.project(&types, Some(&shape), &document()), expected);
    }
}
