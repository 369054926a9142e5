//! The layout of a policy: one way to indent and to space, with every token and comment where it was.
//!
//! Lines stay lines. What changes is the white space between tokens, so a policy means the same
//! before and after, and its layout laid out again is the same.

use crate::diagnostic::Report;
use crate::lexer::{self, Kind, Token};
use freshet_policy::source::{Source, SourceMap};

/// Columns of a level.
const INDENT: usize = 4;

/// Words with brackets behind them that are no calls.
const KEYWORDS: [&str; 7] = ["if", "elseif", "elsif", "elif", "else", "return", "call"];

/// Lays a policy out. What it includes is not read.
///
/// # Errors
/// What of it is no policy at all: strings and comments without an end, signs without a meaning.
pub fn format(source: Source) -> Result<String, Report> {
    let mut report = Report::default();
    let text = source.text.clone();
    let tokens = lexer::own_tokens(source, &mut report);
    if report.has_errors() {
        return Err(report);
    }
    let mut layout = Layout {
        text: &text,
        sources: &report.sources,
        out: String::with_capacity(text.len()),
        blocks: 0,
        brackets: 0,
        breaks: 0,
        before: None,
        after_comment: false,
        first_word: String::new(),
    };
    let mut at = 0;
    for token in &tokens {
        layout.gap(&text[at..token.span.start as usize]);
        layout.token(token);
        at = token.span.end as usize;
    }
    layout.gap(&text[at..]);
    Ok(layout.finish())
}

struct Layout<'a> {
    text: &'a str,
    sources: &'a SourceMap,
    out: String,
    /// Blocks and brackets around what comes next.
    blocks: usize,
    brackets: usize,
    /// Line breaks since the last token or comment; two are an empty line.
    breaks: usize,
    before: Option<Token>,
    /// Whether the last thing was a comment.
    after_comment: bool,
    /// What the statement or declaration begins with.
    first_word: String,
}

