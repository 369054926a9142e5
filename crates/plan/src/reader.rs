//! Typed inputs: a key is asked for with its dimension and its bound, and answered from a flag, the
//! reader's own file or the paper's, in this order.

use crate::mistake::{Mistake, PlanError, render};
use crate::quantity::{Dimension, Quantity, Ratio};
use crate::sheet::{Entry, Field, Held, Row, Sheet};
use crate::unit;
use freshet_base::nearest::nearest;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most rows a file may repeat a table: a plan is for people, who read each row.
pub const ROWS_MAX: usize = 200;

/// Shares that must make up a whole may miss it by this: they are typed with few digits.
const WHOLE_SLACK: f64 = 1e-6;

/// Which values make sense.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bound {
    /// More than zero.
    Positive,
    /// Zero or more.
    NotNegative,
    /// From zero to one.
    Share,
    /// One or more.
    AtLeastOne,
    /// A whole number, one or more, at most a million.
    Count,
    /// A whole number, zero or more, at most a million.
    CountOrNone,
}

/// Counts beyond are slips of the hand, and would only overflow a table.
const COUNT_MAX: f64 = 1e6;

impl Bound {
    fn check(self, value: f64) -> Result<(), &'static str> {
        let is_whole = value.fract() == 0.0 && value <= COUNT_MAX;
        match self {
            Self::Positive if value <= 0.0 => Err("must be more than zero"),
            Self::NotNegative if value < 0.0 => Err("must not be less than zero"),
            Self::Share if !(0.0..=1.0).contains(&value) => {
                Err("is a share and must be from 0 % to 100 %")
            }
            Self::AtLeastOne if value < 1.0 => Err("must be at least 1"),
            Self::Count if !is_whole || value < 1.0 => Err("must be a whole number, at least 1"),
            Self::CountOrNone if !is_whole || value < 0.0 => Err("must be a whole number or 0"),
            _ => Ok(()),
        }
    }
}

/// An input that was used: what it was, and where it is from.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Input {
    /// Its key; for one of a repeated table `table.name.key`.
    pub key: String,
    /// As it was written.
    pub value: String,
    /// Where it is from: paper and table, file and line, or a flag.
    pub source: String,
}

/// Whether one of the inputs whose key ends so is in use as the papers' file has it, with a source that begins so:
/// what is noted of it is untrue of another.
pub(crate) fn uses(inputs: &[Input], key_end: &str, source: &str) -> bool {
    inputs.iter().any(|input| input.key.ends_with(key_end) && input.source.starts_with(source))
}

/// A file of inputs as its reader named it.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// How messages name it.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Reads the inputs of one model.
pub(crate) struct Reader<'a> {
    defaults: Sheet,
    file: Option<File<'a>>,
    given: Sheet,
    flags: BTreeMap<String, String>,
    used_flags: BTreeSet<String>,
    known: BTreeSet<String>,
    inputs: Vec<Input>,
    mistakes: Vec<Mistake>,
    flag_mistakes: Vec<String>,
    varied: Vec<String>,
    currency: Option<(&'static str, String)>,
    /// Whether two currencies were found.
    is_mixed: bool,
}

/// Where a value was found.
enum Place {
    Default,
    File(Range<usize>, usize),
    Flag,
}

struct Found {
    text: String,
    place: Place,
    comment: String,
}

impl<'a> Reader<'a> {
    /// `defaults` is the paper's case as TOML; a file and flags replace what is in it.
    pub(crate) fn new(
        defaults: &str,
        file: Option<File<'a>>,
        flags: &[(String, String)],
    ) -> Result<Self, PlanError> {
        let defaults = Sheet::parse(defaults).expect("a test reads the papers' inputs");
        let given = match file {
            None => Sheet::default(),
            Some(file) => Sheet::parse(file.text).map_err(|mistakes| {
                PlanError::ConfigFile(render(file.name, file.text, &mistakes))
            })?,
        };
        Ok(Self {
            defaults,
            file,
            given,
            flags: flags.iter().cloned().collect(),
            used_flags: BTreeSet::new(),
            known: BTreeSet::new(),
            inputs: Vec::new(),
            mistakes: Vec::new(),
            flag_mistakes: Vec::new(),
            varied: Vec::new(),
            currency: None,
            is_mixed: false,
        })
    }

