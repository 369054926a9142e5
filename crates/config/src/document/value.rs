//! Values and how they are read: from TOML's and from a command line's.

use crate::keys::{self, Key, Kind};
use freshet_base::units;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// A value of one of the [`Kind`]s.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// [`Kind::Bool`]
    Bool(bool),
    /// [`Kind::Count`] and, in bytes, [`Kind::Size`]
    Number(u64),
    /// [`Kind::Span`]
    Span(Duration),
    /// [`Kind::Text`], [`Kind::Choice`] and names of files
    Text(String),
    /// [`Kind::TextList`] and lists of names of files
    List(Vec<String>),
}

impl Value {
    /// The text of a [`Kind::Text`] or [`Kind::Choice`] value, and the name of a file.
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => unreachable!("the key's kind says text, not {other:?}"),
        }
    }

    /// The number of a [`Kind::Count`] or [`Kind::Size`] value.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            other => unreachable!("the key's kind says number, not {other:?}"),
        }
    }

    /// The time of a [`Kind::Span`] value.
    pub fn span(self) -> Duration {
        match self {
            Self::Span(span) => span,
            other => unreachable!("the key's kind says time, not {other:?}"),
        }
    }

    /// The truth of a [`Kind::Bool`] value.
    pub fn bool(self) -> bool {
        match self {
            Self::Bool(value) => value,
            other => unreachable!("the key's kind says true or false, not {other:?}"),
        }
    }

    /// The texts of a [`Kind::TextList`] value, and names of files.
    pub fn list(self) -> Vec<String> {
        match self {
            Self::List(list) => list,
            other => unreachable!("the key's kind says list, not {other:?}"),
        }
    }
}

/// The value of a key as TOML gives it.
pub(super) fn typed(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    match (key.kind, value.get_ref()) {
        (Kind::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
        (Kind::Count { .. } | Kind::Size, DeValue::Integer(number)) => {
            from_text(key, &number.to_string())
        }
        (Kind::TextList | Kind::SecretFiles, DeValue::Array(items)) => items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err(format!("`{}` is a list of texts", key.path)),
            })
            .collect::<Result<_, _>>()
            .map(Value::List),
        (Kind::Bool | Kind::TextList | Kind::SecretFiles, _) => Err(expected(key)),
        (_, DeValue::String(text)) => from_text(key, text),
        _ => Err(expected(key)),
    }
}

/// The value of a key as a text gives it.
pub(super) fn from_text(key: &Key, text: &str) -> Result<Value, String> {
    let wrong = |why: String| format!("{}: {why}", expected(key));
    match key.kind {
        Kind::Bool => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(expected(key)),
        },
        Kind::Count { min, max } => match text.replace('_', "").parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
            _ => Err(expected(key)),
        },
        Kind::Size => units::parse_bytes(text).map(Value::Number).map_err(|e| wrong(e.to_string())),
        Kind::Span => {
            units::parse_duration(text).map(Value::Span).map_err(|e| wrong(e.to_string()))
        }
        Kind::Text | Kind::File | Kind::SecretFile => Ok(Value::Text(text.to_owned())),
        Kind::Choice(words) => {
            if words.contains(&text) {
                return Ok(Value::Text(text.to_owned()));
            }
            let near = keys::nearest(text, words.iter().copied());
            Err(near.map_or_else(|| expected(key), |n| wrong(format!("did you mean `{n}`?"))))
        }
        Kind::TextList | Kind::SecretFiles => Ok(Value::List(
            text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect(),
        )),
    }
}

fn expected(key: &Key) -> String {
    let what = match key.kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Count { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Size => "a size such as \"256MB\" or \"4GiB\"".to_owned(),
        Kind::Span => "a time such as \"250ms\", \"10s\" or \"7d\"".to_owned(),
        Kind::Text => "a text, which stands in quotes".to_owned(),
        Kind::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
        Kind::TextList => "a list of texts".to_owned(),
        Kind::File | Kind::SecretFile => "the name of a file".to_owned(),
        Kind::SecretFiles => "a list of names of files".to_owned(),
    };
    format!("`{}` is {what}", key.path)
}

/// What a key is worth where nobody says it.
pub(super) fn default(key: &Key) -> Value {
    from_text(key, key.default).expect("a test reads every default of the table")
}
