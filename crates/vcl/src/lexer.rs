//! Tokens, and the files that `include` brings in between them.

use crate::diagnostic::Report;
use freshet_policy::source::{Source, Sources, Span};

/// Files within files. Deeper nesting is a mistake.
const INCLUDE_DEPTH_MAX: usize = 32;
/// Digits of a whole number, as the language has it: larger ones are not exact in every place.
const INTEGER_DIGITS_MAX: usize = 15;
/// Digits before and behind the point of a number.
const REAL_DIGITS_MAX: (usize, usize) = (12, 3);

const TOO_LARGE: &str = "The policy is too large: 16 MiB in 65,535 files at most.";

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A word; its text is the span's.
    Word,
    Int(i64),
    Real(f64),
    /// A string without its quotes.
    Text(Box<str>),
    Blob(Box<[u8]>),
    /// An operator or a bracket.
    Sign(&'static str),
    /// `C{ … }C`
    InlineC,
    End,
}

/// Longest first, so that the first that fits is the right one.
const SIGNS: [&str; 34] = [
    "++", "--", "&&", "||", "<=", ">=", "==", "!=", "!~", "+=", "-=", "*=", "/=", "<<", ">>", "~",
    "!", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", "{", "}", ",", ";", ".", "&", "|",
];

/// Tokens of `main` and all it includes, ended by [`Kind::End`].
pub(crate) fn tokens(
    main: Source,
    sources: &dyn Sources,
    unsafe_paths: bool,
    report: &mut Report,
) -> Vec<Token> {
    let mut loader =
        Loader { sources, unsafe_paths, report, open: Vec::new(), is_full: false, out: Vec::new() };
    loader.file(main, None);
    let mut out = loader.out;
    let span = out.last().map_or_else(Span::default, |last: &Token| Span {
        start: last.span.end,
        end: last.span.end,
        ..last.span
    });
    out.push(Token { kind: Kind::End, span });
    out
}

/// Tokens of one file, `include` among them.
pub(crate) fn own_tokens(source: Source, report: &mut Report) -> Vec<Token> {
    let text = source.text.clone();
    let mut out = Vec::new();
    match report.sources.add(source, None) {
        Some(file) => Lexer { text: &text, at: 0, file, report, out: &mut out }.run(),
        None => {
            report.error(Span::default(), TOO_LARGE);
        }
    }
    out
}

struct Loader<'a> {
    sources: &'a dyn Sources,
    /// Whether names of files may have folders in them.
    unsafe_paths: bool,
    report: &'a mut Report,
    /// Names of the files being read, outermost first.
    open: Vec<String>,
    /// Whether there is more than may be; then no further file is read.
    is_full: bool,
    out: Vec<Token>,
}

