//! What is wrong with a policy, and where.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use freshet_policy::source::{SourceMap, Span};
use std::fmt::Write as _;

/// Messages of one compilation; further ones are counted only. A person reads no more at a time.
pub const DIAGNOSTICS_MAX: usize = 100;

/// How bad it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// There is no program.
    Error,
    /// There is, and it may not do what was meant.
    Warning,
}

/// What a compiler is at when it finds a mistake. Varnish's ends with the first it finds, so mistakes are
/// told in this order.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Stage {
    /// The policy is split into tokens, with all it includes.
    #[default]
    Tokens,
    /// It is read from its start to its end.
    Text,
    /// What it names is compared with what it declares.
    References,
    /// What states and all they call return is compared with what each can.
    Actions,
    /// The same of what they use.
    Uses,
    /// It is looked at as a whole.
    Whole,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Other places that belong to it, with what they are.
    pub related: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
    /// What the compiler was at.
    pub(crate) stage: Stage,
    /// Where it noticed that, if that is behind the place itself.
    pub(crate) noticed_at: Option<Span>,
}

/// All that was found in one compilation, with the texts it was found in.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files.
    pub sources: SourceMap,
    /// What is wrong, first what Varnish's compiler tells; [`DIAGNOSTICS_MAX`] at most.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more there were.
    pub omitted: usize,
    /// What the compiler is at.
    pub(crate) stage: Stage,
}