    /// Notes which inputs have other values at other points of a range.
    pub(crate) fn vary<'k>(mut self, keys: impl Iterator<Item = &'k str>) -> Self {
        self.varied = keys.map(str::to_owned).collect();
        self
    }

    /// Whether an input has other values at other points of a range, so that nothing can be named after one.
    pub(crate) fn is_varied(&self, key: &str) -> bool {
        self.varied.iter().any(|varied| varied == key)
    }

    /// Whether anything is not the paper's.
    pub(crate) fn is_changed(&self) -> bool {
        self.file.is_some() || !self.flags.is_empty()
    }

    /// Whether a mistake was found so far.
    pub(crate) fn is_mistaken(&self) -> bool {
        !self.mistakes.is_empty() || !self.flag_mistakes.is_empty()
    }

    /// Whether the file or a flag gives this key.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.flags.contains_key(key) || self.given.fields.iter().any(|field| field.name == key)
    }

    /// Whether the file gives a repeated table, or a flag a value in it.
    pub(crate) fn is_touched(&self, table: &str) -> bool {
        let is_in =
            |key: &String| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        self.is_given(table) || self.flags.keys().any(is_in)
    }

    /// The currency of the plan; that of the papers where no amount of money was read.
    pub(crate) fn currency(&self) -> &'static str {
        self.currency.as_ref().map_or("USD", |(code, _)| code)
    }

    /// A quantity of the top level.
    pub(crate) fn quantity<D: Dimension>(&mut self, key: &str, bound: Bound) -> Quantity<D> {
        let found = self.find(key);
        self.read(key, found, bound)
    }

    /// A plain number or share of the top level.
    pub(crate) fn number(&mut self, key: &str, bound: Bound) -> f64 {
        self.quantity::<Ratio>(key, bound).number()
    }

    /// A text of the top level.
    pub(crate) fn text(&mut self, key: &str) -> String {
        let found = self.find(key);
        self.note(key, &found);
        found.text
    }

    /// Yes or no.
    pub(crate) fn truth(&mut self, key: &str) -> bool {
        let found = self.find(key);
        self.read_truth(key, &found)
    }

    fn read_truth(&mut self, key: &str, found: &Found) -> bool {
        self.note(key, found);
        let (text, name) = (&found.text, key.rsplit('.').next().unwrap_or(key));
        match text.as_str() {
            "true" => true,
            "false" => false,
            _ => {
                self.wrong(key, found, format!("`{name}` is `{text}`"), "write `true` or `false`");
                false
            }
        }
    }

    /// A list of quantities of the top level, each once.
    pub(crate) fn quantities<D: Dimension>(
        &mut self,
        key: &str,
        bound: Bound,
    ) -> Vec<(String, Quantity<D>)> {
        self.known.insert(key.to_owned());
        let from_flag: Option<Vec<Found>> = self.flags.get(key).cloned().map(|text| {
            self.used_flags.insert(key.to_owned());
            let each = text.split(',').map(|one| one.trim().to_owned());
            each.map(|text| Found { text, place: Place::Flag, comment: String::new() }).collect()
        });
        let given = or_mistake(self.given.many(key), &mut self.mistakes)
            .map(|all| all.iter().map(of_file).collect());
        let found: Vec<Found> = from_flag.or(given).unwrap_or_else(|| {
            let papers = self.defaults.many(key).ok().flatten();
            papers.expect("the paper's inputs have every key").iter().map(of_default).collect()
        });
        found
            .into_iter()
            .take(ROWS_MAX)
            .map(|one| (one.text.clone(), self.read(key, one, bound)))
            .collect()
    }

    /// The rows of a repeated table: those of the file where it has any, else the paper's.
    pub(crate) fn rows(&mut self, table: &str) -> Vec<RowOf> {
        self.known.insert(table.to_owned());
        let given = or_mistake(self.given.rows(table), &mut self.mistakes);
        let (rows, is_default) = match given {
            Some(rows) => (rows.to_vec(), false),
            None => (self.defaults.rows(table).ok().flatten().unwrap_or_default().to_vec(), true),
        };
        if rows.len() > ROWS_MAX
            && let Some(row) = rows.get(ROWS_MAX)
        {
            self.mistakes.push(Mistake {
                message: format!("more than {ROWS_MAX} of `[[{table}]]`"),
                help: "leave out those that are not needed".to_owned(),
                span: row.span.clone(),
            });
        }
        let mut names = BTreeSet::new();
        rows.into_iter()
            .take(ROWS_MAX)
            .enumerate()
            .map(|(index, row)| {
                let entry = or_mistake(row.one("name"), &mut self.mistakes).cloned();
                let name = entry
                    .as_ref()
                    .map_or_else(|| format!("{}", index + 1), |entry| entry.text.clone());
                if !names.insert(name.clone()) && !is_default {
                    self.mistakes.push(Mistake {
                        message: format!("two of `[[{table}]]` are called `{name}`"),
                        help: "give each a name of its own".to_owned(),
                        span: entry
                            .as_ref()
                            .map_or_else(|| row.span.clone(), |entry| entry.span.clone()),
                    });
                }
                let comment = entry.map(|entry| entry.comment).unwrap_or_default();
                RowOf { table: table.to_owned(), name, row, is_default, comment }
            })
            .collect()
    }

    /// A quantity of a row. One that the row may leave out has `otherwise`.
    pub(crate) fn of_row<D: Dimension>(
        &mut self,
        row: &RowOf,
        key: &str,
        bound: Bound,
        otherwise: Option<&str>,
    ) -> Quantity<D> {
        let path = format!("{}.{}.{key}", row.table, row.name);
        let mistakes = self.mistakes.len();
        match self.find_in_row(row, key, &path, otherwise) {
            Some(found) => self.read(&path, found, bound),
            None => {
                // What is there in another shape is not missing.
                if self.mistakes.len() == mistakes {
                    self.missing(row, key, D::EXAMPLE);
                }
                Quantity::ZERO
            }
        }
    }

    /// Whether a row, or a flag for it, gives this key.
    pub(crate) fn is_in_row(&self, row: &RowOf, key: &str) -> bool {
        let path = format!("{}.{}.{key}", row.table, row.name);
        self.flags.contains_key(&path) || row.row.fields.iter().any(|field| field.name == key)
    }

    /// A plain number or share of a row.
    pub(crate) fn number_of_row(
        &mut self,
        row: &RowOf,
        key: &str,
        bound: Bound,
        otherwise: Option<&str>,
    ) -> f64 {
        self.of_row::<Ratio>(row, key, bound, otherwise).number()
    }

    /// Yes or no of a row; `otherwise` where it does not say.
    pub(crate) fn truth_of_row(&mut self, row: &RowOf, key: &str, otherwise: bool) -> bool {
        let path = format!("{}.{}.{key}", row.table, row.name);
        match self.find_in_row(row, key, &path, None) {
            Some(found) => self.read_truth(&path, &found),
            None => otherwise,
        }
    }

    /// A text of a row; empty where it has none.
    pub(crate) fn text_of_row(&mut self, row: &RowOf, key: &str) -> String {
        let path = format!("{}.{}.{key}", row.table, row.name);
        let found = self.find_in_row(row, key, &path, Some(""));
        let Some(found) = found else { return String::new() };
        if !found.text.is_empty() {
            self.note(&path, &found);
        }
        found.text
    }

    /// Records that a value of a row is not usable for a reason its type cannot say.
    pub(crate) fn refuse_row(&mut self, row: &RowOf, key: &str, message: String, help: &str) {
        let path = format!("{}.{}.{key}", row.table, row.name);
        if let Some(found) = self.find_in_row(row, key, &path, Some("")) {
            self.wrong(&path, &found, message, help);
        }
    }

    /// Refuses shares of rows, as they stand at `key`, that do not make a whole.
    pub(crate) fn expect_whole(
        &mut self,
        rows: &[RowOf],
        key: &str,
        shares: impl Iterator<Item = f64>,
    ) {
        let whole: f64 = shares.sum();
        if let Some(row) = rows.last().filter(|_| (whole - 1.0).abs() > WHOLE_SLACK) {
            let (table, percent) = (&row.table, whole * 100.0);
            let message = format!("the {key}s of all `[[{table}]]` make {percent:.4} %, not 100 %");
            self.refuse_row(row, key, message, "correct one of them");
        }
    }

    /// Records that a value of the top level is not usable for a reason its type cannot say.
    pub(crate) fn refuse(&mut self, key: &str, message: String, help: &str) {
        let found = self.find(key);
        self.wrong(key, &found, message, help);
    }

    /// The inputs used, once everything was asked for.
    ///
    /// # Errors
    /// All mistakes, each in its place, unknown keys among them.
    pub(crate) fn finish(mut self) -> Result<Vec<Input>, PlanError> {
        self.find_unknown();
        if !self.mistakes.is_empty()
            && let Some(file) = self.file
        {
            self.mistakes.sort_by_key(|mistake| mistake.span.start);
            self.mistakes.dedup();
            return Err(PlanError::ConfigFile(render(file.name, file.text, &self.mistakes)));
        }
        if !self.flag_mistakes.is_empty() {
            return Err(PlanError::ConfigFlag(self.flag_mistakes.join("\n")));
        }
        Ok(self.inputs)
    }

    fn find(&mut self, key: &str) -> Found {
        self.known.insert(key.to_owned());
        if let Some(text) = self.flags.get(key) {
            self.used_flags.insert(key.to_owned());
            return Found { text: text.clone(), place: Place::Flag, comment: String::new() };
        }
        let given = or_mistake(self.given.one(key), &mut self.mistakes);
        match (given, self.defaults.one(key).ok().flatten()) {
            (Some(entry), _) => of_file(entry),
            (None, Some(entry)) => of_default(entry),
            (None, None) => unreachable!("the paper's inputs have every key, and not `{key}`"),
        }
    }

    fn find_in_row(
        &mut self,
        row: &RowOf,
        key: &str,
        path: &str,
        otherwise: Option<&str>,
    ) -> Option<Found> {
        self.known.insert(format!("{}[].{key}", row.table));
        if let Some(text) = self.flags.get(path) {
            self.used_flags.insert(path.to_owned());
            return Some(Found { text: text.clone(), place: Place::Flag, comment: String::new() });
        }
        self.known.insert(path.to_owned());
        match (or_mistake(row.row.one(key), &mut self.mistakes), otherwise) {
            (Some(entry), _) => {
                let mut found = if row.is_default { of_default(entry) } else { of_file(entry) };
                if found.comment.is_empty() {
                    found.comment.clone_from(&row.comment);
                }
                Some(found)
            }
            (None, Some(text)) => Some(Found {
                text: text.to_owned(),
                place: Place::Default,
                comment: "when not given".to_owned(),
            }),
            (None, None) => None,
        }
    }

    fn read<D: Dimension>(&mut self, key: &str, found: Found, bound: Bound) -> Quantity<D> {
        self.note(key, &found);
        if let Ok((_, unit)) = unit::parse(&found.text)
            && let Some(currency) = unit.currency
        {
            self.check_currency(key, &found, currency);
        }
        let value = match Quantity::<D>::parse(&found.text) {
            Ok(value) => value,
            Err(error) => {
                let name = key.rsplit('.').next().unwrap_or(key);
                let help = match bound {
                    Bound::Count | Bound::CountOrNone => format!("write it as `{name} = 8`"),
                    _ => format!("write it as `{name} = \"{}\"`", D::EXAMPLE),
                };
                self.wrong(key, &found, format!("`{name}`: {error}"), &help);
                return Quantity::ZERO;
            }
        };
        if let Err(why) = bound.check(value / Quantity::of_base(1.0)) {
            let name = key.rsplit('.').next().unwrap_or(key);
            let message = format!("`{name}` is {} and {why}", found.text);
            self.wrong(key, &found, message, "correct the number, or its unit");
        }
        value
    }

    fn check_currency(&mut self, key: &str, found: &Found, currency: &'static str) {
        match &self.currency {
            None => self.currency = Some((currency, key.to_owned())),
            Some((first, _)) if *first == currency => {}
            // Said once: all others follow from it.
            Some(_) if self.is_mixed => {}
            Some((first, of)) => {
                self.is_mixed = true;
                let message = format!("`{key}` is in {currency} and `{of}` in {first}");
                let help = "give all amounts in one currency: a plan knows no rates of exchange";
                self.wrong(key, found, message, help);
            }
        }
    }

    fn note(&mut self, key: &str, found: &Found) {
        let comment = &found.comment;
        let source = match (&found.place, self.file) {
            (Place::File(_, line), Some(file)) if comment.is_empty() => {
                format!("{}:{line}", file.name)
            }
            (Place::File(_, line), Some(file)) => format!("{}:{line}, {comment}", file.name),
            (Place::Flag, _) => "flag".to_owned(),
            _ => comment.clone(),
        };
        let input = Input { key: key.to_owned(), value: found.text.clone(), source };
        if !self.inputs.contains(&input) {
            self.inputs.push(input);
        }
    }

    fn wrong(&mut self, key: &str, found: &Found, message: String, help: &str) {
        match &found.place {
            Place::File(span, _) => {
                let help = help.to_owned();
                self.mistakes.push(Mistake { message, help, span: span.clone() });
            }
            Place::Flag => {
                self.flag_mistakes.push(format!("{key}={}: {message}; {help}", found.text))
            }
            // What a flag or the file is at odds with: its own place is in nobody's file.
            Place::Default if self.file.is_none() => {
                self.flag_mistakes.push(format!("{message}; {help}"));
            }
            Place::Default => {
                self.mistakes.push(Mistake { message, help: help.to_owned(), span: 0..0 });
            }
        }
    }

    fn missing(&mut self, row: &RowOf, key: &str, example: &str) {
        self.mistakes.push(Mistake {
            message: format!("`[[{}]]` needs `{key}`", row.table),
            help: format!("write `{key} = \"{example}\"` below it, with your value"),
            span: row.row.span.clone(),
        });
    }

    fn find_unknown(&mut self) {
        let mut found = Vec::new();
        for field in &self.given.fields {
            if !self.known.contains(&field.name) {
                found.push(self.unknown(field, "", ""));
                continue;
            }
            let Held::Rows(rows) = &field.held else { continue };
            let prefix = format!("{}[].", field.name);
            for inner in rows.iter().flat_map(|row| &row.fields) {
                if inner.name != "name" && !self.known.contains(&format!("{prefix}{}", inner.name))
                {
                    found.push(self.unknown(inner, &prefix, &field.name));
                }
            }
        }
        self.mistakes.extend(found);
        for key in self.flags.keys().filter(|key| !self.used_flags.contains(*key)) {
            let known = self.known.iter().map(String::as_str).filter(|known| !known.contains("[]"));
            let help = nearest(key, known).map_or_else(
                || "`freshet plan MODEL --inputs` shows all".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            self.flag_mistakes.push(format!("there is no input `{key}` here; {help}"));
        }
    }

    fn unknown(&self, field: &Field, prefix: &str, table: &str) -> Mistake {
        let known = self.known.iter().filter_map(|known| known.strip_prefix(prefix));
        let level: Vec<&str> = known.filter(|known| !known.contains('.')).collect();
        let help = nearest(&field.name, level.iter().copied()).map_or_else(
            || format!("known here: {}", level.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        let place = if table.is_empty() { String::new() } else { format!(" in `[[{table}]]`") };
        Mistake {
            message: format!("there is no input `{}`{place}", field.name),
            help,
            span: field.span.clone(),
        }
    }
}

/// What a file gives; a mistake in it is noted.
fn or_mistake<T>(given: Result<Option<T>, Mistake>, mistakes: &mut Vec<Mistake>) -> Option<T> {
    given.unwrap_or_else(|mistake| {
        mistakes.push(mistake);
        None
    })
}

fn of_file(entry: &Entry) -> Found {
    Found {
        text: entry.text.clone(),
        place: Place::File(entry.span.clone(), entry.line),
        comment: entry.comment.clone(),
    }
}

fn of_default(entry: &Entry) -> Found {
    Found { text: entry.text.clone(), place: Place::Default, comment: entry.comment.clone() }
}

/// One row of a repeated table.
pub(crate) struct RowOf {
    table: String,
    /// What it is called: its `name`, or its number.
    pub(crate) name: String,
    row: Row,
    is_default: bool,
    comment: String,
}
