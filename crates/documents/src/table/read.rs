//! Reads the tables of interfaces. They are part of the program: a mistake in one is found by its tests.
//!
//! ```text
//! api rni v2 Radio network information, ETSI GS MEC 012 V2.2.1
//! use common
//!
//! /subscriptions
//!   get   links SubscriptionLinkList ? subscription_type
//!   post  create RabEstSubscription or RabModSubscription
//! /subscriptions/{subscriptionId} as id
//!   get   read
//!
//! type RabEstSubscription
//!   subscriptionType string
//!   expiryDeadline?  TimeStamp
//!   _links=          Links
//! type Links = object
//! ```
//!
//! After a method comes what it does, then the type of the body, then `->` and that of the answer
//! where it is another, or `nothing`, then `?` and the parameters of the query: `name`, or `name=attribute` where
//! that differs, with `!` where it must be there; `name=-` is no attribute. Before `?` may be `without` and the attributes
//! that are left out where a query does not choose among attributes. `list` and `read` may be `of` another path;
//! `told` says which list of a feed or of the configuration. `/before is /now` has paths with the one word be
//! those with the other: clients of an earlier version of the standard ask so.

use super::{Act, Api, Method, Operation, Parameter, Resource, Segment, Table, View};
use crate::shape::{Field, Presence, Shape, Type, Types, shape};

/// Reads tables, each with its name: those without an interface are for `use`.
///
/// # Errors
/// The first mistake, with its place.
pub fn read(texts: &[(&str, &str)]) -> Result<Table, String> {
    let mut table = Table::default();
    for (name, text) in texts {
        let mut reading = Reading::default();
        for (number, line) in text.lines().enumerate() {
            reading.line(line, texts).map_err(|what| format!("{name}:{}: {what}", number + 1))?;
        }
        let Some(api) = reading.api else { continue };
        if let Some(missing) = api.types.missing().first() {
            return Err(format!("{name}: there is no type {missing}"));
        }
        let operations = api.resources.iter().flat_map(|resource| &resource.operations);
        if let Some(always) = operations.filter_map(|one| always_there(&api.types, one)).next() {
            return Err(format!("{name}: {always} cannot be left out"));
        }
        table.0.push(api);
    }
    Ok(table)
}

#[derive(Default)]
struct Reading {
    api: Option<Api>,
    types: Types,
    /// What indented lines belong to.
    within: Within,
}

#[derive(Default)]
enum Within {
    #[default]
    Nothing,
    Resource,
    Type(String),
}