impl Report {
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.contains(&diagnostic) {
            return;
        }
        if self.diagnostics.len() < DIAGNOSTICS_MAX {
            self.diagnostics.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            span,
            related: Vec::new(),
            help: None,
            stage: self.stage,
            noticed_at: None,
        });
        self.diagnostics.last_mut().expect("the list holds at least the one just added")
    }

    /// Says that all mistakes behind the first `before` were noticed at a place, unless they say where.
    pub(crate) fn noticed_at(&mut self, before: usize, place: Span) {
        for one in self.diagnostics.iter_mut().skip(before) {
            one.noticed_at.get_or_insert(place);
        }
    }

    /// Puts them in the order in which they are told.
    pub(crate) fn sort(&mut self) {
        let Self { diagnostics, sources, .. } = self;
        // What is found when all was read is in its order already.
        diagnostics.sort_by_cached_key(|one| {
            let is_in_text = one.stage == Stage::Text;
            let place = is_in_text.then(|| sources.order(one.noticed_at.unwrap_or(one.span)));
            (one.stage, place)
        });
    }

    /// Whether there is an error among them.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|one| one.severity == Severity::Error)
    }

    /// All of it for a terminal, each with the source text and a mark below it.
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for one in &self.diagnostics {
            self.render_one(one, &renderer, &mut out);
        }
        if self.omitted > 0 {
            let _ = writeln!(out, "and {} more", self.omitted);
        }
        out
    }

    fn render_one(&self, one: &Diagnostic, renderer: &Renderer, out: &mut String) {
        let level = match one.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let (title, notes) = one.message.split_once('\n').unwrap_or((&one.message, ""));
        let mut group = level.primary_title(title);
        let mut elements = Vec::new();
        if let Some(file) = self.sources.file(one.span) {
            let mut snippet = Snippet::source(file.text.as_str())
                .path(file.name.as_str())
                .annotation(AnnotationKind::Primary.span(range(one.span, &file.text)));
            for (span, label) in one.related.iter().filter(|(span, _)| span.file == one.span.file) {
                snippet = snippet.annotation(
                    AnnotationKind::Context.span(range(*span, &file.text)).label(label.as_str()),
                );
            }
            elements.push(snippet);
        }
        let elsewhere = one.related.iter().filter(|(span, _)| span.file != one.span.file);
        for (span, label) in elsewhere {
            if let Some(file) = self.sources.file(*span) {
                let annotation = AnnotationKind::Context.span(range(*span, &file.text));
                elements.push(
                    Snippet::source(file.text.as_str())
                        .path(file.name.as_str())
                        .annotation(annotation.label(label.as_str())),
                );
            }
        }
        let _ = &mut group;
        let mut report = group.elements(elements);
        if !notes.is_empty() {
            report = report.element(Level::NOTE.message(notes));
        }
        if let Some(help) = &one.help {
            report = report.element(Level::HELP.message(help.as_str()));
        }
        out.push_str(&renderer.render(&[report]));
        out.push('\n');
    }

    /// The errors as Varnish's compiler prints them, for tools that read its messages.
    pub fn render_vcc(&self) -> String {
        let mut out = self.vcc_messages(Severity::Error, "");
        out.push_str("Running VCC-compiler failed, exited with 2\nVCL compilation failed");
        out
    }

    /// The warnings as Varnish's compiler prints them; empty where there are none.
    pub fn render_vcc_warnings(&self) -> String {
        if self.diagnostics.iter().all(|one| one.severity == Severity::Error) {
            return String::new();
        }
        self.vcc_messages(Severity::Warning, "(That was just a warning)\n")
    }

    fn vcc_messages(&self, severity: Severity, behind: &str) -> String {
        let mut out = String::from("Message from VCC-compiler:\n");
        for one in self.diagnostics.iter().filter(|one| one.severity == severity) {
            let _ = writeln!(out, "{}", one.message);
            // What is many words is told with its end.
            let told = if one.message.starts_with("Symbol not found: '") {
                out.push_str("At: ");
                Place::Whole
            } else {
                Place::Start
            };
            self.vcc_place(one.span, told, &mut out);
            out.push('\n');
            for (span, label) in &one.related {
                // What goes on with the message is a paragraph of its own.
                let (before, end) = if label.starts_with("...") { ("\n", "") } else { ("", ":") };
                let _ = writeln!(out, "{before}{label}{end}");
                self.vcc_place(*span, Place::Start, &mut out);
                out.push('\n');
            }
            out.push_str(behind);
        }
        out
    }

    fn vcc_place(&self, span: Span, told: Place, out: &mut String) {
        let (name, line, _) = self.sources.place(span);
        let Some((text, marked)) = self.sources.line(span) else { return };
        let (mut shown, mut marks, mut width) = (String::new(), String::new(), 0);
        let (mut column, mut last) = (0, 0);
        for (at, sign) in text.char_indices() {
            let is_marked = marked.contains(&at) || (marked.is_empty() && at == marked.start);
            let cells = if sign == '\t' { TAB_CELLS - width % TAB_CELLS } else { 1 };
            if at == marked.start {
                column = width;
            }
            if is_marked {
                last = width;
            }
            match sign {
                '\t' => shown.extend(std::iter::repeat_n(' ', cells)),
                sign => shown.push(sign),
            }
            marks.extend(std::iter::repeat_n(if is_marked { '#' } else { '-' }, cells));
            width += cells;
        }
        if marked.start >= text.len() {
            column = width;
        }
        let _ = write!(out, "('{name}' Line {line} Pos {})", column + 1);
        if told == Place::Whole {
            let _ = write!(out, " -- (Pos {})", last.max(column) + 1);
        }
        let _ = writeln!(out, "\n{shown}\n{marks}");
    }
}

/// What is told of a place in the words of Varnish's compiler.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Where it begins.
    Start,
    /// Where it begins and ends.
    Whole,
}

/// Cells from one stop of a tab to the next.
const TAB_CELLS: usize = 8;

/// A span as a range of bytes that lies within `text` on boundaries of characters.
fn range(span: Span, text: &str) -> std::ops::Range<usize> {
    let start = floor_char(text, span.start as usize);
    start..floor_char(text, span.end as usize).max(start)
}

fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The known name nearest to `name`, where one is near enough to have been meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = (name.len() / 3).max(1);
    known
        .map(|candidate| (distance(name, candidate, far), candidate))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance of two names, without regard to case; names whose lengths differ by more
/// than `most` are that far apart without a look.
fn distance(a: &str, b: &str, most: usize) -> usize {
    if a.len().abs_diff(b.len()) > most {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let cost = usize::from(!x.eq_ignore_ascii_case(&y));
            let next = (diagonal + cost).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