impl Loader<'_> {
    fn file(&mut self, source: Source, included_at: Option<Span>) {
        let from = included_at.unwrap_or_default();
        let name = source.name.clone();
        if self.open.contains(&name) {
            self.report.error(from, format!("Recursive use of file\n{name} includes itself"));
            return;
        }
        if self.open.len() >= INCLUDE_DEPTH_MAX {
            self.report.error(from, "Files include one another too deeply.");
            return;
        }
        let text = source.text.clone();
        let Some(file) = self.report.sources.add(source, included_at) else {
            self.report.error(from, TOO_LARGE);
            self.is_full = true;
            return;
        };
        self.open.push(name);
        let mut own = Vec::new();
        Lexer { text: &text, at: 0, file, report: self.report, out: &mut own }.run();
        let mut rest = own.into_iter().peekable();
        while let Some(token) = rest.next() {
            let is_include =
                token.kind == Kind::Word && self.report.sources.text(token.span) == "include";
            // `.include = …` and `x.include` are no directives.
            let follows_dot = self.out.last().is_some_and(|before| before.kind == Kind::Sign("."));
            if is_include && !follows_dot {
                self.include(token.span, &mut rest);
            } else {
                self.out.push(token);
            }
        }
        self.open.pop();
    }

    fn include(&mut self, span: Span, rest: &mut std::iter::Peekable<std::vec::IntoIter<Token>>) {
        let mut glob = false;
        if rest.next_if(|token| token.kind == Kind::Sign("+")).is_some() {
            glob = true;
            let word = rest.next_if(|token| token.kind == Kind::Word);
            if word.is_none_or(|word| self.report.sources.text(word.span) != "glob") {
                self.report.error(span, "Unknown include flag.").help =
                    Some("the only one is `include +glob \"pattern\";`".into());
            }
        }
        let Some(Token { kind: Kind::Text(name), span: name_span }) =
            rest.next_if(|token| matches!(token.kind, Kind::Text(_)))
        else {
            self.report.error(span, "include not followed by string constant.");
            return;
        };
        if rest.next_if(|token| token.kind == Kind::Sign(";")).is_none() {
            self.report.error(name_span, "include <string> not followed by semicolon.");
        }
        if self.is_full {
            return;
        }
        if !self.unsafe_paths && name.contains('/') {
            self.report.error(name_span, format!("VCL filename '{name}' is unsafe."));
            return;
        }
        let from = self.open.last().cloned().unwrap_or_default();
        match self.sources.include(&name, &from, glob) {
            Ok(files) => files.into_iter().for_each(|file| self.file(file, Some(name_span))),
            Err(why) => {
                self.report.error(name_span, why);
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    file: u16,
    report: &'a mut Report,
    out: &'a mut Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while self.at < self.text.len() {
            self.token();
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        // A file is below SOURCE_BYTES_MAX.
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    fn push(&mut self, kind: Kind, start: usize) {
        let span = self.span(start);
        self.out.push(Token { kind, span });
    }

    fn error(&mut self, start: usize, message: impl Into<String>) {
        let span = self.span(start);
        self.report.error(span, message);
    }

    fn token(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        if first.is_ascii_whitespace() || first == '\u{b}' {
            self.at += 1;
        } else if first == '#' || rest.starts_with("//") {
            self.at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            self.comment();
        } else if rest.starts_with("C{") {
            let end = rest.find("}C");
            self.at += end.map_or(rest.len(), |end| end + 2);
            match end {
                Some(_) => self.push(Kind::InlineC, start),
                None => self.error(start, "Unterminated inline C source, starting at"),
            }
        } else if rest.starts_with("\"\"\"") {
            self.long_text(3, "\"\"\"");
        } else if rest.starts_with("{\"") {
            self.long_text(2, "\"}");
        } else if first == '"' {
            self.short_text();
        } else if first.is_ascii_alphabetic() {
            let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            self.at += rest.bytes().take_while(|byte| word(*byte)).count();
            self.push(Kind::Word, start);
        } else if first.is_ascii_digit() {
            self.number();
        } else if first == ':' {
            self.blob();
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            self.push(Kind::Sign(sign), start);
        } else {
            self.at += first.len_utf8();
            self.error(start, format!("Syntax error\nthe character '{first}' means nothing here"));
        }
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let Some(end) = rest[2..].find("*/").map(|end| end + 2) else {
            self.at = self.text.len();
            let at = Span { end: start as u32 + 2, ..self.span(start) };
            self.report.error(at, "Unterminated /* ... */ comment, starting at");
            return;
        };
        if let Some(inner) = rest[2..end].find("/*") {
            let mark = |at: usize| Span { file: self.file, start: at as u32, end: at as u32 + 2 };
            let (outer, inner) = (mark(start), mark(start + 2 + inner));
            let diagnostic = self.report.error(outer, "/* ... */ comment contains /*");
            diagnostic.related.push((inner, "this one".into()));
        }
        self.at += end + 2;
    }

    fn long_text(&mut self, open: usize, close: &str) {
        let start = self.at;
        let rest = &self.rest()[open..];
        match rest.find(close) {
            Some(end) => {
                self.at += open + end + close.len();
                self.text_token(&rest[..end], start);
            }
            None => {
                self.at = self.text.len();
                let at = Span { end: start as u32 + open as u32, ..self.span(start) };
                self.report.error(at, "Unterminated long-string, starting at");
            }
        }
    }

    fn short_text(&mut self) {
        let start = self.at;
        let rest = &self.rest()[1..];
        match rest.find(['"', '\n', '\r']) {
            Some(end) if rest.as_bytes()[end] == b'"' => {
                self.at += end + 2;
                self.text_token(&rest[..end], start);
            }
            end => {
                self.at += 1 + end.unwrap_or(rest.len());
                self.error(start, "Unterminated string, starting at");
            }
        }
    }

    fn text_token(&mut self, text: &str, start: usize) {
        if text.contains('\0') {
            self.error(start, "A string holds a NUL character.");
        }
        self.push(Kind::Text(text.into()), start);
    }

    fn number(&mut self) {
        let start = self.at;
        let rest = self.rest().as_bytes();
        let whole = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let behind = rest.get(whole + 1..).unwrap_or(&[]);
        let decimals = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_real = rest.get(whole) == Some(&b'.');
        self.at += if is_real { whole + 1 + decimals } else { whole };
        let text = &self.text[start..self.at];
        if is_real {
            if whole > REAL_DIGITS_MAX.0 || decimals > REAL_DIGITS_MAX.1 {
                self.error(start, "Too many digits for real.");
            }
            let value = text.trim_end_matches('.').parse().unwrap_or(0.0);
            self.push(Kind::Real(value), start);
        } else {
            if whole > INTEGER_DIGITS_MAX {
                self.error(start, "Too many digits for integer.");
            }
            let value = text.parse().unwrap_or(0);
            self.push(Kind::Int(value), start);
        }
    }

    /// Base64 between colons, as RFC 8941 §3.3.5 has it, its padding included.
    fn blob(&mut self) {
        let start = self.at;
        let rest = &self.rest().as_bytes()[1..];
        let body = rest.iter().take_while(|byte| is_base64(**byte)).count();
        let padding = rest[body..].iter().take_while(|byte| **byte == b'=').count();
        let text = &self.text[start + 1..start + 1 + body];
        let message = match rest.get(body + padding) {
            None => Some("Missing colon at end of BLOB"),
            Some(byte) if byte.is_ascii_whitespace() => Some("Missing colon at end of BLOB"),
            Some(b':') if (body + padding) % 4 != 0 || padding > 2 => {
                Some("BLOB must have n*4 base64 characters")
            }
            Some(b':') if has_spare_bits(text) => Some("Illegal BLOB character:"),
            Some(b':') => None,
            Some(_) if padding > 0 => Some("Wrong padding ('=') in BLOB"),
            Some(_) => Some("Illegal BLOB character:"),
        };
        let Some(message) = message else {
            self.at += body + padding + 2;
            if let Some(bytes) = freshet_policy::modules::base64(text) {
                self.push(Kind::Blob(bytes.into()), start);
            }
            return;
        };
        // Go on behind what was meant to be one token.
        let tail = &self.text[self.at + 1..];
        self.at += 1 + tail.find(|c: char| c.is_whitespace() || c == '}').unwrap_or(tail.len());
        self.error(start, message);
    }
}

/// Whether the last sign of a base64 text leaves bits that belong to no byte.
fn has_spare_bits(text: &str) -> bool {
    let Some(last) = text.bytes().next_back() else { return false };
    let value = match last {
        b'A'..=b'Z' => last - b'A',
        b'a'..=b'z' => last - b'a' + 26,
        b'0'..=b'9' => last - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    match text.len() % 4 {
        2 => value & 0x0f != 0,
        3 => value & 0x03 != 0,
        _ => false,
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}