impl Reading {
    fn line(&mut self, line: &str, texts: &[(&str, &str)]) -> Result<(), String> {
        let is_indented = line.starts_with(' ');
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        if line.is_empty() {
            return Ok(());
        }
        if is_indented {
            return match std::mem::take(&mut self.within) {
                Within::Nothing => Err("belongs to nothing".to_owned()),
                Within::Resource => {
                    self.within = Within::Resource;
                    self.operation(line)
                }
                Within::Type(name) => {
                    let field = field(line)?;
                    let api = self.types_mut();
                    if let Some(Type::Record(fields)) = api.0.get_mut(&name) {
                        fields.push(field);
                    }
                    self.within = Within::Type(name);
                    Ok(())
                }
            };
        }
        self.within = Within::Nothing;
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "api" => {
                let mut words = rest.splitn(3, ' ').map(str::to_owned);
                let mut next = || words.next().ok_or("an api has a name, a version and a title");
                let (name, version, title) = (next()?, next()?, next()?);
                let types = Types::default();
                let (resources, renamed) = (Vec::new(), Vec::new());
                self.api = Some(Api { name, version, title, types, resources, renamed });
            }
            "use" => {
                let text = texts.iter().find(|(name, _)| *name == rest);
                let (_, text) = text.ok_or_else(|| format!("there is no {rest}"))?;
                let mut other = Self::default();
                text.lines().try_for_each(|line| other.line(line, texts))?;
                self.types_mut().0.extend(other.types.0);
            }
            "type" => self.begin_type(rest)?,
            path if path.starts_with('/') => self.resource(path, rest)?,
            other => return Err(format!("`{other}` is not understood")),
        }
        Ok(())
    }

    fn types_mut(&mut self) -> &mut Types {
        self.api.as_mut().map_or(&mut self.types, |api| &mut api.types)
    }

    fn begin_type(&mut self, text: &str) -> Result<(), String> {
        let (name, one) = match text.split_once('=') {
            Some((name, text)) => (name.trim(), Type::Alias(shape(text)?)),
            None => (text, Type::Record(Vec::new())),
        };
        if matches!(one, Type::Record(_)) {
            self.within = Within::Type(name.to_owned());
        }
        let before = self.types_mut().0.insert(name.to_owned(), one);
        before.map_or(Ok(()), |_| Err(format!("{name} is there twice")))
    }

    fn resource(&mut self, path: &str, rest: &str) -> Result<(), String> {
        let api = self.api.as_mut().ok_or("a path before its api")?;
        if let Some(now) = rest.strip_prefix("is ") {
            let word = |path: &str| path.trim_start_matches('/').to_owned();
            api.renamed.push((word(path), word(now)));
            return Ok(());
        }
        let id = match rest.split_once(' ') {
            Some(("as", id)) => Some(id.trim().to_owned()),
            _ if rest.is_empty() => None,
            _ => return Err(format!("`{rest}` after the path")),
        };
        self.within = Within::Resource;
        api.resources.push(Resource { segments: segments(path), id, operations: Vec::new() });
        Ok(())
    }

    fn operation(&mut self, line: &str) -> Result<(), String> {
        let api = self.api.as_mut().ok_or("an operation before its api")?;
        let resource = api.resources.last_mut().ok_or("an operation before its path")?;
        let (line, parameters) = line.split_once('?').unwrap_or((line, ""));
        let (line, left_out) = line.split_once(" without ").unwrap_or((line, ""));
        let (line, answer) = match line.split_once("->") {
            Some((line, answer)) if answer.trim() == "nothing" => (line, Some(None)),
            Some((line, answer)) => (line, Some(Some(shape(answer)?))),
            None => (line, None),
        };
        let mut words = line.split_whitespace();
        let method = words.next().and_then(Method::of).ok_or("begins with no method")?;
        let act = words.next().ok_or("says nothing after its method")?;
        let mut rest: Vec<&str> = words.collect();
        let mut view = View { pattern: resource.segments.clone(), is_public: false };
        if act == "list" {
            view.pattern.push(Segment::Name("item".to_owned()));
        }
        if let ["of", path, ..] = rest[..] {
            view = View { pattern: segments(path), is_public: true };
            rest.drain(..2);
        }
        let mut told = String::new();
        if let ("told", [name, ..]) = (act, &rest[..]) {
            told = (*name).to_owned();
            rest.remove(0);
        }
        let body = match rest.join(" ") {
            none if none.is_empty() => None,
            text => Some(shape(&text)?),
        };
        let act = match act {
            "list" => Act::List(view),
            "told" => Act::Told(told),
            "links" => Act::Links,
            "create" => Act::Create,
            "read" => Act::Read(view),
            "replace" => Act::Replace,
            "patch" => Act::Patch,
            "remove" => Act::Remove,
            own => Act::Own(own.to_owned()),
        };
        // What is read is what is said first.
        let is_reading = act.is_reading(method);
        let (body, answer) = match (is_reading, answer) {
            (true, None) => (None, body),
            (false, None) if matches!(act, Act::Own(_)) => (body, None),
            (false, None) => (body.clone(), body),
            (_, Some(answer)) => (body, answer),
        };
        let noun = resource.segments.iter().rev().find_map(|segment| match segment {
            Segment::Word(word) => Some(word.as_str()),
            Segment::Name(_) => None,
        });
        let class = if is_reading { "read" } else { "write" };
        let scope = format!("{}:{}:{class}", api.name, noun.unwrap_or("root"));
        let parameters = parameters.split_whitespace().map(parameter).collect();
        let left_out = left_out.split_whitespace().map(str::to_owned).collect();
        resource.operations.push(Operation {
            method,
            act,
            body,
            answer,
            parameters,
            left_out,
            scope,
        });
        Ok(())
    }
}

