//! A configuration text brought to typed values, with every mistake named at its place.

mod value;
mod walk;

pub use value::Value;

use super::keys::{self, Key, Keys};
use super::mistake::{Mistake, Place};
use super::stages;
use std::path::Path;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};
use value::{default, from_text};
use walk::{Found, Scope, mistake, rows_of, walk};

/// The values a text gave, or those of one of its sites over those of the top level.
#[derive(Clone, Debug)]
pub struct Document {
    keys: &'static Keys,
    own: Arc<Layer>,
    below: Option<Arc<Layer>>,
    sites: Vec<Arc<Layer>>,
}

/// Values of plain tables by path, those of `[[x]]` tables in order.
#[derive(Clone, Debug, Default)]
struct Layer {
    values: Values,
    tables: Vec<(&'static str, Vec<Values>)>,
}

/// Values by path, and where they are. Few of them: a list takes less room than a tree, and there may
/// be ten thousand.
#[derive(Clone, Debug, Default)]
struct Values {
    list: Vec<(&'static str, Value, Place)>,
    /// The table they are in.
    place: Place,
}

impl Values {
    fn get(&self, path: &str) -> Option<&Value> {
        self.list.iter().find(|(known, ..)| *known == path).map(|(_, value, _)| value)
    }

    fn at(&self, path: &str) -> Option<Place> {
        self.list.iter().find(|(known, ..)| *known == path).map(|(.., place)| *place)
    }

    /// Sets a value, in place of what was there.
    fn insert(&mut self, path: &'static str, value: Value, place: Place) {
        match self.list.iter_mut().find(|(known, ..)| *known == path) {
            Some(known) => *known = (path, value, place),
            None => {
                self.list.reserve_exact(1);
                self.list.push((path, value, place));
            }
        }
    }
}

impl Default for Document {
    /// `freshet.toml` without a word in it.
    fn default() -> Self {
        Self::of(&keys::NODE)
    }
}

impl Document {
    fn of(keys: &'static Keys) -> Self {
        Self { keys, own: Arc::default(), below: None, sites: Vec::new() }
    }

    /// Reads `text` as `freshet.toml`; as [`Document::parse_by`].
    ///
    /// # Errors
    /// The list of mistakes, in order of place.
    pub fn parse(text: &str) -> Result<Self, Vec<Mistake>> {
        Self::parse_by(&keys::NODE, text)
    }

    /// Reads what can be read of `text` as `freshet.toml`, with all that is wrong with it in order of place.
    pub fn read(text: &str) -> (Self, Vec<Mistake>) {
        Self::read_by(&keys::NODE, text)
    }

    /// Reads `text` against a table of keys. All mistakes are reported, not the first.
    ///
    /// # Errors
    /// The list of mistakes, in order of place.
    pub fn parse_by(keys: &'static Keys, text: &str) -> Result<Self, Vec<Mistake>> {
        let (document, mistakes) = Self::read_by(keys, text);
        if mistakes.is_empty() { Ok(document) } else { Err(mistakes) }
    }

    fn read_by(keys: &'static Keys, text: &str) -> (Self, Vec<Mistake>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut mistakes: Vec<Mistake> = errors
            .iter()
            .map(|error| mistake(error.span().unwrap_or(0..0), error.message().to_owned(), None))
            .collect();
        if let Some(first) = mistakes.first_mut() {
            let help = "this is read as TOML: `key = \"text\"`, tables under `[table]`, lists of tables \
                        under `[[table]]`";
            first.help = Some(help.into());
        }
        let mut out = Self::of(keys);
        let (whole, scope, mut found) = (Place::default(), Scope::Whole(keys), Vec::new());
        out.own = Arc::new(Layer::read(root.get_ref(), scope, whole, &mut found));
        let sites = root.get_ref().get("site").filter(|_| keys.has_sites);
        for site in sites.map_or(&[][..], |sites| rows_of(sites)) {
            if let DeValue::Table(table) = site.get_ref() {
                let (place, scope) = (site.span().into(), Scope::Site(keys));
                out.sites.push(Arc::new(Layer::read(table, scope, place, &mut found)));
            }
        }
        let mistakes = stages::and_then(text, mistakes, found);
        (out, mistakes)
    }

