//! A configuration text brought to typed values, with every mistake named at its place.

use super::keys::{self, Key, Kind};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use freshet_base::units;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of one of the [`Kind`]s.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// [`Kind::Bool`]
    Bool(bool),
    /// [`Kind::Count`] and, in bytes, [`Kind::Size`]
    Number(u64),
    /// [`Kind::Span`]
    Span(Duration),
    /// [`Kind::Text`] and [`Kind::Choice`]
    Text(String),
    /// [`Kind::TextList`]
    List(Vec<String>),
}

/// One mistake, with the bytes of the text it is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// Where in the text.
    pub span: Range<usize>,
}

/// The values a text gave: those of plain tables by path, those of `[[x]]` tables in order.
#[derive(Clone, Debug, Default)]
pub struct Document {
    values: BTreeMap<&'static str, Value>,
    tables: BTreeMap<String, Vec<BTreeMap<&'static str, Value>>>,
}

impl Document {
    /// Reads `text`. All mistakes are reported, not the first.
    ///
    /// # Errors
    /// The list of mistakes, in order of place.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> = errors
            .iter()
            .map(|error| Mistake {
                message: error.message().to_owned(),
                help: None,
                span: error.span().unwrap_or(0..0),
            })
            .collect();
        let mut out = Self::default();
        if mistakes.is_empty() {
            walk(root.get_ref(), "", &mut mistakes, &mut |path, table| match table {
                Found::Value(key, value) => {
                    out.values.insert(key.path, value);
                }
                Found::Table(values) => out.tables.entry(path.to_owned()).or_default().push(values),
            });
        }
        if mistakes.is_empty() {
            return Ok(out);
        }
        mistakes.sort_by_key(|mistake| mistake.span.start);
        Err(mistakes)
    }

    /// Sets a value from text, as a command-line flag does.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), String> {
        let key = keys::find(path).expect("flags name keys of the table");
        self.values.insert(key.path, from_text(key, text)?);
        Ok(())
    }

    /// Adds a `[[table]]` with these keys, as a command-line flag does.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub fn push(&mut self, table: &str, values: &[(&str, &str)]) -> Result<(), String> {
        let mut row = BTreeMap::new();
        for (name, text) in values {
            let key = keys::find(&format!("{table}[].{name}")).expect("flags name known keys");
            row.insert(key.path, from_text(key, text)?);
        }
        self.tables.entry(table.to_owned()).or_default().push(row);
        Ok(())
    }

    /// Whether the text or a flag gave this key.
    pub fn has(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// The value at `path`, or its default from the table.
    pub fn value(&self, path: &str) -> Value {
        let key = keys::find(path).expect("only keys of the table are asked for");
        self.values.get(path).cloned().unwrap_or_else(|| default(key))
    }

    /// The rows of `[[table]]`.
    pub fn rows(&self, table: &str) -> Vec<Row<'_>> {
        self.tables.get(table).into_iter().flatten().map(Row).collect()
    }
}

/// One `[[table]]`.
pub struct Row<'a>(&'a BTreeMap<&'static str, Value>);

impl Row<'_> {
    /// The value of this key, or its default.
    pub fn value(&self, path: &str) -> Value {
        let key = keys::find(path).expect("only keys of the table are asked for");
        self.0.get(path).cloned().unwrap_or_else(|| default(key))
    }
}

impl Value {
    /// The text of a [`Kind::Text`] or [`Kind::Choice`] value.
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

    /// The texts of a [`Kind::TextList`] value.
    pub fn list(self) -> Vec<String> {
        match self {
            Self::List(list) => list,
            other => unreachable!("the key's kind says list, not {other:?}"),
        }
    }
}

/// The mistakes as a compiler shows them: file, line, the text underlined.
pub fn render(file: &str, text: &str, mistakes: &[Mistake]) -> String {
    let mut out = String::new();
    for mistake in mistakes {
        let snippet = Snippet::source(text)
            .path(file)
            .annotation(AnnotationKind::Primary.span(mistake.span.clone()));
        let mut group = Level::ERROR.primary_title(mistake.message.as_str()).element(snippet);
        if let Some(help) = &mistake.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        out.push_str(&Renderer::plain().render(&[group]));
        out.push('\n');
    }
    out
}