/// One of the attributes that are left out that has to be there.
fn always_there<'a>(types: &Types, operation: &'a Operation) -> Option<&'a str> {
    let shape = operation.document()?;
    let mut names = operation.left_out.iter().map(String::as_str);
    names.find(|name| !crate::query::may_be_left_out(types, shape, name))
}

fn parameter(text: &str) -> Parameter {
    let (text, is_required) = text.strip_suffix('!').map_or((text, false), |text| (text, true));
    let (name, attribute) = text.split_once('=').unwrap_or((text, text));
    Parameter { name: name.to_owned(), attribute: attribute.to_owned(), is_required }
}

/// Reads a path with names in braces.
pub(crate) fn segments(path: &str) -> Vec<Segment> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => Segment::Name(name.to_owned()),
            None => Segment::Word(part.to_owned()),
        })
        .collect()
}

fn field(line: &str) -> Result<Field, String> {
    let (name, text) = line.split_once(' ').ok_or("a field has a name and a shape")?;
    let (name, presence) = match name.as_bytes().last() {
        Some(b'?') => (&name[..name.len() - 1], Presence::Optional),
        Some(b'=') => (&name[..name.len() - 1], Presence::Given),
        _ => (name, Presence::Required),
    };
    Ok(Field { name: name.to_owned(), presence, shape: shape(text)? })
}

impl Operation {
    /// The shape of what one document of a list is, or of the answer.
    pub fn document(&self) -> Option<&Shape> {
        match self.answer.as_ref()? {
            Shape::List(of, ..) => Some(of),
            other => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "api a v1 Title of it\nuse common\n/objects is /things\n/pieces is /parts\n/things/{id}/parts as partId\n  \
                        get list [Part] ? name kind=a/b!\n  post create Part\n/all\n  \
                        get list of /things/{id}/parts [Part]\ntype Part\n  partId= string\n  \
                        name? string\n  link Link\n";

    #[test]
    fn a_table_is_read() {
        let table = read(&[("common", "type Link\n  href uri\n"), ("a", TEXT)]).unwrap();
        let api = &table.0[0];
        assert_eq!((api.root(), api.title.as_str()), ("/a/v1".to_owned(), "Title of it"));
        let route = table.route("/a/v1/things/x%2Fy/parts").unwrap();
        assert_eq!(route.name("id"), Some("x/y"));
        let earlier = table.route("/a/v1/objects/1/parts").unwrap();
        assert_eq!(earlier.path(), "/a/v1/things/1/parts");
        let earlier = table.route("/a/v1/objects/pieces/pieces").unwrap();
        assert_eq!((earlier.name("id"), earlier.template_has("parts")), (Some("pieces"), true));
        assert!(table.route("/a/v1/things/1/objects").is_none());
        let [get, post] = &route.resource.operations[..] else { panic!() };
        assert_eq!([&get.scope, &post.scope], ["a:parts:read", "a:parts:write"]);
        assert!(get.parameters[1].is_required && get.parameters[1].attribute == "a/b");
        assert!(table.route("/a/v1/things//parts").is_none() && table.route("/a/v2/all").is_none());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, what) in [
            ("/x\n", "a:1: a path before its api"),
            ("api a v1 t\n/x\n  get\n", "a:3: says nothing after its method"),
            ("api a v1 t\ntype A\n  b C\n", "a: there is no type C"),
            ("api a v1 t\ntype A\n  b\n", "a:3: a field has a name and a shape"),
            ("api a v1 t\ntype A = any\ntype A = any\n", "a:3: A is there twice"),
            (
                "api a v1 t\n/x\n  get list [A] without b\ntype A\n  b any\n",
                "a: b cannot be left out",
            ),
        ] {
            assert_eq!(read(&[("a", text)]).unwrap_err(), what);
        }
    }
}
