//! A file of inputs: keys with texts, lists of texts and repeated tables, each with its place and
//! the comment behind it, which says where a value is from.

use crate::mistake::Mistake;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A value as it was written, its place, and the comment behind it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
    pub(crate) line: usize,
    pub(crate) comment: String,
}

/// A key with its place and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    pub(crate) held: Held,
}

/// What a key holds.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    One(Entry),
    Many(Vec<Entry>),
    /// `[[name]]`, each with its fields and its place.
    Rows(Vec<Row>),
}

/// How a key is to be given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shape {
    One,
    Many,
    Rows,
}

impl Shape {
    fn of(held: &Held) -> Self {
        match held {
            Held::One(_) => Self::One,
            Held::Many(_) => Self::Many,
            Held::Rows(_) => Self::Rows,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::One => "one value",
            Self::Many => "a list of values",
            Self::Rows => "a repeated table",
        }
    }

    /// How `name` is written in this shape.
    fn example(self, name: &str) -> String {
        match self {
            Self::One => format!("write one value, `{name} = …`, without brackets"),
            Self::Many => format!("write a list, `{name} = [\"…\"]`"),
            Self::Rows => format!("write `[[{name}]]` and its keys below, for each"),
        }
    }
}

/// One `[[name]]`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) fields: Vec<Field>,
    pub(crate) span: Range<usize>,
}

impl Row {
    /// The value of a key.
    ///
    /// # Errors
    /// The mistake, where the key is there and is not one value.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&Entry>, Mistake> {
        one(&self.fields, name)
    }
}

/// A file of inputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    pub(crate) fields: Vec<Field>,
}

impl Sheet {
    /// Reads TOML. All mistakes are reported, not the first.
    pub(crate) fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> = errors
            .iter()
            .map(|error| Mistake {
                message: error.message().to_owned(),
                help: String::new(),
                span: error.span().unwrap_or(0..0),
            })
            .collect();
        let mut fields = Vec::new();
        if mistakes.is_empty() {
            for (name, value) in root.get_ref() {
                fields.extend(field(text, name, value, true, &mut mistakes));
            }
        }
        if mistakes.is_empty() {
            return Ok(Self { fields });
        }
        mistakes.sort_by_key(|mistake| mistake.span.start);
        Err(mistakes)
    }

    /// The value of a key of the top level.
    ///
    /// # Errors
    /// The mistake, where the key is there and is not one value.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&Entry>, Mistake> {
        one(&self.fields, name)
    }

    /// The values of a list.
    ///
    /// # Errors
    /// The mistake, where the key is there and is no list of values.
    pub(crate) fn many(&self, name: &str) -> Result<Option<&[Entry]>, Mistake> {
        get(&self.fields, name, Shape::Many, |held| match held {
            Held::Many(entries) => Some(entries.as_slice()),
            _ => None,
        })
    }

    /// The rows of a repeated table.
    ///
    /// # Errors
    /// The mistake, where the key is there and is no such table.
    pub(crate) fn rows(&self, name: &str) -> Result<Option<&[Row]>, Mistake> {
        get(&self.fields, name, Shape::Rows, |held| match held {
            Held::Rows(rows) => Some(rows.as_slice()),
            _ => None,
        })
    }
}

fn one<'a>(fields: &'a [Field], name: &str) -> Result<Option<&'a Entry>, Mistake> {
    get(fields, name, Shape::One, |held| match held {
        Held::One(entry) => Some(entry),
        _ => None,
    })
}

/// What a key holds, in the one shape that it may have: a key of another shape is never one that is not there.
fn get<'a, T>(
    fields: &'a [Field],
    name: &str,
    wanted: Shape,
    of: impl FnOnce(&'a Held) -> Option<T>,
) -> Result<Option<T>, Mistake> {
    let Some(field) = fields.iter().find(|field| field.name == name) else { return Ok(None) };
    of(&field.held).map(Some).ok_or_else(|| {
        let (found, wanted_words) = (Shape::of(&field.held).words(), wanted.words());
        mistake(
            field.span.clone(),
            format!("`{name}` is {found}, and must be {wanted_words}"),
            wanted.example(name),
        )
    })
}