enum Found {
    Value(&'static Key, Value),
    Table(BTreeMap<&'static str, Value>),
}

fn walk(
    table: &DeTable<'_>,
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
            DeValue::Table(inner) if has_prefix(&format!("{path}.")) => {
                walk(inner, &format!("{path}."), mistakes, found);
            }
            DeValue::Array(items) if has_prefix(&table_path) => {
                for item in items {
                    if let DeValue::Table(inner) = item.get_ref() {
                        let mut row = BTreeMap::new();
                        walk(inner, &table_path, mistakes, &mut |_, inner| {
                            if let Found::Value(key, value) = inner {
                                row.insert(key.path, value);
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
            DeValue::Table(_) if has_prefix(&table_path) => mistakes.push(mistake(
                name.span(),
                format!("`{path}` may be given several times"),
                Some(format!("write `[[{path}]]` with two brackets")),
            )),
            _ => match keys::find(&path) {
                Some(key) => match typed(key, value) {
                    Ok(value) => found(&path, Found::Value(key, value)),
                    Err(message) => mistakes.push(mistake(value.span(), message, None)),
                },
                None => mistakes.push(unknown(name, &path, prefix)),
            },
        }
    }
}

fn unknown(name: &Spanned<toml::de::DeString<'_>>, path: &str, prefix: &str) -> Mistake {
    let level = keys::KEYS
        .iter()
        .filter_map(|key| key.path.strip_prefix(prefix))
        .map(|rest| rest.split(['.', '[']).next().expect("split gives at least one part"));
    let help = match keys::nearest(name.get_ref(), level) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`freshet keys` lists every key".to_owned(),
    };
    mistake(name.span(), format!("there is no key `{path}`"), Some(help))
}

fn has_prefix(prefix: &str) -> bool {
    keys::KEYS.iter().any(|key| key.path.starts_with(prefix))
}

fn mistake(span: Range<usize>, message: String, help: Option<String>) -> Mistake {
    Mistake { message, help, span }
}

fn typed(key: &Key, value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    match (key.kind, value.get_ref()) {
        (Kind::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
        (Kind::Count { .. } | Kind::Size, DeValue::Integer(number)) => {
            from_text(key, &number.to_string())
        }
        (Kind::TextList, DeValue::Array(items)) => items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err(format!("`{}` is a list of texts", key.path)),
            })
            .collect::<Result<_, _>>()
            .map(Value::List),
        (Kind::Bool | Kind::TextList, _) => Err(expected(key)),
        (_, DeValue::String(text)) => from_text(key, text),
        _ => Err(expected(key)),
    }
}

fn from_text(key: &Key, text: &str) -> Result<Value, String> {
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
        Kind::Text => Ok(Value::Text(text.to_owned())),
        Kind::Choice(words) => {
            if words.contains(&text) {
                return Ok(Value::Text(text.to_owned()));
            }
            let near = keys::nearest(text, words.iter().copied());
            Err(near.map_or_else(|| expected(key), |n| wrong(format!("did you mean `{n}`?"))))
        }
        Kind::TextList => Ok(Value::List(
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
        Kind::Text => "a text".to_owned(),
        Kind::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
        Kind::TextList => "a list of texts".to_owned(),
    };
    format!("`{}` is {what}", key.path)
}

fn default(key: &Key) -> Value {
    from_text(key, key.default).expect("a test reads every default of the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in keys::KEYS {
            assert!(from_text(key, key.default).is_ok(), "{}", key.path);
        }
    }

    #[test]
    fn values_and_tables_are_read_and_the_rest_defaults() {
        let document = Document::parse(
            "memory = \"1GiB\"\n[cache]\ngrace = \"10s\"\n[[origin]]\nurl = \"http://a\"\n\
             [[origin]]\nurl = \"http://b\"\nweight = 3\n",
        )
        .unwrap();
        assert_eq!(document.value("memory").text(), "1GiB");
        assert_eq!(document.value("cache.grace").span(), Duration::from_secs(10));
        let rows = document.rows("origin");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].value("origin[].weight").number(), 3);
        assert_eq!(rows[0].value("origin[].weight").number(), 1);
        assert_eq!(document.value("limits.fields_max").number(), 100);
    }

    #[test]
    fn all_mistakes_are_named_at_their_place() {
        let text = "memroy = \"1GiB\"\n[cache]\ngrace = 5\ngrase = \"1s\"\n[origin]\nurl = \"x\"\n";
        let mistakes = Document::parse(text).unwrap_err();
        let shown = render("freshet.toml", text, &mistakes);
        assert_eq!(mistakes.len(), 4, "{shown}");
        assert!(shown.contains("did you mean `memory`?"), "{shown}");
        assert!(shown.contains("freshet.toml:3"), "{shown}");
        assert!(shown.contains("did you mean `grace`?"), "{shown}");
        assert!(shown.contains("[[origin]]"), "{shown}");
    }

    #[test]
    fn broken_toml_is_a_mistake_and_not_a_panic() {
        let text = "memory = \n[[";
        let mistakes = Document::parse(text).unwrap_err();
        assert!(render("f", text, &mistakes).contains("f:1"));
    }
}