    /// Reads `text`, which others are laid over, as the text of this number; files that it names
    /// without a `/` at the beginning are in `folder`.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_below(text: &str, number: u8, folder: &Path) -> Result<Self, Vec<Mistake>> {
        let mut out = Self::parse(text).map_err(|mut mistakes| {
            mistakes.iter_mut().for_each(|one| one.place = one.place.in_text(number));
            mistakes
        })?;
        let keys = out.keys;
        for layer in std::iter::once(&mut out.own).chain(&mut out.sites) {
            Arc::make_mut(layer).settle(keys, number, folder);
        }
        Ok(out)
    }

    /// This document laid over another. A value that both have is this one's; so are the rows of a
    /// `[[table]]` that both have, and the sites.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        let mut own = (*below.own).clone();
        own.values.place = self.own.values.place;
        for (path, value, place) in &self.own.values.list {
            own.values.insert(path, value.clone(), *place);
        }
        for (table, rows) in &self.own.tables {
            own.tables.retain(|(known, _)| known != table);
            own.tables.push((table, rows.clone()));
        }
        let sites = if self.sites.is_empty() { below.sites.clone() } else { self.sites };
        Self { keys: self.keys, own: Arc::new(own), below: self.below, sites }
    }

    /// Each value that names a file, or several, with its key; those of sites too.
    pub fn files(&self) -> impl Iterator<Item = (&'static Key, &str)> {
        self.placed_files().map(|(key, name, _)| (key, name))
    }

    /// The same with where each is named.
    pub fn placed_files(&self) -> impl Iterator<Item = (&'static Key, &str, Place)> {
        let layers = std::iter::once(&self.own).chain(&self.sites);
        let all = layers.flat_map(|layer| layer.given());
        let all = all.filter_map(|(path, value, place)| {
            let key = self.keys.find(path).filter(|key| key.kind.is_file())?;
            Some((key, value, *place))
        });
        all.flat_map(|(key, value, place)| match value {
            Value::Text(name) => vec![(key, name.as_str(), place)],
            Value::List(names) => names.iter().map(|name| (key, name.as_str(), place)).collect(),
            _ => Vec::new(),
        })
    }

    /// Each key that the text gives, also in rows of its tables, and where; without those of the top level where this
    /// is a site, and of its sites where it is not.
    pub fn given(&self) -> impl Iterator<Item = (&'static Key, Place)> {
        self.own.given().filter_map(|(path, _, place)| Some((self.keys.find(path)?, *place)))
    }

    /// The first value of a `[table]`, where the text has one.
    pub fn first_of(&self, table: &str) -> Option<(&'static str, Place)> {
        let is_of = |path: &str| path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        let mut values = self.own.values.list.iter();
        values.find(|(path, ..)| is_of(path)).map(|(path, _, place)| (*path, *place))
    }