fn field(
    text: &str,
    name: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    is_top: bool,
    mistakes: &mut Vec<Mistake>,
) -> Option<Field> {
    let held = match value.get_ref() {
        DeValue::Array(items) if is_top && items.iter().any(|item| is_table(item.get_ref())) => {
            let mut rows = Vec::new();
            for item in items {
                let DeValue::Table(inner) = item.get_ref() else {
                    mistakes.push(mistake(
                        item.span(),
                        format!("`{}` mixes tables and values", name.get_ref()),
                        format!("write `[[{}]]` and its keys below, for each", name.get_ref()),
                    ));
                    continue;
                };
                let fields = inner
                    .iter()
                    .filter_map(|(name, value)| field(text, name, value, false, mistakes))
                    .collect();
                rows.push(Row { fields, span: item.span() });
            }
            Held::Rows(rows)
        }
        DeValue::Array(items) => {
            let mut entries = Vec::new();
            for item in items {
                match scalar(text, item, item.span()) {
                    Some(entry) => entries.push(entry),
                    None => mistakes.push(not_a_value(name, item.span())),
                }
            }
            // The comment behind the list is that of each of its values.
            let comment = comment(text, value.span());
            entries.iter_mut().for_each(|entry| entry.comment.clone_from(&comment));
            Held::Many(entries)
        }
        DeValue::Table(_) if is_top => {
            mistakes.push(mistake(
                name.span(),
                format!("`{}` is not a table by itself", name.get_ref()),
                format!(
                    "where it may be given several times write `[[{}]]` with two brackets; where \
                     it is a heading leave it out",
                    name.get_ref()
                ),
            ));
            return None;
        }
        _ => match scalar(text, value, value.span()) {
            Some(entry) => Held::One(entry),
            None => {
                mistakes.push(not_a_value(name, value.span()));
                return None;
            }
        },
    };
    Some(Field { name: name.get_ref().to_string(), span: name.span(), held })
}

fn is_table(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Table(_))
}

fn scalar(text: &str, value: &Spanned<DeValue<'_>>, span: Range<usize>) -> Option<Entry> {
    let written = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        _ => return None,
    };
    let line = text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1;
    let comment = comment(text, span.clone());
    Some(Entry { text: written, span, line, comment })
}

/// The comment between the end of a value and the end of its line.
fn comment(text: &str, span: Range<usize>) -> String {
    let rest = text.get(span.end..).unwrap_or("");
    let line = rest.split('\n').next().unwrap_or("");
    line.split_once('#').map_or("", |(_, comment)| comment).trim().to_owned()
}

fn not_a_value(name: &Spanned<DeString<'_>>, span: Range<usize>) -> Mistake {
    mistake(
        span,
        format!("`{}` holds no value that can be read here", name.get_ref()),
        "write a number, or a number with its unit between quotes, such as `\"25 MB\"`".to_owned(),
    )
}

fn mistake(span: Range<usize>, message: String, help: String) -> Mistake {
    Mistake { message, help, span }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_place_and_their_comment() {
        let sheet = Sheet::parse(
            "pue = 1.5 # 002, page 5\nsites = [\"1 Tbit/s\", 2] # Table 2\n[[server]]\nname = \"a # b\"\n",
        )
        .unwrap();
        let pue = sheet.one("pue").unwrap().unwrap();
        assert_eq!((pue.text.as_str(), pue.line, pue.comment.as_str()), ("1.5", 1, "002, page 5"));
        let sites = sheet.many("sites").unwrap().unwrap();
        assert_eq!((sites.len(), sites[1].comment.as_str()), (2, "Table 2"));
        let server = sheet.rows("server").unwrap().unwrap()[0].one("name").unwrap().unwrap();
        assert_eq!((server.text.as_str(), server.line, server.comment.as_str()), ("a # b", 4, ""));
    }

    #[test]
    fn shapes_that_cannot_be_read_are_named() {
        for wrong in
            ["[server]\nname = 1", "a = 1979-05-27", "a = [[1]]", "a = \n", "a = [{b=1}, 2]"]
        {
            assert!(!Sheet::parse(wrong).unwrap_err().is_empty(), "{wrong}");
        }
    }
}
