//! What is wrong with an input, where, and what to do about it.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::ops::Range;
use thiserror::Error;

/// Why a plan cannot be made. Each kind says whose the mistake is.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The file of inputs: all its mistakes, each shown in place.
    #[error("{0}")]
    ConfigFile(String),
    /// A value given with `--set` or `--vary`.
    #[error("{0}")]
    ConfigFlag(String),
    /// A result file that was to be fitted.
    #[error("{0}")]
    ConfigResult(String),
}

/// One mistake in a file, with the bytes of the text it is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Mistake {
    pub(crate) message: String,
    /// What to do; may be empty.
    pub(crate) help: String,
    pub(crate) span: Range<usize>,
}

/// All mistakes as a compiler shows them: file, line, the text underlined.
pub(crate) fn render(file: &str, text: &str, mistakes: &[Mistake]) -> String {
    let mut out = String::new();
    for mistake in mistakes {
        let snippet = Snippet::source(text)
            .path(file)
            .annotation(AnnotationKind::Primary.span(mistake.span.clone()));
        let mut group = Level::ERROR.primary_title(mistake.message.as_str()).element(snippet);
        if !mistake.help.is_empty() {
            group = group.element(Level::HELP.message(mistake.help.as_str()));
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&Renderer::plain().render(&[group]));
    }
    out
}