    /// Sets a value from text, as a command-line flag does.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), String> {
        let key = self.keys.find(path).expect("flags name keys of the table");
        let value = from_text(key, text)?;
        Arc::make_mut(&mut self.own).values.insert(key.path, value, Place::of_flag());
        Ok(())
    }

    /// Adds a `[[table]]` with these keys, as a command-line flag does.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub fn push(&mut self, table: &str, values: &[(&str, &str)]) -> Result<(), String> {
        let mut row = Values { place: Place::of_flag(), ..Values::default() };
        for (name, text) in values {
            let path = format!("{table}[].{name}");
            let key = self.keys.find(&path).expect("flags name known keys");
            row.insert(key.path, from_text(key, text)?, Place::of_flag());
        }
        let table = self.keys.table(table).expect("flags name known tables");
        Arc::make_mut(&mut self.own).push(table, row);
        Ok(())
    }

    /// Every value in the order of the table of keys, defaults included: `given` says whether the text
    /// or a flag gave it. Keys of `[[x]]` tables come once for each row, with its number.
    pub fn each(&self, mut see: impl FnMut(&'static Key, Option<usize>, Value, bool)) {
        let is_layered = |key: &&Key| self.keys.has_sites && key.path.starts_with("site[].");
        for key in self.keys.list.iter().filter(|key| !is_layered(key)) {
            match key.path.split_once("[].") {
                None => see(key, None, self.value(key.path), self.has(key.path)),
                Some((table, _)) => {
                    for (index, row) in self.rows(table).iter().enumerate() {
                        see(
                            key,
                            Some(index),
                            row.value(key.path),
                            row.values.get(key.path).is_some(),
                        );
                    }
                }
            }
        }
    }

    /// Whether the text or a flag gave this key.
    pub fn has(&self, path: &str) -> bool {
        self.own.values.get(path).is_some()
    }

    /// Where the value at `path` is; the table it would be in, where the text does not give it.
    pub fn at(&self, path: &str) -> Place {
        let below = || self.below.as_ref().and_then(|below| below.values.at(path));
        self.own.values.at(path).or_else(below).unwrap_or(self.own.values.place)
    }

    /// The value at `path`, or its default from the table.
    pub fn value(&self, path: &str) -> Value {
        let key = self.keys.find(path).expect("only keys of the table are asked for");
        let below = || self.below.as_ref().and_then(|below| below.values.get(path));
        self.own.values.get(path).or_else(below).cloned().unwrap_or_else(|| default(key))
    }

    /// The rows of `[[table]]`: a site's own, or where it has none those of the top level.
    pub fn rows(&self, table: &str) -> Vec<Row<'_>> {
        let below = || self.below.as_ref().and_then(|below| below.table(table));
        self.own
            .table(table)
            .or_else(below)
            .into_iter()
            .flatten()
            .map(|values| Row { keys: self.keys, values })
            .collect()
    }

    /// The rows of `[[table]]` without those of the top level, where this is a site.
    pub fn own_rows(&self, table: &str) -> Vec<Row<'_>> {
        let rows = self.own.table(table).into_iter().flatten();
        rows.map(|values| Row { keys: self.keys, values }).collect()
    }

    /// The sites, each over the top level, in the order of the text.
    pub fn sites(&self) -> impl Iterator<Item = Self> {
        self.sites.iter().map(|site| Self {
            keys: self.keys,
            own: Arc::clone(site),
            below: Some(Arc::clone(&self.own)),
            sites: Vec::new(),
        })
    }
}

impl Layer {
    fn read(table: &DeTable<'_>, scope: Scope, place: Place, mistakes: &mut Vec<Mistake>) -> Self {
        let mut out = Self::default();
        out.values.place = place;
        walk(table, scope, "", mistakes, &mut |path, table| match table {
            Found::Value(key, value, place) => {
                out.values.insert(key.path, value, place);
            }
            Found::Table(row) => {
                let table = scope.keys().table(path);
                out.push(table.expect("walk names tables that there are"), row);
            }
        });
        out
    }

    /// Each value that it gives, also in rows of its tables.
    fn given(&self) -> impl Iterator<Item = &(&'static str, Value, Place)> {
        let rows = self.tables.iter().flat_map(|(_, rows)| rows);
        std::iter::once(&self.values).chain(rows).flat_map(|values| &values.list)
    }

