//! The table of all interfaces: paths, methods, types, scopes and what may be filtered by. Routing,
//! checks and the OpenAPI documents follow from it.

mod document;
mod read;

pub use read::read;

use crate::shape::{Shape, Types};
use crate::tree::escape;

/// A part of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Segment {
    /// These characters.
    Word(String),
    /// Anything, by this name.
    Name(String),
}

/// What a method does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Act {
    /// Gives the documents of a collection.
    List(View),
    /// Gives the documents of a list that is not kept here: what a feed told, or the configuration.
    Told(String),
    /// Gives links to the subscriptions of a collection.
    Links,
    /// Makes a document.
    Create,
    /// Gives a document.
    Read(View),
    /// Puts another in a document's place.
    Replace,
    /// Changes some members of a document (RFC 7396).
    Patch,
    /// Removes a document.
    Remove,
    /// Something of the interface's own.
    Own(String),
}

/// Which documents are looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct View {
    /// Their paths.
    pub pattern: Vec<Segment>,
    /// Whether clients see those of others.
    pub is_public: bool,
}

impl Act {
    /// Whether it changes nothing: decides the scope.
    pub fn is_reading(&self, method: Method) -> bool {
        matches!(self, Self::List(_) | Self::Told(_) | Self::Links | Self::Read(_))
            || method == Method::Get
    }
}

/// A method.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Asks for it.
    Get,
    /// Makes one, or does something.
    Post,
    /// Puts another in its place.
    Put,
    /// Changes some of it.
    Patch,
    /// Removes it.
    Delete,
}

impl Method {
    /// By its name in the table or on the wire.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];
        all.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }

    /// As on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// A parameter of a query, and the attribute it stands for: a path through the document, or `-` where
/// it selects none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameter {
    /// Its name in the query.
    pub name: String,
    /// The attribute, its steps with `/` between them.
    pub attribute: String,
    /// Whether a query without it is wrong.
    pub is_required: bool,
}

/// What can be done with a resource.
#[derive(Clone, Debug)]
pub struct Operation {
    /// By which method.
    pub method: Method,
    /// What it does.
    pub act: Act,
    /// What a request has.
    pub body: Option<Shape>,
    /// What an answer has.
    pub answer: Option<Shape>,
    /// What its query may have besides what each list takes.
    pub parameters: Vec<Parameter>,
    /// Attributes that are left out where a query chooses none (`exclude_default` of GS MEC 009 §6.18).
    pub left_out: Vec<String>,
    /// `interface:noun:read` or `:write`; a token needs it or its beginning.
    pub scope: String,
}

impl Operation {
    /// Whether it gives several documents, of which a query may choose.
    pub fn is_list(&self) -> bool {
        matches!(self.act, Act::List(_) | Act::Told(_))
    }

    /// Whether a query may choose which attributes are given.
    pub fn takes_selectors(&self) -> bool {
        self.is_list() || !self.left_out.is_empty()
    }
}

/// A path and what it takes.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its path, behind that of its interface.
    pub segments: Vec<Segment>,
    /// The attribute of a document that says the last name of its path.
    pub id: Option<String>,
    /// What it takes.
    pub operations: Vec<Operation>,
}

impl Resource {
    /// As in the table: `/applications/{appInstanceId}/services`.
    pub fn template(&self) -> String {
        let segment = |segment: &Segment| match segment {
            Segment::Word(word) => format!("/{word}"),
            Segment::Name(name) => format!("/{{{name}}}"),
        };
        self.segments.iter().map(segment).collect()
    }
}

/// An interface.
#[derive(Clone, Debug)]
pub struct Api {
    /// Its first segment.
    pub name: String,
    /// Its second segment.
    pub version: String,
    /// What it is, and by which standard.
    pub title: String,
    /// What its documents are.
    pub types: Types,
    /// Its paths.
    pub resources: Vec<Resource>,
    /// Words of paths in earlier versions of its standard, and what they are now.
    pub renamed: Vec<(String, String)>,
}

impl Api {
    /// What all its paths begin with.
    pub fn root(&self) -> String {
        format!("/{}/{}", self.name, self.version)
    }

    /// The collection that makes what `resource` is one of: its path without the last segment.
    pub fn item_of(&self, collection: &Resource) -> Option<&Resource> {
        let length = collection.segments.len() + 1;
        self.resources.iter().find(|one| {
            one.segments.len() == length
                && one.segments.starts_with(&collection.segments)
                && matches!(one.segments.last(), Some(Segment::Name(_)))
        })
    }
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    /// The interface.
    pub api: &'a Api,
    /// Of that, what is at the path.
    pub resource: &'a Resource,
    /// Names of the path with what is there.
    pub names: Vec<(&'a str, String)>,
}

impl Route<'_> {
    /// The path in the one form documents have.
    pub fn path(&self) -> String {
        self.path_of(&self.resource.segments)
    }

    /// The path of the document that an act of the last word is done to, where there is one that can be read.
    pub fn document_above(&self) -> Option<String> {
        let (Segment::Word(_), above) = self.resource.segments.split_last()? else { return None };
        let resource = self.api.resources.iter().find(|one| one.segments == above)?;
        let is_document =
            |one: &Operation| matches!(&one.act, Act::Read(view) if view.pattern == above);
        resource.operations.iter().any(is_document).then(|| self.path_of(above))
    }

    fn path_of(&self, segments: &[Segment]) -> String {
        let mut path = self.api.root();
        let mut names = self.names.iter();
        for segment in segments {
            path.push('/');
            match segment {
                Segment::Word(word) => path.push_str(word),
                Segment::Name(_) => {
                    path.push_str(&escape(names.next().map_or("", |(_, value)| value)));
                }
            }
        }
        path
    }

    /// Whether the path has a word.
    pub fn template_has(&self, word: &str) -> bool {
        self.resource.segments.iter().any(|segment| *segment == Segment::Word(word.to_owned()))
    }

    /// What is in the path under a name.
    pub fn name(&self, name: &str) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

/// All interfaces.
#[derive(Clone, Debug, Default)]
pub struct Table(pub Vec<Api>);

impl Table {
    /// The resource of a path, without its query, percent-decoded by segment.
    pub fn route(&self, path: &str) -> Option<Route<'_>> {
        let parts: Vec<String> =
            path.strip_prefix('/')?.split('/').map(crate::query::decode).collect();
        let (name, version) = (parts.first()?, parts.get(1)?);
        let api = self.0.iter().find(|api| api.name == *name && api.version == *version)?;
        // Words go before names: `/a/b` is not `/a/{id}`.
        let fits = api.resources.iter().filter_map(|resource| {
            let names = names(&resource.segments, &parts[2..], &api.renamed)?;
            Some(Route { api, resource, names })
        });
        fits.min_by_key(|route| route.names.len())
    }
}

/// What a path has for the names of a pattern, if it is of the pattern, or of what that was before its words were
/// `renamed`.
pub fn names<'a>(
    pattern: &'a [Segment],
    parts: &[impl AsRef<str>],
    renamed: &[(String, String)],
) -> Option<Vec<(&'a str, String)>> {
    if pattern.len() != parts.len() {
        return None;
    }
    let mut found = Vec::new();
    for (segment, part) in pattern.iter().zip(parts.iter().map(AsRef::as_ref)) {
        match segment {
            Segment::Word(word) if word == part => {}
            Segment::Word(word)
                if renamed.iter().any(|(before, now)| before == part && now == word) => {}
            Segment::Word(_) => return None,
            Segment::Name(_) if part.is_empty() => return None,
            Segment::Name(name) => found.push((name.as_str(), part.to_owned())),
        }
    }
    Some(found)
}
