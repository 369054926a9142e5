//! What a model says: figures and tables, each with its formula and inputs, beside what the paper
//! says.

use crate::reader::Input;
use freshet_report::Plot;
use serde::Serialize;

/// The result of one model.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The model's name on the command line.
    pub model: &'static str,
    /// A heading.
    pub title: String,
    /// What the model answers and for which case, in a sentence or two.
    pub summary: String,
    /// The papers it is from, by number, and their titles.
    pub papers: Vec<&'static str>,
    /// The figures that matter most, and that a what-if range is about.
    pub figures: Vec<Figure>,
    /// All results.
    pub tables: Vec<ResultTable>,
    /// Whether inputs differ from the papers', which are then not compared.
    pub is_changed: bool,
    /// What the papers print and what the model gives; empty when an input is not the paper's.
    pub checks: Vec<Check>,
    /// Where the papers contradict themselves, and why; empty when an input is not the paper's.
    pub contradictions: Vec<Contradiction>,
    /// What no paper says and had to be assumed or read off.
    pub assumptions: Vec<String>,
    /// How each result is made.
    pub formulas: Vec<Formula>,
    /// What it is made from.
    pub inputs: Vec<Input>,
    /// What a range of an input does to the figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Pictures of the tables; not in JSON, which has the numbers.
    #[serde(skip)]
    pub plots: Vec<Plot>,
}

/// One number with its unit and the name of its formula.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: String,
    /// Decimals it is shown with.
    #[serde(skip)]
    pub decimals: usize,
    /// The [`Formula::result`] it is made by.
    pub formula: &'static str,
}

impl Figure {
    /// A figure shown with that many decimals.
    pub(crate) fn new(
        name: impl Into<String>,
        value: f64,
        unit: impl Into<String>,
        decimals: usize,
        formula: &'static str,
    ) -> Self {
        Self { name: name.into(), value, unit: unit.into(), decimals, formula }
    }
}

/// A table of results.
#[derive(Clone, Debug, Serialize)]
pub struct ResultTable {
    /// A short name for programs.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Its rows, as long as the columns.
    pub rows: Vec<Vec<Value>>,
}

/// A column of results.
#[derive(Clone, Debug, Serialize)]
pub struct ResultColumn {
    /// What it shows.
    pub title: String,
    /// Its unit; empty for counts and words.
    pub unit: String,
    /// Decimals its numbers are shown with.
    #[serde(skip)]
    pub decimals: usize,
    /// The [`Formula::result`] its numbers are made by; empty for words and inputs.
    pub formula: &'static str,
}

impl ResultColumn {
    /// A column of words.
    pub(crate) fn words(title: impl Into<String>) -> Self {
        Self { title: title.into(), unit: String::new(), decimals: 0, formula: "" }
    }

    /// A column of numbers.
    pub(crate) fn numbers(
        title: impl Into<String>,
        unit: impl Into<String>,
        decimals: usize,
        formula: &'static str,
    ) -> Self {
        Self { title: title.into(), unit: unit.into(), decimals, formula }
    }
}

/// A cell of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in its column's unit.
    Number(f64),
    /// A word or a sentence.
    Text(String),
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// How a result is made.
#[derive(Clone, Debug, Serialize)]
pub struct Formula {
    /// The name of the result.
    pub result: &'static str,
    /// The formula in words.
    pub formula: &'static str,
    /// One case with its numbers.
    pub example: String,
    /// The keys of the inputs in it.
    pub inputs: &'static [&'static str],
    /// Where it is from.
    pub source: &'static str,
}

/// Something a paper prints, and what the model gives for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What it is.
    pub what: String,
    /// As the paper prints it.
    pub paper: String,
    /// What the model gives, in the same form.
    pub model: String,
    /// How they compare.
    pub agrees: Agrees,
    /// Paper and place.
    pub source: &'static str,
}

impl Check {
    /// A printed number against the model's, rounded to the same decimals.
    pub(crate) fn printed(
        what: impl Into<String>,
        printed: &str,
        value: f64,
        source: &'static str,
    ) -> Self {
        let decimals = printed.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let model = format!("{value:.decimals$}");
        let agrees = if model == printed { Agrees::ToTheLastDigit } else { Agrees::No };
        Self { what: what.into(), paper: printed.to_owned(), model, agrees, source }
    }
}

/// How the model's number compares with the paper's.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agrees {
    /// The same to the last printed digit.
    ToTheLastDigit,
    /// Within what the paper's own words allow ("approximately", "up to").
    WithinItsWords,
    /// It does not.
    No,
}

/// A place where a paper contradicts itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contradiction {
    /// Paper and place.
    pub source: &'static str,
    /// What it says.
    pub says: String,
    /// What its own numbers give.
    pub but: String,
    /// Why, as far as that can be told.
    pub why: String,
}

/// What a range of one or two inputs does to the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Range {
    /// The inputs that were varied.
    pub inputs: Vec<String>,
    /// One row for each point: the inputs, then the figures.
    pub table: ResultTable,
}