impl Layout<'_> {
    /// White space and comments between two tokens.
    fn gap(&mut self, gap: &str) {
        self.breaks = 0;
        let mut rest = gap;
        while let Some(first) = rest.chars().next() {
            if first == '\n' {
                self.breaks += 1;
            }
            if first.is_whitespace() {
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let len = match rest.strip_prefix("/*").and_then(|inner| inner.find("*/")) {
                Some(end) => end + 4,
                None => rest.find('\n').unwrap_or(rest.len()),
            };
            let (comment, behind) = rest.split_at(len);
            self.comment(comment.trim_end());
            rest = behind;
            self.breaks = 0;
        }
    }

    fn comment(&mut self, comment: &str) {
        if self.breaks > 0 || self.out.is_empty() {
            self.new_line(false);
        } else {
            self.out.push(' ');
        }
        self.out.push_str(comment);
        self.after_comment = true;
    }

    fn token(&mut self, token: &Token) {
        let text = self.sources.text(token.span);
        let closes = matches!(token.kind, Kind::Sign("}"));
        if closes {
            self.blocks = self.blocks.saturating_sub(1);
        }
        if matches!(token.kind, Kind::Sign(")")) {
            self.brackets = self.brackets.saturating_sub(1);
        }
        if self.out.is_empty() || self.breaks > 0 {
            self.new_line(closes);
        } else if self.after_comment || self.is_spaced(token) {
            self.out.push(' ');
        }
        if self.begins_statement() {
            text.clone_into(&mut self.first_word);
        }
        self.out.push_str(text);
        match token.kind {
            Kind::Sign("{") => {
                self.blocks += 1;
                self.brackets = 0;
            }
            Kind::Sign("(") => self.brackets += 1,
            _ => {}
        }
        self.before = Some(token.clone());
        self.after_comment = false;
    }

    /// Whether what comes next begins a statement or declaration.
    fn begins_statement(&self) -> bool {
        match &self.before {
            None => true,
            Some(before) => matches!(before.kind, Kind::Sign(";" | "{" | "}")),
        }
    }

    fn new_line(&mut self, closes: bool) {
        if !self.out.is_empty() {
            let opened = matches!(&self.before, Some(Token { kind: Kind::Sign("{"), .. }))
                && !self.after_comment;
            let empty = self.breaks > 1 && !opened && !closes;
            self.out.push_str(if empty { "\n\n" } else { "\n" });
        }
        // What goes on with a statement is one level further in.
        let goes_on = !closes && (self.brackets > 0 || !self.begins_statement());
        let columns = (self.blocks + usize::from(goes_on)) * INDENT;
        self.out.extend(std::iter::repeat_n(' ', columns));
    }

    /// Whether a space belongs between the token before and this one, on one line.
    fn is_spaced(&self, token: &Token) -> bool {
        let Some(before) = &self.before else { return false };
        let word_before = self.sources.text(before.span);
        let is_operand = match &before.kind {
            Kind::Word => !KEYWORDS.contains(&word_before),
            Kind::Int(_) | Kind::Real(_) | Kind::Text(_) | Kind::Blob(_) => true,
            Kind::Sign(sign) => *sign == ")",
            _ => false,
        };
        match (&before.kind, &token.kind) {
            (_, Kind::Sign(";" | "," | ")")) => false,
            (Kind::Sign("("), _) => false,
            // `.host` begins a field; elsewhere a point joins names.
            (Kind::Sign("{" | ";" | "}"), Kind::Sign(".")) => true,
            (_, Kind::Sign(".")) | (Kind::Sign("."), _) => false,
            (_, Kind::Sign("(")) => !is_operand,
            // The mask of a network.
            (Kind::Text(_), Kind::Sign("/")) | (Kind::Sign("/"), Kind::Int(_))
                if self.first_word.starts_with(['"', '!', '(']) =>
            {
                false
            }
            (Kind::Sign("!"), Kind::Text(_)) => true,
            (Kind::Sign("!"), _) => false,
            // A number and its unit; the flag of a list; the sign of a number.
            (Kind::Int(_) | Kind::Real(_), Kind::Word) => false,
            (Kind::Sign("+" | "-"), Kind::Word) if self.first_word == "acl" => false,
            (Kind::Sign("+" | "-"), Kind::Word) if self.first_word == "include" => false,
            (Kind::Sign("-"), Kind::Int(_) | Kind::Real(_)) => self.is_difference(),
            _ => true,
        }
    }

    /// Whether the `-` that was just written is between two operands.
    fn is_difference(&self) -> bool {
        let Some(before) = &self.before else { return false };
        let start = before.span.start as usize;
        let left = self.text[..start].trim_end();
        left.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '"' | '_' | ':'))
            && !KEYWORDS.iter().any(|word| left.ends_with(word))
    }

    fn finish(mut self) -> String {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_policy::source::NoFiles;

    fn laid_out(text: &str) -> String {
        format(Source { name: "x".into(), text: text.into() }).unwrap()
    }

    #[test]
    fn layouts() {
        let rows = [
            ("vcl  4.1 ;import std;", "vcl 4.1; import std;\n"),
            ("sub a{set req.url=\"/\"+  1 ;}", "sub a { set req.url = \"/\" + 1; }\n"),
            (
                "sub a {\nif(req.url~\"a\"){\npass( );\n}\n}",
                "sub a {\n    if (req.url ~ \"a\") {\n        pass();\n    }\n}\n",
            ),
            (
                "acl a+log{\n\"10.0.0.0\" / 8;\n!\"10.0.0.1\";\n}",
                "acl a +log {\n    \"10.0.0.0\"/8;\n    ! \"10.0.0.1\";\n}\n",
            ),
            (
                "backend b {\n.host=\"a\";\n\n\n\n.port = \"80\";\n\n}",
                "backend b {\n    .host = \"a\";\n\n    .port = \"80\";\n}\n",
            ),
            (
                "# one\n\n\nsub a { # two\n/* three */ set beresp.ttl = -1 s; // four\n}",
                "# one\n\nsub a { # two\n    /* three */ set beresp.ttl = -1s; // four\n}\n",
            ),
            (
                "sub a {\nset req.http.A = \"a\"\n+ req.url\n+ \"b\";\n}",
                "sub a {\n    set req.http.A = \"a\"\n        + req.url\n        + \"b\";\n}\n",
            ),
            (
                "sub a { set req.ttl = 3s -1s; return(synth(404,\"x\")); }",
                "sub a { set req.ttl = 3s - 1s; return (synth(404, \"x\")); }\n",
            ),
            (
                "sub a { synthetic({\"x\n  y\"}); if (!req.http.a) { } }",
                "sub a { synthetic({\"x\n  y\"}); if (!req.http.a) { } }\n",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(laid_out(text), expected, "{text}");
            assert_eq!(laid_out(expected), expected);
        }
    }

    #[test]
    fn a_policy_means_the_same_and_is_laid_out_once() {
        let tokens = |text: &str| -> Vec<Kind> {
            let source = Source { name: "x".into(), text: text.into() };
            let tokens = lexer::tokens(source, &NoFiles, true, &mut Report::default());
            tokens.into_iter().map(|token| token.kind).collect()
        };
        let once = laid_out(crate::BUILTIN);
        assert_eq!(tokens(&once), tokens(crate::BUILTIN));
        assert_eq!(laid_out(&once), once);
    }
}
