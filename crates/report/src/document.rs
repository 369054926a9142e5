//! The tree a report is made of.

use crate::plot::Plot;
use crate::table::Table;

/// A report: a title, an optional sentence below it, and what it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The heading of the page and the name of its window.
    pub title: String,
    /// One or two sentences that say what was asked and what came out; may be empty.
    pub summary: String,
    /// The body, in order.
    pub blocks: Vec<Block>,
    /// A last line: program, version, date; may be empty.
    pub footer: String,
}

impl Document {
    /// A report without content.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The same with a summary.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// The same with a last line.
    #[must_use]
    pub fn footer(mut self, footer: impl Into<String>) -> Self {
        self.footer = footer.into();
        self
    }

    /// The same with one more block at its end.
    #[must_use]
    pub fn with(mut self, block: impl Into<Block>) -> Self {
        self.push(block);
        self
    }

    /// Adds a block at the end. Key figures that follow each other become one group.
    pub fn push(&mut self, block: impl Into<Block>) {
        push(&mut self.blocks, block.into());
    }
}

/// A heading and what stands below it. Sections nest; their depth is the level of the heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What stands below it, in order.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section without content.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// The same with one more block at its end.
    #[must_use]
    pub fn with(mut self, block: impl Into<Block>) -> Self {
        self.push(block);
        self
    }

    /// Adds a block at the end. Key figures that follow each other become one group.
    pub fn push(&mut self, block: impl Into<Block>) {
        push(&mut self.blocks, block.into());
    }
}

fn push(blocks: &mut Vec<Block>, block: Block) {
    match (blocks.last_mut(), block) {
        (Some(Block::Figures(group)), Block::Figures(more)) => group.extend(more),
        (_, block) => blocks.push(block),
    }
}

/// One thing in a report.
///
/// Paragraphs, items and notes may have code between back quotes; all else in them is plain text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Block {
    /// A section with a heading of its own.
    Section(Section),
    /// Running text.
    Paragraph(String),
    /// Points of one list.
    Items(Vec<String>),
    /// What a reader must not miss: a warning, an assumption, a contradiction.
    Note(String),
    /// Text whose lines stay as they are: commands, raw output.
    Listing(String),
    /// A group of key figures.
    Figures(Vec<KeyFigure>),
    /// A table.
    Table(Table),
    /// A plot; left out in text.
    Plot(Plot),
}

impl Block {
    /// Running text.
    pub fn paragraph(text: impl Into<String>) -> Self {
        Self::Paragraph(text.into())
    }

    /// What a reader must not miss.
    pub fn note(text: impl Into<String>) -> Self {
        Self::Note(text.into())
    }

    /// Text whose lines stay as they are.
    pub fn listing(text: impl Into<String>) -> Self {
        Self::Listing(text.into())
    }

    /// Points of one list.
    pub fn items<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Items(items.into_iter().map(Into::into).collect())
    }
}

impl From<Section> for Block {
    fn from(section: Section) -> Self {
        Self::Section(section)
    }
}

impl From<KeyFigure> for Block {
    fn from(figure: KeyFigure) -> Self {
        Self::Figures(vec![figure])
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Plot> for Block {
    fn from(plot: Plot) -> Self {
        Self::Plot(plot)
    }
}

impl From<&str> for Block {
    fn from(text: &str) -> Self {
        Self::Paragraph(text.to_owned())
    }
}

impl From<String> for Block {
    fn from(text: String) -> Self {
        Self::Paragraph(text)
    }
}

/// A figure large enough to be read from across the room, with what it is judged by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyFigure {
    /// What it is.
    pub label: String,
    /// The value with its unit, as it is to be read.
    pub value: String,
    /// What it is judged by, with its unit; empty where there is no limit.
    pub limit: String,
    /// How it came out; nothing where it is not judged.
    pub verdict: Option<Verdict>,
}

impl KeyFigure {
    /// A figure that is not judged.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), ..Self::default() }
    }

    /// The same with a limit.
    #[must_use]
    pub fn limit(mut self, limit: impl Into<String>) -> Self {
        self.limit = limit.into();
        self
    }

    /// The same with a verdict.
    #[must_use]
    pub fn verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }
}

/// How something came out against its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Within the limit.
    Pass,
    /// Beyond the limit.
    Fail,
    /// Neither can be said: too few samples, an input that was not given.
    Open,
}

impl Verdict {
    /// The word shown for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Open => "open",
        }
    }

    /// A sign before the word, so that colour alone never tells.
    pub fn sign(self) -> char {
        match self {
            Self::Pass => '✓',
            Self::Fail => '✗',
            Self::Open => '?',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_figures_in_a_row_are_one_group() {
        let section = Section::new("a")
            .with(KeyFigure::new("x", "1"))
            .with(KeyFigure::new("y", "2"))
            .with("text")
            .with(KeyFigure::new("z", "3"));
        let groups: Vec<usize> = section
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Figures(group) => Some(group.len()),
                _ => None,
            })
            .collect();
        assert_eq!(groups, [2, 1]);
    }
}
