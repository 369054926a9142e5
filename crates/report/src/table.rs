//! Tables: columns with a side to align to, rows of cells.

use crate::document::Verdict;

/// A table with an optional caption.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Says what it shows; may be empty.
    pub caption: String,
    /// Its columns, from left to right.
    pub columns: Vec<Column>,
    /// Its rows; one that is shorter than the columns ends in empty cells, one that is longer is
    /// cut.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// The same with a caption.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// The same with one more row.
    #[must_use]
    pub fn with<T: Into<Cell>>(mut self, row: impl IntoIterator<Item = T>) -> Self {
        self.push(row);
        self
    }

    /// Adds a row at the end.
    pub fn push<T: Into<Cell>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// The cell of a row in a column; empty where the row is shorter.
    pub(crate) fn cell(row: &[Cell], column: usize) -> &Cell {
        const EMPTY: &Cell = &Cell { text: String::new(), verdict: None };
        row.get(column).unwrap_or(EMPTY)
    }
}

/// A column: its title and the side its cells keep to.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The title; units belong here (`power, W`) rather than into each cell.
    pub title: String,
    /// The side cells keep to.
    pub align: Align,
}

impl Column {
    /// A column of words.
    pub fn text(title: impl Into<String>) -> Self {
        Self { title: title.into(), align: Align::Left }
    }

    /// A column of numbers.
    pub fn number(title: impl Into<String>) -> Self {
        Self { title: title.into(), align: Align::Right }
    }
}

/// A side of a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Align {
    /// Words begin below each other.
    Left,
    /// Numbers end below each other.
    Right,
}

/// What stands in one place of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// How it came out, shown by a sign before the text; nothing where it is not judged.
    pub verdict: Option<Verdict>,
}

impl Cell {
    /// A cell that is judged.
    pub fn judged(text: impl Into<String>, verdict: Verdict) -> Self {
        Self { text: text.into(), verdict: Some(verdict) }
    }

    /// The text with the sign of its verdict before it.
    pub(crate) fn shown(&self) -> String {
        match self.verdict {
            Some(verdict) if self.text.is_empty() => {
                format!("{} {}", verdict.sign(), verdict.word())
            }
            Some(verdict) => format!("{} {}", verdict.sign(), self.text),
            None => self.text.clone(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), verdict: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, verdict: None }
    }
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Self {
        Self { text: String::new(), verdict: Some(verdict) }
    }
}
