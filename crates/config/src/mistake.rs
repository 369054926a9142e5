//! What is wrong with a configuration, and where in its text.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// One thing that is wrong with a configuration, or that may not be what was meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// How bad.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do, where the message does not say it.
    pub help: Option<String>,
    /// Where in the text.
    pub place: Place,
}

/// How bad a mistake is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// A node does not start with it.
    Error,
    /// A node starts with it, and may not do what was meant.
    Warning,
}

/// The bytes of a text that something was read from; nowhere where a flag gave it.
#[derive(Clone, Copy)]
pub struct Place {
    /// Texts have 16 MiB at most; [`u32::MAX`] is nowhere.
    start: u32,
    end: u32,
    /// Which of the texts that were laid one over the other, the uppermost first.
    text: u8,
}

impl Mistake {
    /// What keeps a node from starting.
    pub fn error(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), help: None, place }
    }

    /// What does not keep it from that.
    pub fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Whether another one says the same of the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.message == other.message
            && self.place.text == other.place.text
            && self.place.span().is_some()
            && self.place.span() == other.place.span()
    }

    /// All of what can be had, or all that is wrong.
    ///
    /// # Errors
    /// That.
    pub fn collect<T, All: FromIterator<T>>(
        each: impl Iterator<Item = Result<T, Self>>,
    ) -> Result<All, Vec<Self>> {
        let mut wrong = Vec::new();
        let all = each.filter_map(|one| one.map_err(|mistake| wrong.push(mistake)).ok()).collect();
        if wrong.is_empty() { Ok(all) } else { Err(wrong) }
    }

    /// Whether a node cannot start with it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl Place {
    /// Its bytes, where it is anywhere.
    pub fn span(self) -> Option<Range<usize>> {
        (self.start < u32::MAX).then_some(self.start as usize..self.end as usize)
    }

    /// Its line and column in `text`, both from 1, the column in characters.
    pub fn line_and_column(self, text: &str) -> Option<(usize, usize)> {
        let before = text.get(..self.span()?.start)?;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..)?.chars().count();
        Some((before.matches('\n').count() + 1, column + 1))
    }

    /// Which text it is in, where several were laid one over the other: 0 is the uppermost.
    pub fn text(self) -> usize {
        self.text.into()
    }

    /// On a command line: in no text.
    pub(crate) fn of_flag() -> Self {
        Self::default().in_text(u8::MAX)
    }

    /// The same place in the text of this number.
    #[must_use]
    pub(crate) fn in_text(self, text: u8) -> Self {
        Self { text, ..self }
    }

    /// This place, or another one where it is nowhere.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.start < u32::MAX { self } else { other }
    }
}

impl Default for Place {
    /// Nowhere.
    fn default() -> Self {
        Self { start: u32::MAX, end: u32::MAX, text: 0 }
    }
}

impl From<Range<usize>> for Place {
    fn from(span: Range<usize>) -> Self {
        let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: byte(span.start), end: byte(span.end), text: 0 }
    }
}

/// Settings are the same wherever they are written.
impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// The mistakes as a compiler shows them: file, line, the text underlined.
pub fn render(file: &str, text: &str, mistakes: &[Mistake]) -> String {
    let mut out = String::new();
    for mistake in mistakes {
        let level = match mistake.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        // What is wrong with a policy brings its own lines.
        let (title, rest) = mistake.message.split_once('\n').unwrap_or((&mistake.message, ""));
        let title = level.primary_title(title);
        let span = mistake.place.span().filter(|span| text.get(span.clone()).is_some());
        let mut group = match span {
            Some(span) => {
                let annotation = AnnotationKind::Primary.span(span);
                title.element(Snippet::source(text).path(file).annotation(annotation))
            }
            None if file.is_empty() => Group::with_title(title),
            None => title.element(Origin::path(file)),
        };
        if let Some(help) = &mistake.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        out.push_str(&Renderer::plain().render(&[group]));
        out.push('\n');
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_line_and_a_column() {
        let text = "a = 1\n\u{fc} = 22\n";
        let at = |span: Range<usize>| Place::from(span).line_and_column(text);
        assert_eq!(at(0..1), Some((1, 1)));
        assert_eq!(at(11..13), Some((2, 5)));
        assert_eq!(at(14..14), Some((3, 1)), "the end is a place");
        assert_eq!(Place::default().line_and_column(text), None);
        assert_eq!(at(90..99), None, "not of this text");
    }

    #[test]
    fn what_is_nowhere_is_shown_with_its_file() {
        let mistake = Mistake::warning(Place::default(), "no origin").help("give one");
        let shown = render("a.toml", "", std::slice::from_ref(&mistake));
        assert!(shown.contains("warning: no origin") && shown.contains("a.toml"), "{shown}");
        assert!(shown.contains("help: give one"), "{shown}");
        let shown = render("", "", &[mistake]);
        assert!(shown.contains("warning: no origin") && shown.contains("help"), "{shown}");
    }
}
