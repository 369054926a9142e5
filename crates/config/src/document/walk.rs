//! The way through a text's tables, by the keys that there are.

use super::Values;
use super::value::{Value, typed};
use crate::keys::{self, Key, Keys};
use crate::mistake::{Mistake, Place};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where in a text a table stands, and the keys of the text.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    /// At the top level.
    Whole(&'static Keys),
    /// In a `[[site]]`.
    Site(&'static Keys),
}

impl Scope {
    pub(super) fn keys(self) -> &'static Keys {
        match self {
            Self::Whole(keys) | Self::Site(keys) => keys,
        }
    }

    /// The key at this path, where one may stand there.
    fn find(self, path: &str) -> Option<&'static Key> {
        match self {
            Self::Whole(keys) => keys.find(path),
            Self::Site(keys) => keys
                .find(&format!("site[].{path}"))
                .or_else(|| keys.find(path).filter(|key| key.is_per_site)),
        }
    }

    /// The paths of the keys that may stand there.
    fn paths(self) -> impl Iterator<Item = &'static str> {
        self.keys().list.iter().filter_map(move |key| match self {
            Self::Whole(_) => Some(key.path),
            Self::Site(_) => {
                key.path.strip_prefix("site[].").or_else(|| key.is_per_site.then_some(key.path))
            }
        })
    }

    fn has_prefix(self, prefix: &str) -> bool {
        self.paths().any(|path| path.starts_with(prefix))
    }
}

/// The items of a list, or nothing.
pub(super) fn rows_of<'a, 'text>(
    value: &'a Spanned<DeValue<'text>>,
) -> &'a [Spanned<DeValue<'text>>] {
    if let DeValue::Array(items) = value.get_ref() { items } else { &[] }
}

/// What there is at a path.
pub(super) enum Found {
    Value(&'static Key, Value, Place),
    Table(Values),
}

/// Calls `found` for each value and each row of a table that there are keys for, and notes the rest.
pub(super) fn walk(
    table: &DeTable<'_>,
    scope: Scope,
    prefix: &str,
    mistakes: &mut Vec<Mistake>,
    found: &mut dyn FnMut(&str, Found),
) {
    for (name, value) in table {
        let path = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}{name}", name = name.get_ref())
        };
        let table_path = format!("{path}[].");
        match value.get_ref() {
            DeValue::Table(inner) if scope.has_prefix(&format!("{path}.")) => {
                walk(inner, scope, &format!("{path}."), mistakes, found);
            }
            DeValue::Array(items) if scope.has_prefix(&table_path) => {
                for item in items {
                    if let DeValue::Table(inner) = item.get_ref() {
                        if scope.keys().has_sites && path == "site" {
                            continue;
                        }
                        let mut row = Values { place: item.span().into(), ..Values::default() };
                        walk(inner, scope, &table_path, mistakes, &mut |_, inner| {
                            if let Found::Value(key, value, place) = inner {
                                row.insert(key.path, value, place);
                            }
                        });
                        found(&path, Found::Table(row));
                    } else {
                        mistakes.push(mistake(
                            item.span(),
                            format!("`{path}` is a list of tables"),
                            Some(format!("write `[[{path}]]` and its keys below")),
                        ));
                    }
                }
            }
            DeValue::Table(_) if scope.has_prefix(&table_path) => mistakes.push(mistake(
                name.span(),
                format!("`{path}` may be given several times"),
                Some(format!("write `[[{path}]]` with two brackets")),
            )),
            _ => match scope.find(&path) {
                Some(key) => match typed(key, value) {
                    Ok(typed) => found(&path, Found::Value(key, typed, value.span().into())),
                    Err(message) => mistakes.push(mistake(value.span(), message, None)),
                },
                None => mistakes.push(unknown(name, scope, &path, prefix)),
            },
        }
    }
}

fn unknown(
    name: &Spanned<toml::de::DeString<'_>>,
    scope: Scope,
    path: &str,
    prefix: &str,
) -> Mistake {
    if let Scope::Site(keys) = scope
        && Scope::Whole(keys).has_prefix(path)
    {
        let message = format!("`{path}` holds for the whole node");
        return mistake(name.span(), message, Some("write it above the first `[[site]]`".into()));
    }
    let level: Vec<&str> = scope
        .paths()
        .filter_map(|known| known.strip_prefix(prefix))
        .map(|rest| rest.split(['.', '[']).next().expect("split gives at least one part"))
        .collect();
    let help = match keys::nearest(name.get_ref(), level.iter().copied()) {
        Some(near) if near == name.get_ref() => {
            let lists =
                scope.paths().filter_map(|known| known.strip_prefix(prefix)?.split_once("[]"));
            match keys::nearest(near, lists.map(|(list, _)| list)) {
                Some(list) if list == near => {
                    format!("it is a list of tables: write `[[{near}]]` and its keys below")
                }
                Some(list) => format!("`[{near}]` is one table; did you mean `[[{list}]]`?"),
                None => format!("it is a table: write `[{near}]` and its keys below"),
            }
        }
        Some(near) => format!("did you mean `{near}`?"),
        None => known(prefix, level, scope.keys().listed_by),
    };
    mistake(name.span(), format!("there is no key `{path}`"), Some(help))
}

/// Keys of a table that are named where none is like the one that is not there.
const KNOWN_MAX: usize = 8;

/// What keys there are where one is not, which may be another word for the same.
fn known(prefix: &str, mut names: Vec<&str>, listed_by: &str) -> String {
    names.dedup();
    // At the top there are too many to be of help.
    if prefix.is_empty() || names.is_empty() {
        return listed_by.to_owned();
    }
    let more = if names.len() > KNOWN_MAX { " …" } else { "" };
    names.truncate(KNOWN_MAX);
    let table = prefix.trim_end_matches('.').trim_end_matches("[]");
    format!("`{table}` has {}{more}; {listed_by}", names.join(", "))
}

pub(super) fn mistake(span: Range<usize>, message: String, help: Option<String>) -> Mistake {
    Mistake { help, ..Mistake::error(span.into(), message) }
}
