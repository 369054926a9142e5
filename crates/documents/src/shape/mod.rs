//! What documents look like: types as the tables of interfaces write them, and whether a document is of
//! one.
//!
//! A type is a record of fields or a name for a shape. A field is written `name shape`: `name?` may be
//! left out, `name=` is the platform's to give and is ignored in what clients send.

mod check;
mod document;
mod read;
mod settle;

pub use check::Direction;
pub(crate) use read::shape;

use serde_json::Value;
use std::collections::BTreeMap;

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Anything.
    Any,
    /// An object, with any members.
    Object,
    /// A string.
    Text,
    /// A string that is a URI reference.
    Uri,
    /// A string that is a time of RFC 3339.
    Time,
    /// A string that is one of these.
    Choice(Vec<String>),
    /// A number that is one of these.
    Code(Vec<i64>),
    /// A whole number between these, both included.
    Integer(i64, i64),
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list of so many.
    List(Box<Self>, usize, usize),
    /// A type by its name.
    Named(String),
    /// One of several.
    Either(Vec<Self>),
}

/// Whether a field has to be there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// It has to be there.
    Required,
    /// It may be left out.
    Optional,
    /// The platform sets it.
    Given,
}

/// A member of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Whether it has to be there.
    pub presence: Presence,
    /// What it is.
    pub shape: Shape,
}

/// A named type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// An object with these members.
    Record(Vec<Field>),
    /// Another name for a shape.
    Alias(Shape),
}

/// The types of one interface.
#[derive(Clone, Debug, Default)]
pub struct Types(pub(crate) BTreeMap<String, Type>);

impl Types {
    /// What a shape is behind names for other shapes.
    pub fn plain<'a>(&'a self, shape: &'a Shape) -> &'a Shape {
        match shape {
            Shape::Named(name) => match self.0.get(name) {
                Some(Type::Alias(shape)) => self.plain(shape),
                _ => shape,
            },
            shape => shape,
        }
    }

    /// The fields of a record, through names.
    pub fn fields<'a>(&'a self, shape: &'a Shape) -> Option<&'a [Field]> {
        match self.plain(shape) {
            Shape::Named(name) => match self.0.get(name)? {
                Type::Record(fields) => Some(fields),
                Type::Alias(_) => None,
            },
            _ => None,
        }
    }

    /// A member of a value that a record of this shape has not.
    pub fn unknown<'a>(&self, shape: &Shape, value: &'a Value) -> Option<&'a str> {
        let fields = self.fields(shape)?;
        let mut members = value.as_object()?.keys();
        members.find(|name| !fields.iter().any(|field| field.name == **name)).map(String::as_str)
    }

    /// Whether what is of a shape may have an attribute: a path through records, where lists are gone
    /// through and objects may have any members.
    pub fn has(&self, shape: &Shape, steps: &[String]) -> bool {
        let Some((first, rest)) = steps.split_first() else { return true };
        match self.plain(shape) {
            Shape::Any | Shape::Object => true,
            Shape::List(of, ..) => self.has(of, steps),
            Shape::Either(shapes) => shapes.iter().any(|shape| self.has(shape, steps)),
            shape => self.fields(shape).is_some_and(|fields| {
                fields.iter().any(|field| field.name == *first && self.has(&field.shape, rest))
            }),
        }
    }

    /// Names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names that are used and not there.
    pub fn missing(&self) -> Vec<String> {
        let mut used = Vec::new();
        for one in self.0.values() {
            match one {
                Type::Record(fields) => {
                    fields.iter().for_each(|field| names(&field.shape, &mut used))
                }
                Type::Alias(shape) => names(shape, &mut used),
            }
        }
        used.retain(|name| !self.0.contains_key(name));
        used
    }
}

fn names(shape: &Shape, into: &mut Vec<String>) {
    match shape {
        Shape::Named(name) => into.push(name.clone()),
        Shape::List(of, ..) => names(of, into),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| names(shape, into)),
        _ => {}
    }
}