    /// Has it be in the text of this number, and its files in `folder`.
    fn settle(&mut self, keys: &'static Keys, number: u8, folder: &Path) {
        let settled = |name: &mut String| {
            if !name.is_empty() && !name.starts_with('/') {
                *name = folder.join(&*name).to_string_lossy().into_owned();
            }
        };
        let rows = self.tables.iter_mut().flat_map(|(_, rows)| rows);
        for values in std::iter::once(&mut self.values).chain(rows) {
            values.place = values.place.in_text(number);
            for (path, value, place) in &mut values.list {
                *place = place.in_text(number);
                if keys.find(path).is_some_and(|key| key.kind.is_file()) {
                    match value {
                        Value::Text(name) => settled(name),
                        Value::List(names) => names.iter_mut().for_each(settled),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The rows of `[[table]]`, where there is one.
    fn table(&self, table: &str) -> Option<&Vec<Values>> {
        self.tables.iter().find(|(known, _)| *known == table).map(|(_, rows)| rows)
    }

    /// Adds a row to `[[table]]`.
    fn push(&mut self, table: &'static str, row: Values) {
        match self.tables.iter_mut().find(|(known, _)| *known == table) {
            Some((_, rows)) => rows.push(row),
            None => {
                self.tables.reserve_exact(1);
                self.tables.push((table, vec![row]));
            }
        }
    }
}

/// One `[[table]]`.
pub struct Row<'a> {
    keys: &'static Keys,
    values: &'a Values,
}

impl Row<'_> {
    /// Where the value of this key is; the table, where the text does not give it.
    pub fn at(&self, path: &str) -> Place {
        self.values.at(path).unwrap_or(self.values.place)
    }

    /// Whether the text gives a value for this key.
    pub fn has(&self, path: &str) -> bool {
        self.values.get(path).is_some()
    }

    /// The value of this key, or its default.
    pub fn value(&self, path: &str) -> Value {
        let key = self.keys.find(path).expect("only keys of the table are asked for");
        self.values.get(path).cloned().unwrap_or_else(|| default(key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::mistake::render;
    use super::*;
    use std::time::Duration;

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
    fn a_name_in_the_wrong_form_is_told_its_form() {
        for (text, says) in [
            ("[[origins]]\nurl = \"http://a\"\n", "did you mean `[[origin]]`?"),
            ("[admin]\naddress = \"127.0.0.1:1\"\n", "`admin` has listen, "),
            ("origin = \"http://a\"\n", "write `[[origin]]` and its keys below"),
            ("cache = 1\n", "write `[cache]` and its keys below"),
        ] {
            let mistakes = Document::parse(text).expect_err(text);
            assert!(mistakes[0].to_string().contains(says), "{text}: {}", mistakes[0]);
        }
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
    fn one_text_over_another_wins_and_files_below_are_beside_it() {
        let below = "memory = \"1GiB\"\nvcl = \"p.vcl\"\n[cache]\ngrace = \"1s\"\n\
                     [[certificate]]\ncert = \"/a\"\nkey = \"tls/key\"\n\
                     [[site]]\nhosts = [\"a\"]\n[[site.error_page]]\nfile = \"e.html\"\n";
        let below = Document::parse_below(below, 1, Path::new("/b")).unwrap();
        let names: Vec<_> = below.files().map(|(key, name)| (key.path, name)).collect();
        let all = [
            ("vcl", "/b/p.vcl"),
            ("certificate[].cert", "/a"),
            ("certificate[].key", "/b/tls/key"),
            ("error_page[].file", "/b/e.html"),
        ];
        assert_eq!(names, all);
        let own = "memory = \"2GiB\"\n[[listen]]\naddress = \":1\"\n";
        let both = Document::parse(own).unwrap().over(&below);
        assert_eq!(both.value("memory").text(), "2GiB");
        assert_eq!(both.value("cache.grace").span(), Duration::from_secs(1));
        assert_eq!((both.at("memory").text(), both.at("cache.grace").text()), (0, 1));
        assert_eq!((both.rows("listen").len(), both.rows("certificate").len()), (1, 1));
        assert_eq!(both.sites().count(), 1);
        let own =
            "[[certificate]]\ncert = \"c\"\n[[site]]\nhosts = [\"b\"]\n[fleet]\nname = \"x\"\n";
        let own = Document::parse(own).unwrap();
        assert_eq!(own.first_of("fleet").map(|(path, _)| path), Some("fleet.name"));
        assert_eq!(own.first_of("flee"), None);
        let both = own.over(&below);
        assert_eq!(both.rows("certificate")[0].value("certificate[].cert").text(), "c");
        let hosts = both.sites().map(|site| site.value("site[].hosts").list());
        assert_eq!(hosts.collect::<Vec<_>>(), [["b"]]);
        let wrong = Document::parse_below("memroy = 1\n", 1, Path::new("/b")).unwrap_err();
        assert_eq!(wrong[0].place.text(), 1);
    }

    #[test]
    fn broken_toml_is_a_mistake_and_not_a_panic() {
        let text = "memory = \n[[";
        let mistakes = Document::parse(text).unwrap_err();
        assert!(render("f", text, &mistakes).contains("f:1"));
    }
}
